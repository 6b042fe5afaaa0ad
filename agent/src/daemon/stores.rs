//! What is kept on this host: the audit log, and the pins.

use std::path::Path;

use anyhow::Result;
use mcpwarden_policy::{EventBody, event::StoreReplaced};
use mcpwarden_store::{
    self as store, Settings, Store,
    chain::Head,
    checkpoint::{AUDIT_KEY, Signer},
    database,
    registry::Pins,
};
use mcpwarden_system::instance;

use crate::config::Config;

/// The largest log of the database of events that readers can keep from being merged.
const LOG_BYTES: u64 = 256 << 20;

/// What is kept on this host.
pub struct Stores {
    /// Events.
    pub events: Store,
    /// The end of their chain.
    pub head: Head,
    /// Pins; `None` where they are not to outlive the agent.
    pub pins: Option<Pins>,
    /// What is to be reported of it.
    pub events_of_start: Vec<EventBody>,
}

impl Stores {
    /// Opens all of it.
    ///
    /// # Errors
    /// The directory is not safe to use, or a database is of a later version or another program's.
    pub fn open(config: &Config, state_dir: &Path) -> Result<Self> {
        let path = match &config.store.path {
            Some(path) => path.as_str().into(),
            None => state_dir.join(store::EVENTS),
        };
        let directory = path.parent().unwrap_or(state_dir).to_owned();
        instance::make(&directory)?;
        let group = store::group(&config.control.group);
        let shared = std::fs::File::open(&directory).and_then(|file| database::give(&file, group));
        let signer = Signer::new(&AUDIT_KEY.get(state_dir)?);
        let signer = signer.ok_or_else(|| {
            anyhow::anyhow!(
                "cannot use the signing key of the audit log in {}: it is not an Ed25519 key",
                state_dir.display()
            )
        })?;
        if let Err(error) = shared.and_then(|()| signer.publish(&directory, group)) {
            tracing::error!("{}: {error}", directory.display());
        }
        let mut events_of_start = Vec::new();
        let mut pins = None;
        if config.registry.persistent {
            let (open, replaced) = Pins::open(&directory, group)?;
            events_of_start.extend(replaced.map(StoreReplaced::into));
            pins = Some(open);
        }
        let export = pins.as_ref().map(Pins::export);
        let settings = Settings {
            path,
            queue_bytes: config.store.queue_bytes.0,
            retention: config.store.retention.clone(),
            log_bytes: LOG_BYTES,
            group,
            signer,
        };
        let exports = move || export.iter().for_each(store::registry::Export::run);
        let (events, head, more) = Store::start(settings, exports)?;
        events_of_start.extend(more);
        Ok(Self { events, head, pins, events_of_start })
    }
}
