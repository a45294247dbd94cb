//! When a request is tried again that failed for a passing reason. Waits double; what the endpoint tells goes before;
//! the salt spreads those that failed together. A wait that is long is not sat out here: the turn ends with the class of the
//! failure, and whoever supervises makes all on the same account stand back.

use subagent_model::ErrorCode;

use crate::failure::Failure;

/// The first wait, in milliseconds.
const FIRST: u64 = 500;
/// The longest wait that is sat out, in milliseconds.
const LONGEST: u64 = 20_000;

/// How long to wait, in milliseconds; none where it is not tried again.
pub(super) fn pause(failure: &Failure, tries: u32, most: u32, salt: u64) -> Option<u64> {
    if !failure.is_passing() || tries >= most {
        return None;
    }
    let doubled = FIRST.saturating_mul(2_u64.saturating_pow(tries)).min(LONGEST);
    let base = failure.retry_after_ms.unwrap_or(doubled);
    if base > LONGEST || (failure.code == ErrorCode::RateLimited && failure.reset_at_ms.is_some()) {
        return None;
    }
    // Up to a quarter more, never less: earlier than told is refused again.
    let spread = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(tries) >> 56;
    Some(base + base / 4 * spread / 255)
}
