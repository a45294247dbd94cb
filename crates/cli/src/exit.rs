//! Exit codes, as the reference promises them. `subagent_model::ErrorCode::exit_code` gives the same numbers for
//! errors.

/// Done; where a run is the matter, it ended well.
pub(crate) const DONE: u8 = 0;
/// The run ended badly, or something failed.
pub(crate) const ENDED_BADLY: u8 = 1;
/// Still pending.
pub(crate) const PENDING: u8 = 5;
