//! When an attempt's time is over: the hard deadline and the lease. Plain arithmetic; the caller brings the clock.

use subagent_model::process::ExitCause;

use super::clock::Awake;

/// The two times that end an attempt by themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    deadline: Option<Awake>,
    lease: Option<Awake>,
}

impl Limits {
    /// Both in milliseconds from `now`.
    pub(crate) fn new(deadline: Option<u64>, lease: Option<u64>, now: Awake) -> Self {
        Self { deadline: deadline.map(|after| now.after(after)), lease: lease.map(|after| now.after(after)) }
    }

    /// Gives the lease a new length from `now`.
    pub(crate) fn renew(&mut self, lease: u64, now: Awake) {
        self.lease = Some(now.after(lease));
    }

    /// The next of the two.
    pub(crate) fn next(self) -> Option<Awake> {
        self.deadline.into_iter().chain(self.lease).min()
    }

    /// What is over at this time; the deadline counts first.
    pub(crate) fn over(self, now: Awake) -> Option<ExitCause> {
        let passed = |at: Option<Awake>| at.is_some_and(|at| at <= now);
        if passed(self.deadline) {
            Some(ExitCause::Deadline)
        } else {
            passed(self.lease).then_some(ExitCause::Lease)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with both clocks, played.
    struct Host {
        awake: Awake,
        wall: u64,
    }

    impl Host {
        fn works(&mut self, millis: u64) {
            self.awake = self.awake.after(millis);
            self.wall += millis;
        }

        /// Asleep, or its wall clock set forward.
        fn jumps(&mut self, millis: u64) {
            self.wall += millis;
        }
    }

    #[test]
    fn queue_17_a_machine_that_slept_ends_no_attempt() {
        let mut host = Host { awake: Awake::ZERO.after(5_000), wall: 1_800_000_000_000 };
        let before = host.wall;
        let mut limits = Limits::new(Some(60_000), Some(30_000), host.awake);
        host.works(10_000);
        host.jumps(3_600_000);
        assert_eq!(limits.over(host.awake), None);
        limits.renew(30_000, host.awake);
        host.works(29_999);
        host.jumps(3_600_000);
        assert_eq!(limits.over(host.awake), None);
        host.works(1);
        assert_eq!(limits.over(host.awake), Some(ExitCause::Lease));
        host.works(20_000);
        assert_eq!(limits.over(host.awake), Some(ExitCause::Deadline));
        assert!(host.wall - before > 7_200_000);
    }

    #[test]
    fn the_next_one_is_the_nearer_one_and_none_is_none() {
        let now = Awake::ZERO.after(100);
        assert_eq!(Limits::new(Some(50), Some(20), now).next(), Some(now.after(20)));
        assert_eq!(Limits::new(Some(10), Some(20), now).next(), Some(now.after(10)));
        assert_eq!(Limits::new(None, None, now).next(), None);
        assert_eq!(Limits::new(None, None, now).over(now.after(u64::MAX)), None);
    }
}
