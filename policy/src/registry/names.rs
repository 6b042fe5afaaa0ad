//! Names that are taken for one another: the same one, the same in another spelling, in look-alike letters, or
//! nearly the same.

use std::collections::{BTreeMap, HashMap};

use crate::detect::folded;

/// Shortest name of which another one is a near-duplicate. Shorter ones differ in a letter by nature (`get`, `set`).
const MIN_SIMILAR: usize = 5;
/// Most names that one is compared with letter by letter: what a flood of names can cost.
const MAX_COMPARED: usize = 64;

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
/// what looks alike in most type faces made one: `0` and `o`, `1` and `l`, `rn` and `m`, `vv` and `w`. Capital `I` is
/// no `l` here, since `getItem` is `get_item`; [`Names::claim`] reads it both ways.
fn skeleton(name: &str) -> String {
    spelling(&folded(name))
        .replace('ß', "ss")
        .replace('0', "o")
        .replace(['1', '|'], "l")
        .replace("rn", "m")
        .replace("vv", "w")
}

/// The name of a server without the words that most of them have: `mcp-server-git` is `git`.
pub(super) fn core_of_server(name: &str) -> String {
    let core = name
        .split(['_', '-', '.', '/', ':', '@'])
        .filter(|word| !word.is_empty() && !["mcp", "server"].contains(&word.to_ascii_lowercase().as_str()))
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

/// The names in use, by what they are compared in. Adding one costs one look-up, and a comparison with those of
/// about its length.
#[derive(Debug, Default)]
pub(super) struct Names {
    first: HashMap<String, First>,
    /// By length in characters: which letters a name has, as bits, and its skeleton.
    by_length: BTreeMap<usize, Vec<(u64, String)>>,
    /// Names that were not compared since one is compared with so many only.
    pub(super) not_compared: u64,
}

impl Names {
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
        let skeleton = skeleton(name);
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
        let found = self
            .read_as_l(owner, name, since)
            .map(|first| (first, Likeness::Confusable))
            .or_else(|| self.similar(owner, &skeleton, threshold).map(|first| (first, Likeness::Similar)));
        if room {
            let (length, letters) = shape(&skeleton);
            self.by_length.entry(length).or_default().push((letters, skeleton.clone()));
            self.first.insert(skeleton, claim);
        }
        match found {
            Some((first, likeness)) => Claim::Later(first, likeness),
            None if room => Claim::Free,
            None => Claim::Refused,
        }
    }

    /// Who had it first that this name is, where its capital `I` are read as `l`: `puII` is `pull`.
    fn read_as_l(&self, owner: usize, name: &str, since: u64) -> Option<First> {
        let read = folded(name).replace('I', "l");
        let first = name.contains('I').then(|| self.first.get(&skeleton(&read)))??;
        (first.owner != owner && first.since <= since).then(|| first.clone())
    }

    /// The nearest name of another owner's, if it is near enough; of two, the one that was there before.
    fn similar(&mut self, owner: usize, skeleton: &str, threshold: f64) -> Option<First> {
        let (length, letters) = shape(skeleton);
        if length < MIN_SIMILAR {
            return None;
        }
        let most = edits(length, threshold);
        let mut nearest: Option<(usize, &First)> = None;
        let (mut compared, mut not_compared) = (0, 0);
        for (&other_length, names) in self.by_length.range(length.saturating_sub(most)..=length + most) {
            let allowed = edits(length.max(other_length), threshold);
            for (other_letters, other) in names {
                // An edit changes at most two letters of the set.
                let apart = (letters ^ other_letters).count_ones() as usize;
                if apart > 2 * allowed || other_length < MIN_SIMILAR {
                    continue;
                }
                if compared >= MAX_COMPARED {
                    not_compared += 1;
                    continue;
                }
                let Some(first) = self.first.get(other).filter(|first| first.owner != owner) else {
                    continue;
                };
                compared += 1;
                let distance = strsim::osa_distance(skeleton, other);
                if distance <= allowed && nearest.is_none_or(|(best, _)| distance < best) {
                    nearest = Some((distance, first));
                }
            }
        }
        let nearest = nearest.map(|(_, first)| first.clone());
        self.not_compared += not_compared;
        nearest
    }
}

/// How many letters of so many may differ: the share that `threshold` leaves, in whole letters.
fn edits(length: usize, threshold: f64) -> usize {
    ((1.0 - threshold.clamp(0.5, 1.0)) * length as f64).round() as usize
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
            ("github", "gitlab", None),
            ("___", "---", None),
            ("", "", Some(Same)),
        ];
        for (first, later, expected) in cases {
            assert_eq!(compared(first, later), expected, "{first} {later}");
        }
    }

    #[test]
    fn allowed_edits_scale_with_name_length() {
        for (length, threshold, expected) in [
            (6, 0.85, 1),
            (3, 0.85, 0),
            (12, 0.85, 2),
            (20, 0.85, 3),
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

    /// Names that are all of a kind: one is compared with so many of them, and the rest is counted.
    #[test]
    fn name_comparisons_are_bounded_and_counted() {
        let mut names = Names::default();
        for owner in 0..30 {
            for tool in 0..10 {
                names.claim(owner, &format!("verb{tool}_the_object{owner}"), 0, 0.85, true);
            }
        }
        assert_eq!(names.len(), 300);
        assert!(names.not_compared > 0 && names.not_compared < 300 * 300);
    }
}
