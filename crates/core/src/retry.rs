//! What follows on a failure of a provider: an end, another attempt, a pause of everything on the same account, or a
//! quota that is waited for. Times are spread by the id of the run, so that a herd does not come back at once and a
//! replay meets the same times. Who is allowed to start meanwhile is `slots`'.

use std::time::Duration;

use subagent_model::{ErrorCode, SubagentId, Timestamp};

/// The first pause; each further one is twice as long.
pub const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that is chosen here. One that the provider tells may be longer.
pub const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How often a run is put back by limits of its provider. These attempts do not count against its `max_attempts`.
pub const MAX_PUT_BACK: u32 = 20;
/// The most by which runs are spread after the reset of a quota.
pub const QUOTA_SPREAD: Duration = Duration::from_secs(30);
/// A reset further away than this is no answer: quotas are renewed monthly at the least.
const LONGEST_TOLD: Duration = Duration::from_hours(24 * 32);

/// What failed, and what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How.
    pub code: ErrorCode,
    /// When the limit is lifted, as far as the provider tells.
    pub reset_at: Option<Timestamp>,
    /// The prompt was taken: the child may have done something.
    pub begun: bool,
    /// Its session can be continued in a new attempt.
    pub resumable: bool,
    /// Its model had answered before: whatever it needed for that was there.
    pub worked: bool,
}

/// What the run has behind it, this failure included, and what it is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    /// Attempts that failed by themselves.
    pub attempts: u32,
    /// Most of them.
    pub max_attempts: u32,
    /// How often a limit of the provider put it back.
    pub put_back: u32,
    /// Its spec allows attempts after failures. Limits of the provider are no failures of the run.
    pub retry: bool,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The run ends with the error.
    Fail,
    /// The run goes back to the queue.
    Again {
        /// Not before.
        not_before: Timestamp,
        /// The next attempt continues the session; else it begins anew.
        continue_session: bool,
    },
    /// Nothing of the same provider, account and model starts for a while, and the run goes back to the queue.
    CoolDown {
        /// Until then, for all.
        until: Timestamp,
        /// Not before, for this run.
        not_before: Timestamp,
        /// The next attempt continues the session; else it begins anew.
        continue_session: bool,
    },
    /// The run waits for its quota and holds no slot.
    Park {
        /// Until then.
        until: Timestamp,
        /// The next attempt continues the session; else it begins anew.
        continue_session: bool,
    },
}

/// What follows on `failure` of the run `id`.
///
/// Work that was begun is never begun again: without a session to continue, the failure is the end of the run.
pub fn next(failure: &Failure, tries: &Tries, now: Timestamp, id: SubagentId) -> Next {
    if failure.begun && !failure.resumable {
        return Next::Fail;
    }
    let continue_session = failure.begun;
    let told = failure.reset_at.filter(|at| *at > now && at.since(now) <= LONGEST_TOLD);
    match (failure.code, told) {
        (ErrorCode::QuotaExhausted, Some(reset)) => {
            Next::Park { until: reset.after(spread(QUOTA_SPREAD, id, tries.put_back)), continue_session }
        }
        // A reset that is over already: it is asked again, but not in a tight loop.
        (ErrorCode::QuotaExhausted, None) if failure.reset_at.is_none_or(|at| at > now) => Next::Fail,
        (ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::QuotaExhausted, _) => {
            if tries.put_back > MAX_PUT_BACK {
                return Next::Fail;
            }
            let until = now.after(pause(tries.put_back)).max(told.unwrap_or(now));
            let not_before = until.after(spread(until.since(now) / 4, id, tries.put_back));
            Next::CoolDown { until, not_before, continue_session }
        }
        (ErrorCode::Protocol | ErrorCode::Timeout | ErrorCode::Crashed, _)
            if tries.retry && tries.attempts < tries.max_attempts =>
        {
            let pause = pause(tries.attempts);
            let not_before = now.after(pause.saturating_add(spread(pause / 4, id, tries.attempts)));
            Next::Again { not_before, continue_session }
        }
        // A login that worked and is refused now was changed under it, as when another process on the same login refreshed it. A
        // new process reads it again, once; the refresh itself is the agent's.
        (ErrorCode::Auth, _)
            if failure.worked && tries.attempts == 1 && tries.attempts < tries.max_attempts =>
        {
            let pause = pause(tries.attempts);
            let not_before = now.after(pause.saturating_add(spread(pause / 4, id, tries.attempts)));
            Next::Again { not_before, continue_session }
        }
        _ => Next::Fail,
    }
}

/// The pause after the `n`th time.
fn pause(n: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(n.saturating_sub(1));
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

/// A part of `most` that depends on the id and the try alone.
fn spread(most: Duration, id: SubagentId, n: u32) -> Duration {
    let bits = id.as_uuid().as_u128();
    #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed in")]
    let mixed = mix((bits >> 64) as u64 ^ mix(bits as u64 ^ u64::from(n)));
    let parts = u32::from(mixed.to_be_bytes()[0]);
    most / 255 * parts
}

/// Spreads a change of any bit over all of them.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 29)).wrapping_mul(0xd1b5_4a32_d192_ed03);
    bits ^ (bits >> 32)
}

#[cfg(test)]
mod tests {
    use super::{Failure, LONGEST_PAUSE, MAX_PUT_BACK, Next, QUOTA_SPREAD, Tries, next};
    use std::collections::BTreeSet;
    use std::time::Duration;
    use subagent_model::{ErrorCode, SubagentId, Timestamp};

    const NOW: i64 = 1_000_000;

    fn id(n: u128) -> SubagentId {
        SubagentId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn failure(code: ErrorCode) -> Failure {
        Failure { code, reset_at: None, begun: true, resumable: true, worked: false }
    }

    fn first() -> Tries {
        Tries { attempts: 1, max_attempts: 3, put_back: 1, retry: true }
    }

    fn follows(failure: Failure, tries: Tries) -> Next {
        next(&failure, &tries, at(NOW), id(7))
    }

    #[test]
    fn res_17_which_failures_are_tried_again() {
        use ErrorCode as E;
        // Begun, resumable, retry → what follows: F(ail), A(gain), C(ool down), P(ark).
        let states = [(false, false, true), (true, true, true), (true, false, true), (true, true, false)];
        let table = [
            (E::RateLimited, "CCFC"),
            (E::Overloaded, "CCFC"),
            (E::QuotaExhausted, "FFFF"),
            (E::Protocol, "AAFF"),
            (E::Timeout, "AAFF"),
            (E::Crashed, "AAFF"),
            (E::Auth, "FFFF"),
            (E::ContextOverflow, "FFFF"),
            (E::Refused, "FFFF"),
            (E::NoFinalMessage, "FFFF"),
        ];
        for (code, expected) in table {
            let found: String = states
                .iter()
                .map(|&(begun, resumable, retry)| {
                    let failure = Failure { begun, resumable, ..failure(code) };
                    match follows(failure, Tries { retry, ..first() }) {
                        Next::Fail => 'F',
                        Next::Again { continue_session, .. } => {
                            assert_eq!(continue_session, begun);
                            'A'
                        }
                        Next::CoolDown { continue_session, .. } => {
                            assert_eq!(continue_session, begun);
                            'C'
                        }
                        Next::Park { .. } => 'P',
                    }
                })
                .collect();
            assert_eq!(found, expected, "{code}");
        }
    }

    #[test]
    fn prov_04_a_login_that_worked_and_is_refused_is_read_again_once() {
        let worked = Failure { worked: true, ..failure(ErrorCode::Auth) };
        // Whether the error itself says that asking again helps is no matter.
        for retry in [true, false] {
            let again = follows(worked, Tries { retry, ..first() });
            assert!(matches!(again, Next::Again { continue_session: true, .. }), "{again:?}");
        }
        // Those on one login do not come back in one moment.
        let when = |n| match next(&worked, &first(), at(NOW), id(n)) {
            Next::Again { not_before, .. } => not_before,
            other => panic!("{other:?}"),
        };
        assert!((0..32).map(when).collect::<BTreeSet<_>>().len() > 16);
        assert_eq!(follows(worked, Tries { attempts: 2, ..first() }), Next::Fail, "once");
        assert_eq!(follows(worked, Tries { max_attempts: 1, ..first() }), Next::Fail);
        assert_eq!(follows(failure(ErrorCode::Auth), first()), Next::Fail, "a login that never worked");
        assert_eq!(
            follows(Failure { resumable: false, ..worked }, first()),
            Next::Fail,
            "work is not begun again"
        );
    }

    #[test]
    fn res_17_attempts_are_spaced_and_bounded() {
        let after = |attempts| match follows(failure(ErrorCode::Crashed), Tries { attempts, ..first() }) {
            Next::Again { not_before, .. } => Some(not_before.since(at(NOW)).as_millis()),
            _ => None,
        };
        assert!((5_000..=6_250).contains(&after(1).unwrap_or(0)));
        assert!((10_000..=12_500).contains(&after(2).unwrap_or(0)));
        assert_eq!(after(3), None, "the third of three failed");
        assert_eq!(after(u32::MAX), None);
    }

    #[test]
    fn queue_19_pauses_double_up_to_a_bound_and_a_told_reset_counts_if_it_is_later() {
        let limited = |put_back, reset_at| match follows(
            Failure { reset_at, ..failure(ErrorCode::RateLimited) },
            Tries { put_back, attempts: 99, ..first() },
        ) {
            Next::CoolDown { until, not_before, .. } => {
                assert!(not_before >= until);
                assert!(not_before.since(until) <= until.since(at(NOW)) / 4);
                Some(until.since(at(NOW)).as_secs())
            }
            _ => None,
        };
        let doubling: Vec<_> = (1..=8).map(|n| limited(n, None)).collect();
        assert_eq!(doubling, [5, 10, 20, 40, 80, 160, 300, 300].map(Some));
        assert_eq!(limited(1, Some(at(NOW + 60))), Some(60));
        assert_eq!(limited(1, Some(at(NOW + 2))), Some(5));
        assert_eq!(limited(1, Some(at(NOW - 9))), Some(5));
        assert_eq!(limited(1, Some(Timestamp::never())), Some(5), "no provider means that");
        assert_eq!(limited(MAX_PUT_BACK, None), Some(LONGEST_PAUSE.as_secs()));
        assert_eq!(limited(MAX_PUT_BACK + 1, None), None);
    }

    #[test]
    fn queue_19_a_herd_is_spread_and_a_replay_meets_the_same_times() {
        let times = || -> Vec<Timestamp> {
            (0..100)
                .map(|n| match next(&failure(ErrorCode::RateLimited), &first(), at(NOW), id(n)) {
                    Next::CoolDown { not_before, .. } => not_before,
                    other => panic!("{other:?}"),
                })
                .collect()
        };
        assert_eq!(times(), times());
        let spread: BTreeSet<_> = times().into_iter().collect();
        assert!(spread.len() > 50, "{}", spread.len());
        let (first, last) = (spread.first().copied(), spread.last().copied());
        let wide = last.unwrap_or_default().since(first.unwrap_or_default());
        assert!(wide > Duration::from_secs(1) && wide <= Duration::from_millis(1_250), "{wide:?}");
    }

    #[test]
    fn queue_20_a_quota_is_waited_for_when_its_reset_is_known() {
        let quota = |reset_at, begun, resumable| {
            let failure = Failure { reset_at, begun, resumable, ..failure(ErrorCode::QuotaExhausted) };
            follows(failure, Tries { retry: false, attempts: 99, put_back: 99, ..first() })
        };
        let Next::Park { until, continue_session: true } = quota(Some(at(NOW + 9_000)), true, true) else {
            panic!("not parked")
        };
        assert!(until >= at(NOW + 9_000) && until.since(at(NOW + 9_000)) <= QUOTA_SPREAD);
        assert_eq!(quota(Some(at(NOW + 9_000)), true, false), Next::Fail);
        assert!(matches!(
            quota(Some(at(NOW + 9_000)), false, false),
            Next::Park { continue_session: false, .. }
        ));
        assert_eq!(quota(None, true, true), Next::Fail);
        assert_eq!(quota(Some(Timestamp::never()), true, true), Next::Fail);
    }

    #[test]
    fn queue_20_a_reset_that_is_over_is_asked_again_after_a_pause() {
        let over = Failure { reset_at: Some(at(NOW)), ..failure(ErrorCode::QuotaExhausted) };
        assert!(matches!(follows(over, first()), Next::CoolDown { until, .. } if until == at(NOW + 5)));
        assert_eq!(follows(over, Tries { put_back: MAX_PUT_BACK + 1, ..first() }), Next::Fail);
    }
}
