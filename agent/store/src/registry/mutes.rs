//! Mutes of operators, one row each. Their number is bounded by who mutes.

use mcpwarden_policy::event::Mute;
use rusqlite::{Connection, Transaction};

use super::Refused;

/// All of them.
pub(super) fn all(db: &Connection) -> Result<Vec<Mute>, Refused> {
    let mut mutes = db.prepare_cached("SELECT record FROM mutes ORDER BY id")?;
    let mut rows = mutes.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?);
    }
    Ok(found)
}

/// Keeps one, in place of one with the same id.
pub(super) fn put(change: &Transaction<'_>, mute: &Mute) -> Result<(), Refused> {
    let mut insert = change.prepare_cached("INSERT OR REPLACE INTO mutes (id, record) VALUES (?1, ?2)")?;
    insert.execute([&mute.mute_id, &serde_json::to_string(mute)?])?;
    Ok(())
}

/// Forgets the one with this id, if there is one.
pub(super) fn remove(change: &Transaction<'_>, id: &str) -> Result<(), Refused> {
    change.prepare_cached("DELETE FROM mutes WHERE id = ?1")?.execute([id])?;
    Ok(())
}
