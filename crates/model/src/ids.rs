//! Identities: who is who, and how people and files name them.
//!
//! A subagent is an id (UUID v7, sorted by birth) and a short handle that people type. A run and an attempt
//! are numbers within it. Nothing here makes ids: that takes a clock and randomness, which belong to shells.

use std::fmt;
use std::str::FromStr;

use newtype_uuid::{GenericUuid, TypedUuid, TypedUuidKind, TypedUuidTag};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The kind tag of [`SubagentId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubagentKind {}

impl TypedUuidKind for SubagentKind {
    fn tag() -> TypedUuidTag {
        const TAG: TypedUuidTag = TypedUuidTag::new("subagent");
        TAG
    }
}

/// The durable identity of a subagent: a UUID v7, so ids sort by birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubagentId(TypedUuid<SubagentKind>);

impl SubagentId {
    /// Wraps a UUID that the caller made.
    pub fn from_uuid(uuid: uuid::Uuid) -> Self {
        Self(TypedUuid::from_untyped_uuid(uuid))
    }

    /// The bare UUID.
    pub fn as_uuid(&self) -> uuid::Uuid {
        self.0.into_untyped_uuid()
    }
}

impl fmt::Display for SubagentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.into_untyped_uuid().fmt(f)
    }
}

impl FromStr for SubagentId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::from_uuid)
    }
}

impl JsonSchema for SubagentId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SubagentId".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "uuid", "description": "UUID v7 of a subagent"})
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Default,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Which run of a subagent: the spawn is 1, each resume and follow-up takes the next.
    RunNumber
}
number! {
    /// Which process execution of a subagent, strictly increasing over all its runs. It is the fencing number:
    /// facts that carry an older one change nothing. Zero means none yet.
    AttemptNumber
}

/// Names one attempt everywhere outside the store: directories, shims, environment markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    /// The subagent.
    pub subagent: SubagentId,
    /// Its run.
    pub run: RunNumber,
    /// Its attempt.
    pub attempt: AttemptNumber,
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.subagent, self.run, self.attempt)
    }
}

/// A text that is not an attempt key.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an attempt key (`UUID.RUN.ATTEMPT`)")]
pub struct NotAnAttemptKey(String);

impl FromStr for AttemptKey {
    type Err = NotAnAttemptKey;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = || {
            let mut parts = text.split('.');
            let key = Self {
                subagent: parts.next()?.parse().ok()?,
                run: RunNumber(parts.next()?.parse().ok()?),
                attempt: AttemptNumber(parts.next()?.parse().ok()?),
            };
            parts.next().is_none().then_some(key)
        };
        parts().ok_or_else(|| NotAnAttemptKey(text.chars().take(120).collect()))
    }
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

word! {
    /// The short unique name that people type, such as `k7q2mx`.
    Handle
}
word! {
    /// Who asked: `user:UID` (a person at the command line), `subagent:UUID`, or a name that an API client chose.
    /// Deliveries are addressed to it.
    Requester
}
word! {
    /// One daemon's identity in a store; it owns leases. Stable over restarts of the same installation.
    NodeId
}

impl Requester {
    /// The requester that a subagent is.
    pub fn subagent(id: SubagentId) -> Self {
        Self(format!("subagent:{id}"))
    }
}

/// A position in the event log: the sequence number of the last event seen. Zero is before the first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Default,
)]
#[serde(transparent)]
pub struct Cursor(pub u64);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
