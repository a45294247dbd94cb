//! The one clock that decides anything here: the time the machine was awake. It stands still while the machine sleeps
//! and does not follow the wall clock, so neither makes an attempt late. Its readings are a type of their own: the wall
//! clock, which only dates frames and records, cannot be mixed in.

use super::platform;

/// A reading, in milliseconds since a point that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Awake(u64);

impl Awake {
    /// Before everything: due at once.
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) fn now() -> Self {
        Self(platform::awake_millis())
    }

    pub(crate) fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from here to `later`, 0 if that has passed.
    pub(crate) fn until(self, later: Self) -> u64 {
        later.0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stderr, unsafe_code)]
    use super::*;

    /// Where the sources speak of clocks: those that decide must not name one themselves.
    const SOURCES: [(&str, &str); 10] = [
        ("attempt", include_str!("attempt.rs")),
        ("connection", include_str!("connection.rs")),
        ("hearing", include_str!("hearing.rs")),
        ("input", include_str!("input.rs")),
        ("launch", include_str!("launch.rs")),
        ("limits", include_str!("limits.rs")),
        ("log", include_str!("log.rs")),
        ("record", include_str!("record.rs")),
        ("server", include_str!("server.rs")),
        ("spawn", include_str!("spawn.rs")),
    ];

    #[test]
    fn queue_17_nothing_that_decides_names_a_clock() {
        for (name, text) in SOURCES {
            for clock in ["SystemTime", "UNIX_EPOCH", "CLOCK_", "Instant::now", "awake_millis"] {
                assert!(!text.contains(clock), "{name} names {clock}");
            }
        }
        for text in [include_str!("platform/linux.rs"), include_str!("platform/other_unix.rs")] {
            for clock in ["CLOCK_REALTIME", "CLOCK_BOOTTIME", "SystemTime"] {
                assert!(!text.contains(clock), "the clock is {clock}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn millis(clock: libc::clockid_t) -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live, writable value.
        assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut now) }, 0);
        now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
    }

    /// In a namespace of its own the clock that counts sleep can be set an hour ahead: to a program this is a machine
    /// that slept.
    #[cfg(target_os = "linux")]
    #[test]
    fn queue_17_an_hour_asleep_is_no_time() {
        const INSIDE: &str = "SUBAGENT_TEST_SLEPT";
        if std::env::var_os(INSIDE).is_some() {
            let slept = millis(libc::CLOCK_BOOTTIME) - millis(libc::CLOCK_MONOTONIC);
            assert!(slept >= 3_600_000, "{slept}");
        } else {
            let inner = std::process::Command::new("unshare")
                .args(["--time", "--boottime", "3600"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "clock::tests::queue_17_an_hour_asleep_is_no_time", "--nocapture"])
                .env(INSIDE, "1")
                .output();
            match inner {
                Ok(output) if output.status.success() => {}
                Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
                    panic!(
                        "{}{}",
                        String::from_utf8_lossy(&output.stdout),
                        String::from_utf8_lossy(&output.stderr)
                    )
                }
                other => eprintln!("no sleep was played: no namespace for clocks here ({other:?})"),
            }
        }
        let before = millis(libc::CLOCK_MONOTONIC);
        let now = Awake::now();
        let after = millis(libc::CLOCK_MONOTONIC);
        assert!(Awake(before) <= now && now <= Awake(after), "{before} {now:?} {after}");
    }
}
