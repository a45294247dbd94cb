//! The one time type: microseconds since the epoch inside, RFC 3339 outside.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant of wall-clock time with microsecond precision. Stored as `i64`, written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970-01-01T00:00:00Z; clamped to the years that RFC 3339 can write.
    pub fn from_micros(micros: i64) -> Self {
        let max = jiff::Timestamp::MAX.as_microsecond();
        let min = jiff::Timestamp::MIN.as_microsecond();
        Self(micros.clamp(min, max))
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// The end of time: a lease that never runs out.
    pub const fn never() -> Self {
        // The last microsecond of the year 9999, less a day, so that every zone can write it.
        Self(253_402_207_200_000_000)
    }

    /// This instant and `by` later.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{stamp:.6}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let stamp: jiff::Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(Self::from_micros(stamp.as_microsecond()))
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time", "description": "RFC 3339, UTC, microseconds"})
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::Timestamp;

    #[test]
    fn text_and_number_agree() {
        let stamp = Timestamp::from_micros(1_796_000_000_123_456);
        let text = serde_json::to_string(&stamp).unwrap();
        assert_eq!(text, "\"2026-11-30T00:53:20.123456Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), stamp);
        let end = serde_json::to_string(&Timestamp::never()).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&end).unwrap(), Timestamp::never());
    }
}
