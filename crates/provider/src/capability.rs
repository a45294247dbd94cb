//! What a provider can do, stated up front.

use serde::{Deserialize, Serialize};

/// How a message reaches a running child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// Not at all.
    None,
    /// At the next boundary of its work.
    AtBoundary,
    /// Into the current turn.
    Live,
}

/// The abilities of a provider.
#[expect(clippy::struct_excessive_bools, reason = "each is an ability of its own, and none excludes another")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Messages to a running child.
    pub steering: Steering,
    /// A later run can continue the session.
    pub resume: bool,
    /// A child that outlived the daemon can be taken over.
    pub adopt: bool,
    /// A model can be chosen.
    pub model: bool,
    /// Tokens or money are reported.
    pub usage: bool,
}
