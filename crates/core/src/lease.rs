//! The arithmetic of leases: when a lease runs out, when it is renewed, and how long a shim may let its child live
//! without hearing from its daemon. Only durations and instants live here; who holds a lease, and what a lease
//! permits, is decided in `run`.

use std::time::Duration;

use subagent_model::Timestamp;

/// How leases are given out on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    length: Duration,
    margin: Duration,
}

/// A lease that could not keep two nodes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lease of {length:?} has no room for a margin of {margin:?}: it must be at least three times as long"
)]
pub struct LeaseTooShort {
    /// Its length.
    pub length: Duration,
    /// The margin.
    pub margin: Duration,
}

/// What a shim is told about the life of its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watchdog {
    /// The lease never runs out: no other node could take the attempt over.
    Never,
    /// End the child this long from now, unless told otherwise before.
    After(Duration),
    /// Too little of the lease is left: no child may be started under it, and a running one must end now.
    TooLate,
}

impl Lease {
    /// Leases of `length`. `margin` covers how far the clocks of two nodes differ and how long it takes to end a
    /// process tree. A renewal is due after a third of the length, and one that fails must leave time for another:
    /// hence the bound.
    pub fn new(length: Duration, margin: Duration) -> Result<Self, LeaseTooShort> {
        if length / 3 < margin {
            return Err(LeaseTooShort { length, margin });
        }
        Ok(Self { length, margin })
    }

    /// The end of a lease that is taken or renewed at `now`.
    pub fn until(&self, now: Timestamp) -> Timestamp {
        now.after(self.length)
    }

    /// When a lease that runs out at `lease_until` is to be renewed: once a third of it is used. One that never runs
    /// out is never renewed.
    pub fn renew_at(&self, lease_until: Timestamp) -> Option<Timestamp> {
        (lease_until < Timestamp::never()).then(|| earlier(lease_until, self.length / 3 * 2))
    }

    /// How long a child may live under the lease that was **read** from the store, seen from `now`: the rest of it,
    /// less the margin.
    ///
    /// Not a whole lease from now: the record may have been read a while ago. And a renewal is stored first and told
    /// to the shim afterwards. With either of these turned round, two processes of one run can be alive at once; the
    /// model check shows how.
    pub fn watchdog(&self, lease_until: Timestamp, now: Timestamp) -> Watchdog {
        if lease_until >= Timestamp::never() {
            return Watchdog::Never;
        }
        match lease_until.since(now).checked_sub(self.margin) {
            Some(left) if !left.is_zero() => Watchdog::After(left),
            _ => Watchdog::TooLate,
        }
    }
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(at.as_micros().saturating_sub(micros))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::time::Duration;

    use super::{Lease, Watchdog};
    use subagent_model::Timestamp;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn lease() -> Lease {
        Lease::new(Duration::from_secs(30), Duration::from_secs(5)).unwrap()
    }

    #[test]
    fn the_watchdog_is_always_shorter_than_the_lease_it_was_made_from() {
        for age in 0..40 {
            let until = lease().until(at(0));
            match lease().watchdog(until, at(age)) {
                Watchdog::After(left) => assert!(at(age).after(left).after(Duration::from_secs(5)) <= until),
                Watchdog::TooLate => assert!(age >= 25),
                Watchdog::Never => unreachable!(),
            }
        }
    }

    #[test]
    fn a_renewal_is_due_early_enough_for_a_second_try() {
        let until = lease().until(at(0));
        assert_eq!(lease().renew_at(until), Some(at(10)));
        assert_eq!(lease().watchdog(until, at(10)), Watchdog::After(Duration::from_secs(15)));
    }

    #[test]
    fn a_lease_for_ever_needs_neither() {
        assert_eq!(lease().renew_at(Timestamp::never()), None);
        assert_eq!(lease().watchdog(Timestamp::never(), at(0)), Watchdog::Never);
    }

    #[test]
    fn a_margin_that_eats_the_lease_is_refused() {
        assert!(Lease::new(Duration::from_secs(14), Duration::from_secs(5)).is_err());
        assert!(Lease::new(Duration::from_secs(15), Duration::from_secs(5)).is_ok());
    }
}
