//! Who a process is: pid, start time and boot. Signals go through here, so that a pid that was used again
//! is never hit. Nothing here waits or decides.

use std::io;

use subagent_model::process::ProcessIdentity;

use crate::platform;

/// The identity of a live process; `None` if there is none with this pid or it is a zombie.
pub fn identify(pid: u32) -> Option<ProcessIdentity> {
    let stat = platform::stat(pid).filter(|stat| !stat.gone)?;
    Some(ProcessIdentity { pid, start_time: stat.start_time, boot_id: platform::boot_id().to_owned() })
}

/// Whether this very process still runs. A zombie, another boot, or another start time is "no".
pub fn is_alive(identity: &ProcessIdentity) -> bool {
    identify(identity.pid).is_some_and(|now| now == *identity)
}

/// Sends a signal to this very process. The process is pinned first and compared then, so the signal
/// cannot hit a later user of the pid.
///
/// Returns false, without a signal, if the process is gone.
///
/// # Errors
///
/// The system refused the signal (no permission, or no such signal).
pub fn signal_checked(identity: &ProcessIdentity, signal: i32) -> io::Result<bool> {
    platform::signal_pinned(identity.pid, signal, || is_alive(identity))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_altered_identity_is_not() {
        let own = identify(std::process::id()).unwrap();
        assert!(is_alive(&own));
        assert!(!is_alive(&ProcessIdentity { start_time: own.start_time + 1, ..own.clone() }));
        assert!(!is_alive(&ProcessIdentity { boot_id: "another".to_owned(), ..own }));
    }

    #[test]
    fn a_zombie_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        for _ in 0..200 {
            if identify(pid).is_none() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(identify(pid), None);
        child.wait().unwrap();
    }

    #[test]
    fn proc_19_a_reused_pid_gets_no_signal() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = identify(child.id()).unwrap();
        let earlier = ProcessIdentity { start_time: identity.start_time - 1, ..identity.clone() };
        assert!(!signal_checked(&earlier, 9).unwrap());
        assert!(is_alive(&identity));
        assert!(signal_checked(&identity, 9).unwrap());
        child.wait().unwrap();
        assert!(!signal_checked(&identity, 9).unwrap());
    }
}
