//! Where a setting ends in a text of several: `a=X,b=c`, `password=X host=h`, `a=X;b=c`.

/// Keywords of connection strings that blanks stand between (PostgreSQL, libpq: parameter key words; go-sql-driver; psycopg).
const KEYWORDS: [&str; 16] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "database",
    "user",
    "password",
    "passfile",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "connect_timeout",
    "application_name",
    "options",
    "timezone",
];

/// Signs between a name and its value, in any language: the longest first.
const SIGNS: [&str; 14] =
    ["||=", "??=", "===", "=>", ":=", "==", "|=", "?=", "+=", "<-", "=", ":", "＝", "："];

/// The sign between a name and its value that a text begins with.
pub(super) fn sign(text: &str) -> Option<&'static str> {
    SIGNS.into_iter().find(|sign| text.starts_with(sign))
}

/// Where in the value of a setting the next line has another one: `a: X`, `b: c`.
pub(super) fn next_line(value: &str) -> Option<usize> {
    let is_setting = |at: &usize| {
        let next = value.get(at + 1..).unwrap_or_default().trim_start_matches([' ', '\t', '-', '"', '\'']);
        let end = next.find(|c: char| !c.is_alphanumeric() && !"_.-".contains(c)).unwrap_or(0);
        let behind = next.get(end..).unwrap_or_default().trim_start_matches(['"', '\'', ' ']);
        next.is_empty() || end > 0 && behind.starts_with([':', '='])
    };
    value.match_indices('\n').map(|(at, _)| at).find(is_setting)
}

/// Where the next setting begins in a text that begins with the value of one. `front` is in front of the value, up to its sign.
pub(super) fn next_setting(front: &str, value: &str) -> Option<usize> {
    let is_of_several = front.trim_end().strip_suffix(['=', '＝'])?.contains('=');
    let is_setting = |at: &usize| {
        let is_escaped = value.get(..*at).is_some_and(|before| before.ends_with('\\'));
        let separator = value.get(*at..*at + 1).unwrap_or_default();
        let next = value.get(at + 1..).unwrap_or_default().trim_start();
        let is_name = |c: char| c.is_alphanumeric() || "_.-".contains(c) || separator == ";" && c == ' ';
        let end = next.find(|c: char| !is_name(c)).unwrap_or(0);
        let (name, rest) = next.split_at_checked(end).unwrap_or_default();
        let assigned = rest.trim_start().strip_prefix('=').map(str::trim_start);
        // In a text that is one value, a blank may be part of it.
        let is_known = separator != " "
            || is_of_several
            || KEYWORDS.contains(&name.trim_end().to_ascii_lowercase().as_str());
        !is_escaped
            && is_known
            && name.starts_with(char::is_alphabetic)
            && assigned.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('='))
    };
    value.match_indices([' ', ',', ';']).map(|(at, _)| at).find(is_setting)
}

/// How long a value in braces is that a text begins with: `{a;b}`, in which `}}` is a brace (ODBC connection strings).
pub(super) fn end_of_braces(text: &str) -> usize {
    if !text.starts_with('{') {
        return 0;
    }
    let mut is_end = false;
    for (at, character) in text.char_indices() {
        match character {
            '}' => is_end = !is_end,
            _ if is_end => return at,
            _ => {}
        }
    }
    if is_end { text.len() } else { 0 }
}
