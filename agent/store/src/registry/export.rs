//! The pins and mutes as a file: what a damaged database is filled from again.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mcpwarden_system::files::beside;
use mcpwarden_text::write_json;

use super::{EXPORT, Line, SCHEMA, each, mutes};
use crate::database::give;

/// Writes the pins into a file beside their database.
#[derive(Debug)]
pub struct Export {
    pub(super) path: PathBuf,
    pub(super) group: Option<u32>,
    pub(super) changed: Arc<AtomicBool>,
}

impl Export {
    /// Writes it, if any pin changed since the last time. Where it cannot be written, that is said on standard error, and
    /// the last one stays.
    pub fn run(&self) {
        if !self.changed.swap(false, Ordering::Relaxed) {
            return;
        }
        let to = self.path.with_file_name(EXPORT);
        if let Err(error) = self.write(&to) {
            self.changed.store(true, Ordering::Relaxed);
            tracing::error!("cannot export pins to {}: {error}", to.display());
        }
    }

    fn write(&self, to: &Path) -> anyhow::Result<()> {
        let db = SCHEMA.read(&self.path)?;
        let fresh = beside(to, ".new");
        let _ = fs::remove_file(&fresh);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&fresh)?;
        give(&file, self.group)?;
        let mut out = BufWriter::new(file);
        let mut line = |line: &Line| -> anyhow::Result<()> {
            let mut text = Vec::new();
            write_json(line, &mut text);
            text.push(b'\n');
            Ok(out.write_all(&text)?)
        };
        each(&db, |pin| line(&Line::Pin(Box::new(pin))))?;
        for mute in mutes::all(&db).map_err(|refused| anyhow::anyhow!("{refused}"))? {
            line(&Line::Mute(Box::new(mute)))?;
        }
        let mut definitions = db.prepare("SELECT hash, definition FROM definitions")?;
        let mut rows = definitions.query([])?;
        while let Some(row) = rows.next()? {
            line(&Line::Definition { hash: row.get(0)?, json: row.get(1)? })?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(fs::rename(&fresh, to)?)
    }
}
