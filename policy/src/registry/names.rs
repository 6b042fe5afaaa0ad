//! Names that are taken for one another: the same one, the same in another spelling, in look-alike letters, or
//! nearly the same.

use std::collections::{BTreeMap, HashMap};

use crate::detect::folded;

/// Shortest name of which another one is a near-duplicate. Shorter ones differ in a letter by nature (`get`, `set`).
const MIN_SIMILAR: usize = 5;
/// Most letters of a name of which another one is a near-duplicate: the protocol's own bound.
const MAX_SIMILAR: usize = 128;
/// Most letters by which near-duplicates differ, however long they are.
const MAX_EDITS: usize = 5;
/// Most names of which one claim looks at the letters, and most steps of comparing letter by letter: what a flood of names
/// can cost.
const MAX_LOOKS: usize = 4_096;
const MAX_STEPS: usize = 32_768;

/// How two names are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Likeness {
    /// Byte by byte.
    Same,
    /// But for case and separators: `read_file`, `read-file`, `readFile`.
    Spelling,
    /// But for letters that look alike, and what nobody sees.
    Confusable,
    /// But for a few letters.
    Similar,
}

/// A name in lower case without separators.
fn spelling(name: &str) -> String {
    let kept = name.chars().filter(|c| !is_separator(*c));
    let spelt: String = kept.flat_map(char::to_lowercase).collect();
    // A name of nothing but separators is itself.
    if spelt.is_empty() { name.to_owned() } else { spelt }
}

/// Whether names are parted by it: also what only looks like a hyphen, a dot or a slash.
fn is_separator(c: char) -> bool {
    let hyphens = matches!(
        c,
        '-' | '\u{2d7}' | '\u{2010}'
            ..='\u{2015}' | '\u{2043}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}'
    );
    let dots = matches!(
        c,
        '.' | ':' | '\u{b7}' | '\u{2022}' | '\u{2024}' | '\u{2027}' | '\u{2219}' | '\u{22c5}' | '\u{30fb}'
    );
    let slashes = matches!(c, '/' | '\u{2044}' | '\u{2215}' | '\u{29f8}');
    // Those of `c++` and `c#` are part of the name.
    let others = matches!(c, ',' | ';' | '!' | '~' | '|' | '=' | '\'' | '"' | '(' | ')');
    // U+2800 is a blank by its looks alone.
    c == '_' || others || hyphens || dots || slashes || c.is_whitespace() || c == '\u{2800}'
}

/// The form in which names are compared: that of [`spelling`], of the text as it looks (see `detect::fold`), and with
/// what looks alike in most type faces made one: `0` and `o`, `1`, `i` and `l`, `rn` and `m`, `vv` and `w`.
fn skeleton(name: &str) -> String {
    spelling(&folded(name))
        .replace('ß', "ss")
        .replace('0', "o")
        .replace(['1', '|', 'i'], "l")
        .replace("rn", "m")
        .replace("vv", "w")
}

/// The same of the name of a server. Digits in place of letters count, since few such names have a number.
fn skeleton_of_server(name: &str) -> String {
    skeleton(name).replace('3', "e").replace('4', "a").replace('5', "s").replace('7', "t")
}

/// The name of a server without the words that most of them have: `mcp-server-git` is `git`.
pub(super) fn core_of_server(name: &str) -> String {
    let is_common = |word: &str| ["mcp", "server"].contains(&folded(word).to_ascii_lowercase().as_str());
    let core = name
        .split(|c| is_separator(c) || c == '@')
        .filter(|word| !word.is_empty() && !is_common(word))
        .collect::<Vec<_>>()
        .join("-");
    if core.is_empty() { name.to_owned() } else { core }
}

/// Who came first with a name. Owners are numbers that the caller gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) owner: usize,
    pub(super) name: String,
    /// Since when they have it.
    pub(super) since: u64,
}

/// What became of a name that was taken.
#[derive(Debug, PartialEq)]
pub(super) enum Claim {
    /// Nobody else has one like it.
    Free,
    /// Somebody had it first.
    Later(First, Likeness),
    /// Somebody had it in this session, and later than this one: they have it second now.
    Earlier(First, Likeness),
    /// It is like no other, and there is no room for it.
    Refused,
}

/// The names in use, by what they are compared in. Adding one costs one look-up, and a bounded comparison with those of
/// about its length.
#[derive(Debug)]
pub(super) struct Names {
    skeleton: fn(&str) -> String,
    first: HashMap<String, First>,
    /// By length in characters: which letters a name has, as bits, and its skeleton.
    by_length: BTreeMap<usize, Vec<(u64, String)>>,
    /// Names that were not compared since one claim may take so many steps only.
    pub(super) not_compared: u64,
    #[cfg(test)]
    steps: usize,
}

impl Default for Names {
    /// Names of tools.
    fn default() -> Self {
        Self {
            skeleton,
            first: HashMap::new(),
            by_length: BTreeMap::new(),
            not_compared: 0,
            #[cfg(test)]
            steps: 0,
        }
    }
}

impl Names {
    /// Names of servers, as [`core_of_server`] has them.
    pub(super) fn of_servers() -> Self {
        Self { skeleton: skeleton_of_server, ..Self::default() }
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// Takes a name for `owner`, who has it since `since`. With `room` false no name is added that is like no other.
    pub(super) fn claim(
        &mut self,
        owner: usize,
        name: &str,
        since: u64,
        threshold: f64,
        room: bool,
    ) -> Claim {
        let skeleton = (self.skeleton)(name);
        let claim = First { owner, name: name.to_owned(), since };
        if let Some(first) = self.first.get_mut(&skeleton) {
            let likeness = likeness(&first.name, name);
            return if first.owner == owner {
                first.since = first.since.min(since);
                Claim::Free
            } else if since < first.since {
                Claim::Earlier(std::mem::replace(first, claim), likeness)
            } else {
                Claim::Later(first.clone(), likeness)
            };
        }
        let found = self.similar(owner, &skeleton, threshold);
        if room {
            let (length, letters) = shape(&skeleton);
            self.by_length.entry(length).or_default().push((letters, skeleton.clone()));
            self.first.insert(skeleton, claim);
        }
        match found {
            Some(first) => Claim::Later(first, Likeness::Similar),
            None if room => Claim::Free,
            None => Claim::Refused,
        }
    }

    /// The nearest name of another owner's, if it is near enough; of two, the one that was there before.
    fn similar(&mut self, owner: usize, skeleton: &str, threshold: f64) -> Option<First> {
        let (length, letters) = shape(skeleton);
        if length < MIN_SIMILAR {
            return None;
        }
        if length > MAX_SIMILAR {
            self.not_compared += 1;
            return None;
        }
        let most = edits(length, threshold);
        let mut nearest: Option<(usize, &First)> = None;
        let (mut looks, mut steps, mut not_compared) = (MAX_LOOKS, MAX_STEPS, 0);
        let range = length.saturating_sub(most).max(MIN_SIMILAR)..=(length + most).min(MAX_SIMILAR);
        for (&other_length, names) in self.by_length.range(range) {
            let allowed = edits(length.max(other_length), threshold);
            not_compared += names.len().saturating_sub(looks) as u64;
            let looked_at = names.iter().take(looks);
            looks = looks.saturating_sub(names.len());
            for (other_letters, other) in looked_at {
                // An edit changes at most two letters of the set.
                let apart = (letters ^ other_letters).count_ones() as usize;
                if apart > 2 * allowed {
                    continue;
                }
                let Some(first) = self.first.get(other).filter(|first| first.owner != owner) else {
                    continue;
                };
                if steps == 0 {
                    not_compared += 1;
                    continue;
                }
                let best = nearest.map_or(allowed, |(best, _)| allowed.min(best.saturating_sub(1)));
                if let Some(distance) = distance(skeleton, other, best, &mut steps)
                    && nearest.is_none_or(|(best, _)| distance < best)
                {
                    nearest = Some((distance, first));
                }
            }
        }
        let nearest = nearest.map(|(_, first)| first.clone());
        self.not_compared += not_compared;
        #[cfg(test)]
        {
            self.steps += MAX_STEPS - steps;
        }
        nearest
    }
}

/// How many letters are added, left out, replaced or swapped with the next one between two names; `None` for more than
/// `most`. Only what so few edits can reach is computed, and each such step is taken off `steps`; when none is left, `None`.
fn distance(one: &str, other: &str, most: usize, steps: &mut usize) -> Option<usize> {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let far = most + 1;
    let mut rows = [(); 3].map(|()| vec![far; other.len() + 1]);
    rows[1].iter_mut().take(far).enumerate().for_each(|(column, cell)| *cell = column);
    for row in 1..=one.len() {
        // The row before last, the last, and this one.
        let [above_last, last, this] = &mut rows;
        let columns = row.saturating_sub(most)..=(row + most).min(other.len());
        this.fill(far);
        let mut least = far;
        for column in columns {
            *steps = steps.checked_sub(1)?;
            let cell = if column == 0 {
                row
            } else {
                let is_same = one[row - 1] == other[column - 1];
                let mut cell = last[column - 1] + usize::from(!is_same);
                cell = cell.min(last[column] + 1).min(this[column - 1] + 1);
                let is_swapped = row > 1
                    && column > 1
                    && one[row - 1] == other[column - 2]
                    && one[row - 2] == other[column - 1];
                if is_swapped { cell.min(above_last[column - 2] + 1) } else { cell }
            };
            this[column] = cell.min(far);
            least = least.min(this[column]);
        }
        if least == far {
            return None;
        }
        rows.rotate_left(1);
    }
    rows[1].last().copied().filter(|distance| *distance <= most)
}

/// How many letters of so many may differ: the share that `threshold` leaves, in whole letters, and at most 5.
fn edits(length: usize, threshold: f64) -> usize {
    (((1.0 - threshold.clamp(0.5, 1.0)) * length as f64).round() as usize).min(MAX_EDITS)
}

/// Length in characters, and the set of its characters, folded to 64 bits.
fn shape(skeleton: &str) -> (usize, u64) {
    skeleton.chars().fold((0, 0), |(length, letters), c| (length + 1, letters | 1 << (u32::from(c) % 64)))
}

fn likeness(first: &str, name: &str) -> Likeness {
    if first == name {
        Likeness::Same
    } else if spelling(first) == spelling(name) {
        Likeness::Spelling
    } else {
        Likeness::Confusable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(first: &str, later: &str) -> Option<Likeness> {
        let mut names = Names::default();
        assert_eq!(names.claim(0, first, 0, 0.85, true), Claim::Free);
        match names.claim(1, later, 0, 0.85, true) {
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
            ("github", "gihtub", Some(Similar)),
            ("read_file", "read_files", Some(Similar)),
            ("send_message_now", "send_mesage_nowx", Some(Similar)),
            ("get", "set", None),
            ("send", "read", None),
            ("create_issue", "delete_issue", None),
            ("list_mail", "llst_maiI", Some(Confusable)),
            ("getItem", "get1tem", Some(Confusable)),
            ("read_notes", "read_nodes", Some(Similar)),
            ("fold_map", "fodl_map", Some(Similar)),
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
            ("linear", "linaer", Some(Similar)),
            ("git", "got", None),
            ("git", "pip", None),
            ("s3", "s2", None),
            ("aws-mcp", "ads-mcp", None),
            ("time", "mcp-server-file", None),
        ] {
            let mut names = Names::of_servers();
            assert_eq!(names.claim(0, &core_of_server(first), 0, 0.85, true), Claim::Free);
            let found = match names.claim(1, &core_of_server(later), 0, 0.85, true) {
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
                let found = distance(&one, &other, most, &mut steps);
                assert_eq!(found, Some(full).filter(|full| *full <= most), "{one} {other} {most}");
            }
        }
        assert_eq!(distance("abc", "abc", 1, &mut 2), None);
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
        names.claim(0, "search", 20, 0.85, true);
        let second = First { owner: 0, name: "search".into(), since: 20 };
        assert_eq!(names.claim(1, "search", 10, 0.85, true), Claim::Earlier(second, Likeness::Same));
        let first = First { owner: 1, name: "search".into(), since: 10 };
        assert_eq!(names.claim(0, "search", 20, 0.85, true), Claim::Later(first, Likeness::Same));
        assert_eq!(names.claim(1, "search", 10, 0.85, true), Claim::Free);
        assert_eq!(names.claim(1, "Search", 30, 0.85, true), Claim::Free);
        assert_eq!(names.claim(2, "other", 0, 0.85, false), Claim::Refused);
        assert_eq!(names.len(), 1);
    }

    /// Two servers with thousands of long names that nearly are each other's: each claim takes so many steps and no more,
    /// and the names that were not compared are counted.
    #[test]
    fn name_comparisons_are_bounded_and_counted() {
        let count = 1_024;
        for letters in [20, 120, 240] {
            let mut names = Names::default();
            for owner in 0..2 {
                for tool in 0..count {
                    let name = format!("{}{tool:04}", "abcdefgh".repeat(letters / 8));
                    let name = if owner == 0 { name } else { format!("{name}x") };
                    names.claim(owner, &name, 0, 0.85, true);
                }
            }
            assert_eq!(names.len(), 2 * count);
            assert!(names.steps <= 2 * count * MAX_STEPS, "{letters}: {}", names.steps);
            assert_eq!(names.steps == 0, letters > MAX_SIMILAR, "{letters}");
            assert!(names.not_compared > 0, "{letters}");
        }
        // Of few names each is compared.
        let mut names = Names::default();
        for owner in 0..20 {
            for tool in 0..10 {
                names.claim(owner, &format!("verb{tool}_the_object{owner}"), 0, 0.85, true);
            }
        }
        assert_eq!((names.len(), names.not_compared), (200, 0));
    }
}
