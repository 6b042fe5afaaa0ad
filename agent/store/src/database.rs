//! A database file: opened, made, brought up to date, set aside where it is damaged.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::libc;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use mcpwarden_system::files::{beside, remove, rename};

/// "mcpw": what `file(1)` and we know our databases by (`PRAGMA application_id`).
pub(super) const APPLICATION_ID: i32 = 0x6d63_7077;
/// How long to wait for somebody who closes the database.
const BUSY: Duration = Duration::from_secs(2);
/// Databases up to this size are looked through at start. Bytes. What is damaged in larger ones is found when it is used.
const CHECKED_BYTES: u64 = 64 << 20;

/// One kind of database.
pub struct Schema {
    /// The table that every version has: one of mcpwarden's databases is known from the other by that.
    pub table: &'static str,
    /// SQL that makes version 1 of nothing, version 2 of version 1, and so on.
    pub migrations: &'static [&'static str],
    /// `synchronous` of SQLite: `NORMAL` loses what was committed last when the power fails, `FULL` nothing.
    pub synchronous: &'static str,
}

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// A later version of this program made it.
    #[error(
        "{path} was written by a later version of mcpwarden (schema {found}; this version supports {known}); run that version, or \
         move the file away to start a new database"
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// Version of its schema.
        found: i64,
        /// The last version that is known.
        known: usize,
    },
    /// It is another program's.
    #[error("{0} is a database of another program; set store.path to another file")]
    Foreign(PathBuf),
    /// It is mcpwarden's other one.
    #[error("{path} is mcpwarden's, and not the database with the table `{table}`: give the path of that")]
    Other {
        /// Which.
        path: PathBuf,
        /// What it lacks.
        table: &'static str,
    },
    /// It is no database, or contradicts itself.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How.
        reason: String,
    },
    /// It is to be read, and not there.
    #[error(
        "no database at {0} yet: the agent creates it at its first start (sudo mcpwarden run); --path selects another"
    )]
    Missing(PathBuf),
    /// It is to be read, and this user may not.
    #[error(
        "no permission to read {0}: only root and members of its group may (`control.group` of the configuration; default mcpwarden)"
    )]
    Denied(PathBuf),
    /// It is to be read, and the agent has closed it to readers for now.
    #[error(
        "the agent has closed {0} to readers for some minutes, since one of them held a lock that only the agent needs \
         (mcp_store_readers_cut); root can read it"
    )]
    Closed(PathBuf),
    /// It cannot be used now.
    #[error("cannot use {path}: {reason}")]
    Failed {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl DatabaseError {
    /// What went wrong with the database at `path`.
    pub fn new(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, reason) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, reason },
            _ => Self::Failed { path, reason },
        }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        Self::Failed { path: path.to_owned(), reason: error.to_string() }
    }
}

impl Schema {
    /// Opens a database for writing. It is made where it is missing, for its owner and for reading by `group`.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn open(&self, path: &Path, group: Option<u32>) -> Result<Connection, DatabaseError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .mode(0o640)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| DatabaseError::io(path, &error))?;
        let private = || file.set_permissions(fs::Permissions::from_mode(0o640));
        give(&file, group).and_then(|()| private()).map_err(|error| DatabaseError::io(path, &error))?;
        drop(file);
        self.prepare(path).map_err(|error| match error {
            Problem::Sql(error) => DatabaseError::new(path, &error),
            Problem::Other(error) => error,
        })
    }

    fn prepare(&self, path: &Path) -> Result<Connection, Problem> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY)?;
        let ours: i32 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let (tables, is_it) = self.tables(&db)?;
        if ours != APPLICATION_ID && (ours != 0 || found != 0 || tables != 0) {
            return Err(Problem::Other(DatabaseError::Foreign(path.to_owned())));
        }
        let known = self.migrations.len();
        let Some(missing) = usize::try_from(found).ok().and_then(|found| self.migrations.get(found..)) else {
            return Err(Problem::Other(DatabaseError::Newer { path: path.to_owned(), found, known }));
        };
        if tables != 0 && !is_it {
            return Err(Problem::Other(DatabaseError::Other { path: path.to_owned(), table: self.table }));
        }
        if tables == 0 {
            // Before anything else is written: it cannot be changed later.
            db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        db.pragma_update(None, "synchronous", self.synchronous)?;
        db.pragma_update(None, "journal_size_limit", 64 << 20)?;
        for (sql, version) in missing.iter().zip(found + 1..) {
            let change = db.transaction()?;
            change.execute_batch(sql)?;
            change.pragma_update(None, "application_id", APPLICATION_ID)?;
            change.pragma_update(None, "user_version", version)?;
            change.commit()?;
        }
        if fs::metadata(path).is_ok_and(|file| file.len() <= CHECKED_BYTES) {
            let reason: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if reason != "ok" {
                let reason = reason.replace('\n', ": ");
                return Err(Problem::Other(DatabaseError::Damaged { path: path.to_owned(), reason }));
            }
        }
        Ok(db)
    }

    /// How many tables and the like there are, and whether its own is among them.
    fn tables(&self, db: &Connection) -> rusqlite::Result<(i64, bool)> {
        let count =
            "SELECT count(*), count(*) FILTER (WHERE type = 'table' AND name = ?1) FROM sqlite_schema";
        db.query_row(count, [self.table], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? != 0)))
    }

    /// Opens a database that an agent may be writing to, only for reading, for one query.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn read(&self, path: &Path) -> Result<Connection, DatabaseError> {
        self.read_as(path).map(|(db, _)| db)
    }

    /// The same. Whether it was opened as a file that nobody changes: then it has to be looked whether somebody does.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn read_as(&self, path: &Path) -> Result<(Connection, bool), DatabaseError> {
        File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DatabaseError::Missing(path.to_owned()),
            io::ErrorKind::PermissionDenied => DatabaseError::Denied(path.to_owned()),
            _ => DatabaseError::io(path, &error),
        })?;
        // Without a journal nobody has it open. Then nothing may be put beside it, which readers have no right to.
        let is_still = !beside(path, "-wal").exists();
        let mut uri = OsString::from("file:");
        uri.push(encoded(path));
        uri.push(if is_still { "?immutable=1" } else { "" });
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let open = || {
            let db = Connection::open_with_flags(uri, flags)?;
            db.busy_timeout(BUSY)?;
            let ours: i32 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
            let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            let (tables, is_it) = self.tables(&db)?;
            Ok((db, ours, found, tables != 0 && !is_it))
        };
        let (db, ours, found, is_other) = open().map_err(|error| Self::unreadable(path, &error))?;
        let (path, known) = (path.to_owned(), self.migrations.len());
        match usize::try_from(found) {
            _ if ours != APPLICATION_ID => Err(DatabaseError::Foreign(path)),
            // Of a later version nothing is known, not even which tables it has.
            Ok(version) if version <= known && is_other => {
                Err(DatabaseError::Other { path, table: self.table })
            }
            Ok(version) if version == known => Ok((db, is_still)),
            Ok(version) if version < known => Err(DatabaseError::Failed {
                path,
                reason: format!(
                    "its schema is {found}, this version reads {known}; start the agent once, which brings it up to date"
                ),
            }),
            _ => Err(DatabaseError::Newer { path, found, known }),
        }
    }

    /// Why a database cannot be read.
    fn unreadable(path: &Path, error: &rusqlite::Error) -> DatabaseError {
        let index = File::open(beside(path, "-shm")).map_err(|error| error.kind());
        if error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
            && index.is_err_and(|kind| kind == io::ErrorKind::PermissionDenied)
        {
            return DatabaseError::Closed(path.to_owned());
        }
        DatabaseError::new(path, error)
    }
}

/// Why [`Schema::prepare`] fails.
enum Problem {
    Sql(rusqlite::Error),
    Other(DatabaseError),
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// A path in a URI: what has a meaning there is written as `%` and two digits.
fn encoded(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => bytes.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            byte => bytes.push(*byte),
        }
    }
    OsString::from_vec(bytes)
}

/// Has members of a group own a file, as far as its mode lets them.
pub fn give(file: &File, group: Option<u32>) -> io::Result<()> {
    group.map_or(Ok(()), |group| fchown(file, None, Some(group)))
}

/// Moves a damaged database out of the way, with its journal, and says where to. `time` is in seconds, any will do.
///
/// # Errors
/// It cannot be moved.
pub fn set_aside(path: &Path, time: u64) -> io::Result<PathBuf> {
    let name = |number: u32| match number {
        0 => beside(path, &format!(".damaged-{time}")),
        number => beside(path, &format!(".damaged-{time}-{number}")),
    };
    let aside = (0..).map(name).find(|aside| !aside.exists()).unwrap_or_else(|| name(0));
    fs::rename(path, &aside)?;
    // What was committed last is in the journal; what only helps to read it is of no use.
    rename(&beside(path, "-wal"), &beside(&aside, "-wal"))?;
    remove(&beside(path, "-shm"))?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const SCHEMA: Schema = Schema {
        table: "a",
        migrations: &["CREATE TABLE a (x)", "CREATE TABLE b (y)"],
        synchronous: "NORMAL",
    };

    /// What is done to the file, and what is said of it; `None` where it can be used.
    #[test]
    fn database_is_opened_or_refused_by_content() {
        type Change = fn(&Path);
        fn run(path: &Path, sql: &str) {
            Connection::open(path).unwrap().execute_batch(sql).unwrap();
        }
        let cases: [(&str, Change, Option<&str>); 10] = [
            ("nothing", |_| (), None),
            ("an empty file", |path| fs::write(path, "").unwrap(), None),
            (
                "the first version",
                |path| {
                    let first = Schema { migrations: &SCHEMA.migrations[..1], ..SCHEMA };
                    drop(first.open(path, None).unwrap());
                },
                None,
            ),
            (
                "a later version",
                |path| {
                    drop(SCHEMA.open(path, None).unwrap());
                    run(path, "PRAGMA user_version = 3");
                },
                Some("x.db was written by a later version of mcpwarden (schema 3; this version supports 2)"),
            ),
            (
                "another program's",
                |path| run(path, "CREATE TABLE c (z)"),
                Some("a database of another program"),
            ),
            (
                "the other one",
                |path| {
                    drop(
                        Schema { table: "a", migrations: &["CREATE TABLE c (z)"], ..SCHEMA }
                            .open(path, None)
                            .unwrap(),
                    );
                },
                Some("x.db is mcpwarden's, and not the database with the table `a`"),
            ),
            (
                "text",
                |path| fs::write(path, "x".repeat(5000)).unwrap(),
                Some("is damaged: file is not a database"),
            ),
            (
                "a damaged page",
                |path| {
                    drop(SCHEMA.open(path, None).unwrap());
                    run(path, "INSERT INTO a VALUES (1); PRAGMA wal_checkpoint(TRUNCATE)");
                    let mut bytes = fs::read(path).unwrap();
                    let page = bytes.len() - 4096;
                    bytes[page..page + 200].fill(0xff);
                    fs::write(path, bytes).unwrap();
                },
                Some("is damaged: "),
            ),
            (
                "a link",
                |path| {
                    fs::write(path.with_extension("else"), "").unwrap();
                    symlink(path.with_extension("else"), path).unwrap();
                },
                Some("symbolic links"),
            ),
            ("a directory", |path| fs::create_dir(path).unwrap(), Some("cannot use ")),
        ];
        for (name, change, expected) in cases {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.db");
            change(&path);
            match (SCHEMA.open(&path, None), expected) {
                (Ok(db), None) => {
                    db.execute_batch("INSERT INTO a VALUES (1); INSERT INTO b VALUES (2)").unwrap();
                    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o137, 0, "{name}");
                    SCHEMA.read(&path).unwrap();
                    drop(db);
                    assert!(!beside(&path, "-wal").exists(), "{name}: a closed database is one file");
                    SCHEMA.read(&path).unwrap();
                }
                (Err(error), Some(expected)) => {
                    let error = error.to_string();
                    assert!(error.contains(expected) && !error.contains('\n'), "{name}: {error}");
                }
                (found, _) => panic!("{name}: {:?}", found.map(drop)),
            }
        }
    }

    #[test]
    fn damaged_files_are_kept_under_new_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let mut names = Vec::new();
        for number in 0..3 {
            fs::write(&path, format!("{number}")).unwrap();
            fs::write(beside(&path, "-wal"), "w").unwrap();
            fs::write(beside(&path, "-shm"), "s").unwrap();
            let aside = set_aside(&path, 7).unwrap();
            assert_eq!(fs::read_to_string(&aside).unwrap(), format!("{number}"));
            assert_eq!(fs::read_to_string(beside(&aside, "-wal")).unwrap(), "w");
            names.push(aside.file_name().unwrap().to_str().unwrap().to_owned());
        }
        assert_eq!(names, ["x.db.damaged-7", "x.db.damaged-7-1", "x.db.damaged-7-2"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6);
    }

    #[test]
    fn special_characters_in_path_are_literal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a?b#c%41.db");
        drop(SCHEMA.open(&path, None).unwrap());
        SCHEMA.read(&path).unwrap();
        let missing = SCHEMA.read(&directory.path().join("none.db")).unwrap_err();
        assert!(matches!(missing, DatabaseError::Missing(_)), "{missing}");
    }
}
