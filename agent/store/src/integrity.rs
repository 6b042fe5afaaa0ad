//! Whether a database shows what is in it: its tables, indices and views are those that this program makes, and every index has every
//! row. Whoever changes one of them can hide an event from queries without touching it.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::SCHEMA;

/// Most problems that are named.
const MOST: usize = 20;

/// A name in the schema of a database, and what it is.
type Objects = BTreeMap<(String, String), Option<String>>;

/// What is wrong, in words.
///
/// # Errors
/// The database cannot be read.
pub fn problems(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let expected = {
        let fresh = Connection::open_in_memory()?;
        SCHEMA.migrations.iter().try_for_each(|sql| fresh.execute_batch(sql))?;
        objects(&fresh)?
    };
    let found = objects(db)?;
    let mut problems = Vec::new();
    for ((kind, name), sql) in &expected {
        match found.get(&(kind.clone(), name.clone())) {
            None => problems.push(format!("the {kind} `{name}` is missing")),
            Some(other) if other != sql => {
                problems.push(format!("the {kind} `{name}` is not the one that mcpwarden makes"));
            }
            Some(_) => {}
        }
    }
    let strange = found.keys().filter(|key| !expected.contains_key(key));
    problems.extend(strange.map(|(kind, name)| format!("the {kind} `{name}` is not mcpwarden's")));
    problems.truncate(MOST);
    let mut check = db.prepare(&format!("PRAGMA integrity_check({MOST})"))?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let problem: String = row.get(0)?;
        if problem != "ok" {
            problems.push(problem);
        }
    }
    Ok(problems)
}

fn objects(db: &Connection) -> rusqlite::Result<Objects> {
    // What ANALYZE leaves helps to find rows, and hides none.
    let mut objects = db.prepare(
        "SELECT type, name, tbl_name || ': ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\'",
    )?;
    let objects = objects.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    objects.collect()
}
