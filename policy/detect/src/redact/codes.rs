//! Lists of codes, each of which is used once.

/// Most codes of a list, and how short the shortest is, in bytes.
const MAX_CODES: usize = 24;
pub(super) const MIN_CODE: usize = 4;

/// How long the list is that goes on behind the first of several codes: with blanks, commas, and marks or numbers of a list between them.
pub(super) fn codes(text: &str) -> usize {
    let mut end = 0;
    for _ in 0..MAX_CODES {
        let rest = text.get(end..).unwrap_or_default();
        let is_between = |c: char| c.is_whitespace() || ",;-*•|".contains(c);
        let mut next = rest.trim_start_matches(is_between);
        let number = next.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        if let Some(behind) =
            next.get(number..).filter(|_| number > 0).and_then(|rest| rest.strip_prefix(['.', ')']))
        {
            next = behind.trim_start();
        }
        next = ["and ", "or "].iter().find_map(|word| next.strip_prefix(word)).unwrap_or(next);
        let length = next.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(next.len());
        let is_code = length >= MIN_CODE
            && next.get(..length).is_some_and(|code| code.bytes().any(|byte| byte.is_ascii_digit()));
        if !is_code || next.len() == rest.len() {
            break;
        }
        end = text.len() - next.len() + length;
    }
    end
}
