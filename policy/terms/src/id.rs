//! Newtypes for what is counted and named, so that two different `u64`s never meet by accident.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One connection: the two channels (stdin and stdout) between a client and a server.
///
/// The capture layer picks the number; it is never used again while the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

/// A point in time, in nanoseconds since the Unix epoch (so it ends in the year 2554).
///
/// Written as RFC 3339 in UTC with nine fractional digits: `2026-01-06T10:30:00.000000001Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This point in time moved on by `duration`; stays at the largest value instead of wrapping.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// This much earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// This point in time moved by so many nanoseconds; the largest value stays, and is reached instead of wrapping.
    #[must_use]
    pub fn moved(self, nanos: i64) -> Self {
        if self.0 == u64::MAX { self } else { Self(self.0.saturating_add_signed(nanos)) }
    }

    /// Nanoseconds from `earlier` to this; 0 where `earlier` is later (records can be taken out of order).
    pub fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(self.0)).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let time: SystemTime = humantime::parse_rfc3339(&text).map_err(D::Error::custom)?;
        let since = time.duration_since(UNIX_EPOCH).map_err(D::Error::custom)?;
        u64::try_from(since.as_nanos()).map(Timestamp).map_err(D::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "RFC 3339, UTC, nanoseconds; taken in the kernel.",
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{9}Z$",
        })
    }
}

/// Which way bytes went on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Direction {
    /// Written by the client, for the server's standard input.
    #[serde(rename = "c2s")]
    ClientToServer,
    /// Read by the client, from the server's standard output.
    #[serde(rename = "s2c")]
    ServerToClient,
}

impl Direction {
    /// The other way.
    pub fn reversed(self) -> Self {
        match self {
            Self::ClientToServer => Self::ServerToClient,
            Self::ServerToClient => Self::ClientToServer,
        }
    }
}

/// What a server is called in events and policy: declared in the configuration, or derived from its command
/// line. At most 128 bytes, without blanks or control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ServerId(pub Arc<str>);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All that one client process does with its servers: `sess_` and 12 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SessionId(pub Arc<str>);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339_with_nanoseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (1, "1970-01-01T00:00:00.000000001Z"),
            (1_767_695_400_000_000_000, "2026-01-06T10:30:00.000000000Z"),
            (u64::MAX, "2554-07-21T23:34:33.709551615Z"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Timestamp(nanos).to_string(), text);
            let json = serde_json::to_string(&Timestamp(nanos)).unwrap();
            assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), Timestamp(nanos));
        }
        assert!(serde_json::from_str::<Timestamp>("\"1960-01-01T00:00:00Z\"").is_err());
        assert!(serde_json::from_str::<Timestamp>("\"9999-01-01T00:00:00Z\"").is_err());
    }

    #[test]
    fn timestamp_arithmetic_saturates() {
        assert_eq!(Timestamp(5).nanos_since(Timestamp(9)), 0);
        for (at, by, expected) in [
            (5, 0, 5),
            (5, 3, 8),
            (5, -3, 2),
            (5, -5, 0),
            (5, -6, 0),
            (5, i64::MIN, 0),
            (u64::MAX - 1, 7, u64::MAX),
            (u64::MAX, -7, u64::MAX),
            (0, i64::MAX, i64::MAX.unsigned_abs()),
        ] {
            assert_eq!(Timestamp(at).moved(by), Timestamp(expected), "{at} {by}");
        }
        assert_eq!(Timestamp(u64::MAX).after(Duration::MAX), Timestamp(u64::MAX));
    }
}
