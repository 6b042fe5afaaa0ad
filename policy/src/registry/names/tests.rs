use super::*;

fn claim(names: &mut Names, owner: usize, name: &str, since: u64, room: bool) -> Claim {
    names.claim(First { owner, name: name.into(), since }, 0.85, room, &mut Effort::default())
}

fn compared(first: &str, later: &str) -> Option<Likeness> {
    let mut names = Names::default();
    assert_eq!(claim(&mut names, 0, first, 0, true), Claim::Free);
    match claim(&mut names, 1, later, 0, true) {
        Claim::Later(_, likeness) => Some(likeness),
        _ => None,
    }
}

/// Two names, and how they are alike.
#[test]
fn names_are_compared_by_visual_likeness() {
    use Likeness::*;
    let cases = [
        ("read_file", "read_file", Some(Same)),
        ("read_file", "read-file", Some(Spelling)),
        ("read_file", "readFile", Some(Spelling)),
        ("read_file", "READ.FILE", Some(Spelling)),
        ("getItem", "get_item", Some(Spelling)),
        ("get-user", "get\u{2010}user", Some(Spelling)),
        ("get-user", "get,user!", Some(Spelling)),
        ("c", "c++", None),
        ("get-user", "get\u{2212}user", Some(Spelling)),
        ("read/file", "read\u{2044}file", Some(Spelling)),
        ("read_file", "read\u{2800}file", Some(Spelling)),
        ("straße", "STRASSE", Some(Confusable)),
        ("read_file", "r\u{435}ad_file", Some(Confusable)),
        ("read_file", "read\u{200b}_file", Some(Confusable)),
        ("read_file", "\u{ff52}ead_file", Some(Confusable)),
        ("list_all", "1ist_a1l", Some(Confusable)),
        ("pull", "puII", Some(Confusable)),
        ("list_files", "Iist_fiIes", Some(Confusable)),
        ("delete", "deIete", Some(Confusable)),
        ("format_code", "forrnat_c0de", Some(Confusable)),
        ("github", "githab", Some(Similar)),
        ("github", "gihtub", Some(Typo)),
        ("read_file", "read_files", Some(Similar)),
        ("send_message_now", "send_mesage_nowx", Some(Similar)),
        ("run_migration", "run_migraton", Some(Typo)),
        ("list_contacts", "list_contracts", Some(Similar)),
        ("get", "set", None),
        ("send", "read", None),
        ("create_issue", "delete_issue", None),
        ("list_mail", "llst_maiI", Some(Confusable)),
        ("getItem", "get1tem", Some(Confusable)),
        ("read_notes", "read_nodes", Some(Similar)),
        ("fold_map", "fodl_map", Some(Typo)),
        ("turn_key", "turn\u{ad}_key\u{feff}", Some(Confusable)),
        ("turn_key", "turn_\u{24da}ey", Some(Confusable)),
        ("run_5", "run_s", None),
        ("hold", "hole", None),
        ("github", "gitlab", None),
        ("___", "---", None),
        ("", "", Some(Same)),
    ];
    for (first, later, expected) in cases {
        assert_eq!(compared(first, later), expected, "{first} {later}");
    }
}

/// Two names of servers. Short ones are alike where they look alike, and not for a letter that differs.
#[test]
fn server_names_are_compared_at_any_length() {
    use Likeness::*;
    for (first, later, expected) in [
        ("git", "glt", Some(Confusable)),
        ("git", "g1t", Some(Confusable)),
        ("mcp-server-git", "glt-mcp", Some(Confusable)),
        ("mcp-server-git", "m\u{441}p-server-git", Some(Same)),
        ("jira", "j1r4", Some(Confusable)),
        ("mcp-jira", "J1RA_server", Some(Confusable)),
        ("n8n", "n\u{ad}8n", Some(Confusable)),
        ("web", "vveb", Some(Confusable)),
        ("s3", "53", Some(Confusable)),
        ("gmail", "gmall", Some(Confusable)),
        ("linear", "linaer", Some(Typo)),
        ("mcp-server-sqlite", "sqllite-mcp", Some(Typo)),
        ("slack", "slacks", Some(Similar)),
        ("git", "got", None),
        ("git", "pip", None),
        ("s3", "s2", None),
        ("aws-mcp", "ads-mcp", None),
        ("time", "mcp-server-file", None),
    ] {
        let mut names = Names::of_servers();
        assert_eq!(claim(&mut names, 0, &core_of_server(first), 0, true), Claim::Free);
        let found = match claim(&mut names, 1, &core_of_server(later), 0, true) {
            Claim::Later(_, likeness) => Some(likeness),
            _ => None,
        };
        assert_eq!(found, expected, "{first} {later}");
    }
}

/// As far as it is asked for, the distance is that of a library that computes all of it.
#[test]
fn distance_equals_reference_within_its_bound() {
    let letters = |seed: u64, length: usize| -> String {
        let mut state = seed;
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'a' + (state >> 33) as u8 % 3)
            })
            .collect()
    };
    let mut steps = usize::MAX;
    for seed in 0..400 {
        let (one, other) = (letters(seed, seed as usize % 9), letters(seed + 7, (seed / 9) as usize % 9));
        let full = strsim::osa_distance(&one, &other);
        for most in 0..6 {
            if one.is_empty() {
                continue;
            }
            let found = Pattern::new(&one).distance(&other, other.len(), most, &mut steps);
            assert_eq!(found, Some(full).filter(|full| *full <= most), "{one} {other} {most}");
        }
    }
    assert_eq!(Pattern::new("abc").distance("abc", 3, 1, &mut 2), None);
}

#[test]
fn allowed_edits_scale_with_name_length() {
    for (length, threshold, expected) in [
        (6, 0.85, 1),
        (3, 0.85, 0),
        (12, 0.85, 2),
        (20, 0.85, 3),
        (240, 0.85, 5),
        (6, 1.0, 0),
        (10, 0.0, 5),
        (6, f64::NAN, 0),
    ] {
        assert_eq!(edits(length, threshold), expected, "{length} {threshold}");
    }
}

#[test]
fn server_names_are_compared_without_common_words() {
    for (name, core) in [
        ("mcp-server-git", "git"),
        ("mcp_server_sqlite", "sqlite"),
        ("@acme/git-mcp-server", "acme-git"),
        ("mcp-server", "mcp-server"),
        ("filesystem", "filesystem"),
    ] {
        assert_eq!(core_of_server(name), core);
    }
}

#[test]
fn earlier_claimant_owns_name_in_any_list_order() {
    let mut names = Names::default();
    claim(&mut names, 0, "search", 20, true);
    let second = First { owner: 0, name: "search".into(), since: 20 };
    assert_eq!(claim(&mut names, 1, "search", 10, true), Claim::Earlier(second, Likeness::Same));
    let first = First { owner: 1, name: "search".into(), since: 10 };
    assert_eq!(claim(&mut names, 0, "search", 20, true), Claim::Later(first, Likeness::Same));
    assert_eq!(claim(&mut names, 1, "search", 10, true), Claim::Free);
    assert_eq!(claim(&mut names, 1, "Search", 30, true), Claim::Free);
    assert_eq!(claim(&mut names, 2, "other", 0, false), Claim::Refused);
    assert_eq!(names.len(), 1);
}

/// Long names, and letters of other scripts.
#[test]
fn distance_of_long_names_equals_reference() {
    let long = "send_message_to_the_administrators_".repeat(4);
    for (one, other) in [
        (&long[..128], &long[..128]),
        (&long[..128], &long[1..128]),
        (&long[..127], &long[2..128]),
        (&long[..64], &long[..65]),
        (&long[..65], &long[..63]),
        ("señal", "seal"),
        ("отправить", "отпрaвить"),
        ("отправить", "отпаврить"),
        ("名前を読む", "名前読むを"),
        ("ab", "ba"),
    ] {
        let full = strsim::osa_distance(one, other);
        let found = Pattern::new(one).distance(other, other.chars().count(), 5, &mut 1_000);
        assert_eq!(found, Some(full), "{one} {other}");
    }
}

/// Two servers with thousands of long names that nearly are each other's: each list takes so many steps and no more, and
/// the names that were not compared are counted.
#[test]
fn name_comparisons_are_bounded_and_counted() {
    let count = 1_024;
    for letters in [20, 120, 240] {
        let mut names = Names::default();
        for owner in 0..2 {
            let mut effort = Effort::default();
            for tool in 0..count {
                let name = format!("{}{tool:04}", "abcdefgh".repeat(letters / 8));
                let name = if owner == 0 { name } else { format!("{name}x") };
                names.claim(First { owner, name, since: 0 }, 0.85, true, &mut effort);
            }
            let is_compared = owner == 1 && letters <= MAX_SIMILAR;
            assert_eq!(effort.steps < LIST_STEPS, is_compared, "{letters}");
        }
        assert_eq!(names.len(), 2 * count);
        assert!(names.not_compared > 0, "{letters}");
    }
    // Of few names each is compared.
    let mut names = Names::default();
    for owner in 0..20 {
        for tool in 0..10 {
            claim(&mut names, owner, &format!("verb{tool}_the_object{owner}"), 0, true);
        }
    }
    assert_eq!((names.len(), names.not_compared), (200, 0));
}

/// The names of an honest server with hundreds of tools beside another are compared, each with each.
#[test]
fn large_honest_lists_are_compared_completely() {
    let mut names = Names::default();
    for owner in 0..2 {
        let mut effort = Effort::default();
        for tool in 0..500 {
            let (verb, object) = (["get", "list", "create", "update", "delete"][tool % 5], tool / 5);
            let name = format!("{verb}_{}_of_{owner}", ["record", "issue", "page", "room"][object % 4]);
            let name = format!("{name}_{object}");
            names.claim(First { owner, name, since: 0 }, 0.85, true, &mut effort);
        }
    }
    assert_eq!(names.not_compared, 0);
}
