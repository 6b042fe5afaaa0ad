//! What retention leaves of the events that it removes: the number and hash of the last one, signed by this host.
//!
//! So the chain of what is left still hangs on something, and nobody without the host's key can pretend that older events
//! are gone for their age.

use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use mcpwarden_policy::{Timestamp, hash::hex};
use mcpwarden_system::instance::Secret;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    chain::{Hash, Head},
    database::give,
};

/// What checkpoints are signed with.
pub const AUDIT_KEY: Secret = Secret {
    file: "audit.key",
    lost: "what is kept of events that were removed until then cannot be verified with it",
};
/// Beside the database: what they are verified with, as hexadecimal digits.
pub const PUBLIC_KEY: &str = "audit.pub";

/// The last event that retention removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number and hash.
    pub removed: Head,
    /// When it was removed.
    pub time: Timestamp,
    /// Of `Checkpoint::text`, by the host's key.
    pub signature: Vec<u8>,
}

/// The host's key.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The key of these bytes.
    pub fn new(secret: &[u8; 32]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(secret).ok().map(Self)
    }

    /// A checkpoint of a removal at `time`.
    pub fn sign(&self, removed: Head, time: Timestamp) -> Checkpoint {
        Checkpoint { removed, time, signature: self.sign_text(&text(removed, time)) }
    }

    /// The signature of a text.
    pub(super) fn sign_text(&self, text: &str) -> Vec<u8> {
        self.0.sign(text.as_bytes()).as_ref().to_vec()
    }

    /// What others verify checkpoints with.
    pub fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// Writes that into the directory of the database, for whoever may read the database.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn publish(&self, directory: &Path, group: Option<u32>) -> std::io::Result<()> {
        let (path, fresh) = (directory.join(PUBLIC_KEY), directory.join("audit.pub.new"));
        let text = format!("ed25519:{}\n", hex(self.public()));
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        let _ = fs::remove_file(&fresh);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(&fresh)?;
        give(&file, group)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&fresh, &path)
    }
}

/// What a host's checkpoints are verified with, as [`Signer::publish`] wrote it; `None` where it is no such key.
pub fn public_key(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().strip_prefix("ed25519:")?;
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    let key: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    key.filter(|key| key.len() == 32)
}

/// Whether the host with this key signed a text.
pub(super) fn is_signed(text: &str, signature: &[u8], public_key: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(text.as_bytes(), signature).is_ok()
}

/// What is signed.
fn text(removed: Head, time: Timestamp) -> String {
    format!("mcpwarden checkpoint 1\n{}\n{}\n{time}\n", removed.seq, removed.hash)
}

impl Checkpoint {
    /// Whether the host with this key signed it.
    pub fn is_signed(&self, public_key: &[u8]) -> bool {
        is_signed(&text(self.removed, self.time), &self.signature, public_key)
    }

    /// The one of a database, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(db: &Connection) -> rusqlite::Result<Option<Self>> {
        db.query_row("SELECT seq, hash, time_ns, signature FROM checkpoint", [], |row| {
            Ok(Self {
                removed: Head { seq: row.get::<_, i64>(0)?.unsigned_abs(), hash: Hash(row.get(1)?) },
                time: Timestamp(row.get::<_, i64>(2)?.unsigned_abs()),
                signature: row.get(3)?,
            })
        })
        .optional()
    }

    /// Puts it in the place of the one before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        db.execute("DELETE FROM checkpoint", [])?;
        let Self { removed: Head { seq, hash }, time, signature } = self;
        db.execute(
            "INSERT INTO checkpoint (seq, hash, time_ns, signature) VALUES (?1, ?2, ?3, ?4)",
            params![super::integer(*seq), hash.0, super::integer(time.0), signature],
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_checkpoint_is_not_signed() {
        let (signer, other) = (Signer::new(&[7; 32]).unwrap(), Signer::new(&[8; 32]).unwrap());
        let removed = Head { seq: 5, hash: Hash([1; 32]) };
        let good = signer.sign(removed, Timestamp(9));
        assert!(good.is_signed(signer.public()));
        assert!(!good.is_signed(other.public()));
        assert!(!good.is_signed(&[]));
        for bad in [
            Checkpoint { removed: Head { seq: 6, ..removed }, ..good.clone() },
            Checkpoint { removed: Head { hash: Hash([2; 32]), ..removed }, ..good.clone() },
            Checkpoint { time: Timestamp(10), ..good.clone() },
            Checkpoint { signature: Vec::new(), ..good.clone() },
        ] {
            assert!(!bad.is_signed(signer.public()), "{bad:?}");
        }
    }

    #[test]
    fn published_public_key_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let signer = Signer::new(&[7; 32]).unwrap();
        for _ in 0..2 {
            signer.publish(directory.path(), None).unwrap();
            let text = fs::read_to_string(directory.path().join(PUBLIC_KEY)).unwrap();
            assert_eq!(public_key(&text).unwrap(), signer.public());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        for bad in ["", "ed25519:", "ed25519:00", "rsa:00", "ed25519:ä0", &"ed25519:zz".repeat(32)] {
            assert_eq!(public_key(bad), None, "{bad}");
        }
    }
}
