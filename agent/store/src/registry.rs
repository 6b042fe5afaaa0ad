//! Pins, in a database of their own: what is pinned is on the disk before anything follows from it.
//!
//! It is written seldom, and each time waited for (`synchronous=FULL`); next to events it would wait for them as well. A
//! copy is exported now and then ([`Export`]), from which another database is filled where this one is damaged.

mod export;
mod mutes;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mcpwarden_policy::{
    ServerId, Timestamp,
    event::{Mute, StoreReplaced},
    registry::{Item, ItemKind, PinKey, PinRecord, Store, StoreError},
};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde::{Deserialize, Serialize};

use super::database::{DatabaseError, Schema, set_aside};
pub use export::Export;

/// Name of the database of pins, and of their last export.
pub const PINS: &str = "registry.db";
/// One JSON object a line.
pub const EXPORT: &str = "registry.jsonl";
/// Most pins, and most of one user's servers: nobody can have others' servers go without. One takes about 1 KiB.
const MAX_PINS: u64 = 200_000;
const MAX_PINS_PER_USER: u64 = 100_000;
/// Most bytes of definitions. More are not kept: what changed in them cannot be told then.
const MAX_DEFINITION_BYTES: u64 = 64 << 20;
/// Longest line of an export. Bytes.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// The database of pins. Servers whose user is not known have the uid -1.
pub const SCHEMA: Schema = Schema {
    table: "pins",
    synchronous: "FULL",
    migrations: &[
        "
        CREATE TABLE pins (
            uid INTEGER NOT NULL,
            server TEXT NOT NULL,
            program TEXT NOT NULL,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (uid, server, program, kind, name)
        ) WITHOUT ROWID;
        CREATE TABLE definitions (hash TEXT PRIMARY KEY, definition TEXT NOT NULL);
    ",
        "
        CREATE TABLE mutes (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
    ",
    ],
};

/// A pin with whose and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pin {
    /// Whose.
    #[serde(flatten)]
    pub key: PinKey,
    /// What is pinned.
    #[serde(flatten)]
    pub item: Item,
    /// How it stands.
    #[serde(flatten)]
    pub record: PinRecord,
}

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Pin(Box<Pin>),
    Definition { hash: String, json: String },
    Mute(Box<Mute>),
}

/// Pins on the disk.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    group: Option<u32>,
    /// Opened again where it could not be.
    open: Option<Open>,
    changed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Open {
    db: Connection,
    /// Pins of each user.
    pins: BTreeMap<i64, u64>,
    definition_bytes: u64,
}

impl Pins {
    /// Opens the database in `directory`, or another one in the place of one that is damaged, filled from the last export;
    /// then that is to be said.
    ///
    /// # Errors
    /// It is of a later version or another program's. One that cannot be used now is tried again each time it is asked.
    pub fn open(
        directory: &Path,
        group: Option<u32>,
    ) -> Result<(Self, Option<StoreReplaced>), DatabaseError> {
        let path = directory.join(PINS);
        // What was exported before it may be older than the pins are.
        let changed = Arc::new(AtomicBool::new(true));
        let mut pins = Self { path, group, open: None, changed };
        match pins.opened() {
            Ok(_) => Ok((pins, None)),
            Err(DatabaseError::Damaged { reason, .. }) => {
                let replaced = pins.replace(directory, reason)?;
                Ok((pins, Some(replaced)))
            }
            Err(error @ DatabaseError::Failed { .. }) => {
                tracing::error!("cannot use the pins: {error}; changed definitions may go unnoticed");
                Ok((pins, None))
            }
            Err(error) => Err(error),
        }
    }

    /// The latest time at which a definition was seen, as far as it can be read: what is seen from now on is to be later.
    pub fn newest(&mut self) -> Option<Timestamp> {
        let newest = "SELECT max(max(record ->> '$.first_seen', record ->> '$.last_seen')) FROM pins";
        let text: Option<String> = self.opened().ok()?.db.query_row(newest, [], |row| row.get(0)).ok()?;
        serde_json::from_value(text?.into()).ok()
    }

    /// What exports these pins.
    pub fn export(&self) -> Export {
        Export { path: self.path.clone(), group: self.group, changed: Arc::clone(&self.changed) }
    }

    fn replace(&mut self, directory: &Path, reason: String) -> Result<StoreReplaced, DatabaseError> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| DatabaseError::Failed {
            path: self.path.clone(),
            reason: format!("it is damaged ({reason}), and {doing} failed: {error}"),
        };
        let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let aside = set_aside(&self.path, seconds.unwrap_or_default().as_secs())
            .map_err(|error| failed("setting it aside", &error))?;
        let export = directory.join(EXPORT);
        let (text, outcome) = (self.path.display().to_string(), self.opened()?.restore(&export));
        let restored = match outcome {
            Ok(restored) => restored,
            Err(error) => {
                tracing::error!(
                    "cannot restore pins from {}: {error}; tools are pinned again when they are next listed",
                    export.display()
                );
                0
            }
        };
        tracing::error!(
            "{text} is damaged ({reason}): it is {} now, and another is begun with {restored} pins of {}",
            aside.display(),
            export.display()
        );
        let set_aside = aside.display().to_string();
        Ok(StoreReplaced { path: text, set_aside, reason, pins_restored: Some(restored) })
    }

    fn opened(&mut self) -> Result<&mut Open, DatabaseError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let db = SCHEMA.open(&self.path, self.group)?;
                Open::new(db).map_err(|error| DatabaseError::new(&self.path, &error))?
            }
        };
        Ok(self.open.insert(open))
    }

    fn run<T>(
        &mut self,
        doing: &str,
        run: impl FnOnce(&mut Open) -> Result<T, Refused>,
    ) -> Result<T, StoreError> {
        let failed = |reason: String| StoreError::Failed { doing: doing.to_owned(), reason };
        let open = self.opened().map_err(|error| failed(error.to_string()))?;
        match run(open) {
            Ok(answer) => Ok(answer),
            Err(Refused::Full(pins)) => Err(StoreError::Full(pins)),
            Err(Refused::Failed(reason)) => {
                self.open = None;
                Err(failed(reason))
            }
        }
    }
}

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}")]
    Full(String),
    #[error("{0}")]
    Failed(String),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

fn uid(key: &PinKey) -> i64 {
    key.uid.map_or(-1, i64::from)
}

/// What a kind is called in the database.
pub fn word(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Prompt => "prompt",
        ItemKind::ResourceTemplate => "resource_template",
        ItemKind::Instructions => "instructions",
        ItemKind::Interface => "interface",
    }
}

impl Open {
    fn new(db: Connection) -> rusqlite::Result<Self> {
        let pins = db
            .prepare("SELECT uid, count(*) FROM pins GROUP BY uid")?
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?
            .collect::<Result<_, _>>()?;
        let bytes = "SELECT coalesce(sum(length(CAST(definition AS BLOB))), 0) FROM definitions";
        let definition_bytes = db.query_row(bytes, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
        Ok(Self { db, pins, definition_bytes })
    }

    /// Does something in one transaction: all of it, or nothing.
    fn change<T>(
        &mut self,
        body: impl FnOnce(&Transaction<'_>, &mut BTreeMap<i64, u64>, &mut u64) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let (mut pins, mut bytes) = (self.pins.clone(), self.definition_bytes);
        let change = self.db.transaction()?;
        let done = body(&change, &mut pins, &mut bytes)?;
        change.commit()?;
        (self.pins, self.definition_bytes) = (pins, bytes);
        Ok(done)
    }

    /// Takes an export in: how many pins it had.
    fn restore(&mut self, path: &Path) -> Result<u64, String> {
        let file = fs::File::open(path).map_err(|error| error.to_string())?;
        let done = self.change(|change, pins, bytes| {
            let (mut input, mut text, mut restored) = (BufReader::new(file), Vec::new(), 0);
            loop {
                text.clear();
                io::Read::take(&mut input, MAX_LINE_BYTES).read_until(b'\n', &mut text)?;
                if text.is_empty() {
                    return Ok(restored);
                }
                match serde_json::from_slice(&text)? {
                    Line::Pin(pin) => {
                        put(change, pins, &pin.key, &pin.item, &pin.record)?;
                        restored += 1;
                    }
                    Line::Definition { hash, json } => define(change, bytes, &hash, &json)?,
                    Line::Mute(mute) => mutes::put(change, &mute)?,
                }
            }
        });
        done.map_err(|refused| match refused {
            Refused::Full(reason) | Refused::Failed(reason) => reason,
        })
    }
}

fn put(
    change: &Transaction<'_>,
    pins: &mut BTreeMap<i64, u64>,
    key: &PinKey,
    item: &Item,
    record: &PinRecord,
) -> Result<(), Refused> {
    let (uid, text) = (uid(key), serde_json::to_string(record)?);
    let mut update = change.prepare_cached(
        "UPDATE pins SET record = ?6 WHERE uid = ?1 AND server = ?2 AND program = ?3 AND kind = ?4 AND name = ?5",
    )?;
    let row = params![uid, &*key.server.0, key.program, word(item.kind), item.name, text];
    if update.execute(row)? == 0 {
        let (all, of_user) = (pins.values().sum::<u64>(), pins.entry(uid).or_default());
        if all >= MAX_PINS || *of_user >= MAX_PINS_PER_USER {
            return Err(Refused::Full(format!("{all} pins, {of_user} of them of this user's servers")));
        }
        *of_user += 1;
        change
            .prepare_cached(
                "INSERT INTO pins (uid, server, program, kind, name, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(row)?;
    }
    Ok(())
}

fn define(change: &Transaction<'_>, bytes: &mut u64, hash: &str, json: &str) -> Result<(), Refused> {
    if *bytes + json.len() as u64 <= MAX_DEFINITION_BYTES {
        let mut insert =
            change.prepare_cached("INSERT OR IGNORE INTO definitions (hash, definition) VALUES (?1, ?2)")?;
        *bytes += insert.execute([hash, json])? as u64 * json.len() as u64;
    }
    Ok(())
}

impl Store for Pins {
    fn keys(&mut self, server: &ServerId) -> Result<Vec<PinKey>, StoreError> {
        self.run("read pins", |open| {
            let mut keys =
                open.db.prepare_cached("SELECT DISTINCT uid, program FROM pins WHERE server = ?1")?;
            let mut rows = keys.query([&*server.0])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let uid = u32::try_from(row.get::<_, i64>(0)?).ok();
                found.push(PinKey { uid, server: server.clone(), program: row.get(1)? });
            }
            Ok(found)
        })
    }

    fn keys_of_program(&mut self, key: &PinKey) -> Result<Vec<PinKey>, StoreError> {
        self.run("read pins", |open| {
            let mut keys =
                open.db.prepare_cached("SELECT DISTINCT server FROM pins WHERE uid = ?1 AND program = ?2")?;
            let mut rows = keys.query(params![uid(key), key.program])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(PinKey { server: ServerId(row.get::<_, String>(0)?.into()), ..key.clone() });
            }
            Ok(found)
        })
    }

    fn load(&mut self, key: &PinKey) -> Result<BTreeMap<Item, PinRecord>, StoreError> {
        self.run("read pins", |open| {
            let mut pins = open.db.prepare_cached(
                "SELECT kind, name, record FROM pins WHERE uid = ?1 AND server = ?2 AND program = ?3",
            )?;
            let mut rows = pins.query(params![uid(key), &*key.server.0, key.program])?;
            let mut found = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let kind = serde_json::from_value(row.get::<_, String>(0)?.into())?;
                found.insert(
                    Item { kind, name: row.get(1)? },
                    serde_json::from_str(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)?,
                );
            }
            Ok(found)
        })
    }

    fn put(
        &mut self,
        key: &PinKey,
        records: &[(Item, PinRecord)],
        definitions: &[(String, String)],
    ) -> Result<(), StoreError> {
        self.run("keep pins", |open| {
            open.change(|change, pins, bytes| {
                records.iter().try_for_each(|(item, record)| put(change, pins, key, item, record))?;
                definitions.iter().try_for_each(|(hash, json)| define(change, bytes, hash, json))
            })
        })?;
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn definition(&mut self, hash: &str) -> Result<Option<String>, StoreError> {
        self.run("read a definition", |open| {
            let mut find = open.db.prepare_cached("SELECT definition FROM definitions WHERE hash = ?1")?;
            Ok(find.query_row([hash], |row| row.get(0)).optional()?)
        })
    }

    fn remove(&mut self, key: &PinKey, items: &[Item]) -> Result<(), StoreError> {
        self.run("forget pins", |open| {
            open.change(|change, pins, _| {
                let mut remove = change.prepare_cached(
                    "DELETE FROM pins WHERE uid = ?1 AND server = ?2 AND program = ?3 AND kind = ?4 AND name = ?5",
                )?;
                for item in items {
                    let row = params![uid(key), &*key.server.0, key.program, word(item.kind), item.name];
                    let removed = remove.execute(row)? as u64;
                    let of_user = pins.entry(uid(key)).or_default();
                    *of_user = of_user.saturating_sub(removed);
                }
                Ok(())
            })
        })?;
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn mutes(&mut self) -> Result<Vec<Mute>, StoreError> {
        self.run("read mutes", |open| mutes::all(&open.db))
    }

    fn put_mute(&mut self, mute: &Mute, replaced: Option<&str>) -> Result<(), StoreError> {
        self.run("keep a mute", |open| {
            open.change(|change, _, _| {
                replaced.map_or(Ok(()), |id| mutes::remove(change, id))?;
                mutes::put(change, mute)
            })
        })?;
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn remove_mute(&mut self, id: &str) -> Result<(), StoreError> {
        self.run("forget a mute", |open| open.change(|change, _, _| mutes::remove(change, id)))?;
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// All pins of a database.
///
/// # Errors
/// It cannot be read, or `take` fails.
pub fn each(db: &Connection, mut take: impl FnMut(Pin) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut pins = db.prepare("SELECT uid, server, program, kind, name, record FROM pins")?;
    let mut rows = pins.query([])?;
    while let Some(row) = rows.next()? {
        let server = ServerId(row.get::<_, String>(1)?.into());
        let key = PinKey { uid: u32::try_from(row.get::<_, i64>(0)?).ok(), server, program: row.get(2)? };
        let kind = serde_json::from_value(row.get::<_, String>(3)?.into())?;
        let record = serde_json::from_str(row.get_ref(5)?.as_str()?)?;
        take(Pin { key, item: Item { kind, name: row.get(4)? }, record })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
