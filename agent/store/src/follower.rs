//! Events as they come.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::reader::{Reader, Row, place};

/// A database that is read as it grows, whatever file stands at its path.
pub struct Follower {
    path: PathBuf,
    /// Which file that was.
    opened: Option<(u64, u64)>,
    reader: Reader,
    last: u64,
}

impl Follower {
    /// Opens it, at its end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = place(path);
        let reader = Reader::open(path)?;
        let last = reader.last().with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path: path.to_owned(), opened, reader, last })
    }

    /// Number of the last event that was handed on, or at first of the last that there is.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// What reads it now.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Leaves out the oldest of the events that came, so that at most so many are left; how many that were.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn skip(&mut self, left: u64) -> Result<u64> {
        self.renew()?;
        let skipped = self.reader.last()?.saturating_sub(self.last).saturating_sub(left);
        self.last += skipped;
        Ok(skipped)
    }

    /// Hands on the events that came.
    ///
    /// # Errors
    /// The database cannot be read, or `take` fails.
    pub fn poll(&mut self, mut take: impl FnMut(Row) -> Result<()>) -> Result<()> {
        self.renew()?;
        let last = &mut self.last;
        self.reader.walk(*last + 1, |row| {
            *last = row.head.seq;
            take(row).map(|()| true)
        })
    }

    /// Where another database stands there, since the one before was damaged or moved away, it is opened at its beginning. Where an
    /// agent appeared, it goes on from where it is.
    fn renew(&mut self) -> Result<()> {
        let now = place(&self.path);
        if now.is_some() && now != self.opened {
            let reader = Reader::open(&self.path)?;
            // Its numbers may go on from those of the one before, and what is not in it cannot be passed over.
            let last = reader.before()?;
            (self.reader, self.last, self.opened) = (reader, last, now);
        } else {
            self.reader.refresh()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::event::AgentLoss;

    use mcpwarden_policy::{Event, Timestamp};
    use rusqlite::Connection;

    use super::*;
    use crate::testing::{TestAgent, settings};

    /// A database with so many events.
    fn stored(directory: &Path, count: u64) -> PathBuf {
        let mut agent = TestAgent::start(settings(directory));
        agent.send(
            (0..count).map(|time| Event::agent(Timestamp(time), AgentLoss::default().into())).collect(),
        );
        agent.finish();
        settings(directory).path
    }

    /// What another database has that stands there now (the first of them retention removed), how many of them are read
    /// at most; what is passed over, and what is read.
    #[test]
    fn follower_skips_events_of_replaced_database() {
        for (count, removed, left, skipped, expected) in
            [(9, 0, 20, 0, 1..=9), (9, 0, 4, 5, 6..=9), (9, 6, 4, 0, 7..=9), (9, 2, 4, 3, 6..=9)]
        {
            let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let [first, second] = &directories;
            let path = stored(first.path(), 3);
            let mut follower = Follower::open(&path).unwrap();
            let other = stored(second.path(), count);
            let removing = format!("DELETE FROM events WHERE seq <= {removed}");
            Connection::open(&other).unwrap().execute_batch(&removing).unwrap();
            std::fs::rename(&other, &path).unwrap();
            assert_eq!(follower.skip(left).unwrap(), skipped, "{count} {removed} {left}");
            let mut read = Vec::new();
            let taken = follower.poll(|row| {
                read.push(row.head.seq);
                Ok(())
            });
            taken.unwrap();
            assert_eq!(read, expected.collect::<Vec<_>>(), "{count} {removed} {left}");
            assert_eq!(follower.skip(0).unwrap(), 0);
        }
    }
}
