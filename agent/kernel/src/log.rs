//! Messages of the kernel half, for whoever debugs it: `mcpwarden run --log kernel=debug`. They are numbers and fixed words.

use aya_log::EbpfLogger;

/// Whom these messages are from: what `--log` calls the kernel half.
macro_rules! target {
    () => {
        "kernel"
    };
}

/// The ring that carries them.
pub(super) const RING: &str = "AYA_LOGS";
/// Bytes of it. Of one that nobody reads, as few as there can be: programs name it all the same.
const RING_BYTES: u32 = 1 << 20;
const UNREAD_RING_BYTES: u32 = 4096;

/// Whether they are asked for. Asked before the programs are loaded, to which it is a constant.
pub fn is_on() -> bool {
    tracing::enabled!(target: target!(), tracing::Level::DEBUG)
}

/// The level of messages that the programs send; 0: none.
pub(super) fn level() -> u8 {
    if is_on() { aya_log::Level::Debug as u8 } else { 0 }
}

/// See [`RING_BYTES`].
pub(super) fn ring_bytes() -> u32 {
    if is_on() { RING_BYTES } else { UNREAD_RING_BYTES }
}

/// The messages of the kernel half, as they come.
pub type Messages = EbpfLogger<Lines>;

/// Hands messages on as the agent's own.
pub struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        tracing::debug!(target: target!(), "{}", record.args());
    }

    fn flush(&self) {}
}
