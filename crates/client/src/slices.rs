//! Long waits, asked for in slices, so that a daemon that was replaced meanwhile is found.

use std::time::Duration;

/// Longest part of a longer wait that one request asks for. The daemon holds none longer.
pub(crate) const WAIT_SLICE: Duration = Duration::from_mins(1);

/// A duration as it is written into requests.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What is left of a wait. Each slice counts as used, also where the answer came before its time: a daemon that does not
/// hold its answers is asked a few times, not without end.
pub(crate) struct Slices {
    left: Duration,
}

impl Slices {
    pub(crate) fn of(wait: Duration) -> Self {
        Self { left: wait }
    }

    /// The next slice.
    pub(crate) fn next(&mut self) -> Duration {
        let slice = self.left.min(WAIT_SLICE);
        self.left = self.left.saturating_sub(slice);
        slice
    }

    /// Whether that was the last one.
    pub(crate) fn are_over(&self) -> bool {
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Slices, WAIT_SLICE};

    fn slices(wait: Duration) -> Vec<Duration> {
        let mut slices = Slices::of(wait);
        let mut all = vec![slices.next()];
        while !slices.are_over() {
            all.push(slices.next());
        }
        all
    }

    #[test]
    fn daemon_a_long_wait_is_asked_for_in_slices_that_make_it_up() {
        let rest = Duration::from_secs(7);
        assert_eq!(slices(WAIT_SLICE * 2 + rest), [WAIT_SLICE, WAIT_SLICE, rest]);
        assert_eq!(slices(WAIT_SLICE), [WAIT_SLICE]);
        // Without a wait it is asked once.
        assert_eq!(slices(Duration::ZERO), [Duration::ZERO]);
    }
}
