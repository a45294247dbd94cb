//! How far whoever must hear all of a child's output has read, and where output therefore waits in the child's pipe
//! instead of pushing unread output out of the bounded log. Reading and writing are not done here.

use super::clock::Awake;

/// Share of the log that may be unread. What the log keeps for certain beside its first segment is more than twice that.
const UNREAD_SHARE: u64 = 4;
/// Time without a new mark after which a child is not held back any longer, in milliseconds: a reader that hangs
/// must not hang the child.
const PATIENCE_MS: u64 = 10_000;

/// The last mark of a reader.
#[derive(Clone, Copy)]
pub(crate) struct Heard {
    position: u64,
    lets_go_at: Awake,
}

impl Heard {
    /// Everything before `position` was read by `now`.
    pub(crate) fn until(position: u64, now: Awake) -> Self {
        Self { position, lets_go_at: now.after(PATIENCE_MS) }
    }

    /// Logical position up to which a log of this bound may grow now.
    pub(crate) fn room(&self, log_limit: u64, now: Awake) -> u64 {
        if self.lets_go_at <= now { u64::MAX } else { self.position.saturating_add(log_limit / UNREAD_SHARE) }
    }

    /// When it stops holding anything back.
    pub(crate) fn lets_go_at(&self) -> Awake {
        self.lets_go_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_comes_along_is_waited_for_and_one_that_hangs_is_not() {
        let heard = Heard::until(1_000, Awake::ZERO);
        assert_eq!(heard.room(400, Awake::ZERO), 1_100);
        assert_eq!(heard.room(400, Awake::ZERO.after(PATIENCE_MS - 1)), 1_100);
        assert_eq!(heard.room(400, Awake::ZERO.after(PATIENCE_MS)), u64::MAX);
        assert_eq!(Heard::until(u64::MAX, Awake::ZERO).room(400, Awake::ZERO), u64::MAX);
    }
}
