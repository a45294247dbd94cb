//! Waiting for a condition with a limit: a test never sleeps to win a race.

use std::time::{Duration, Instant};

/// Longest wait for anything that a test waits for.
const LIMIT: Duration = Duration::from_secs(30);

/// Looks until `seen` gives something.
pub fn until<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = seen() {
            return value;
        }
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Looks until `seen` gives something, without holding the thread.
pub async fn until_async<T, F: Future<Output = Option<T>>>(what: &str, mut seen: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = seen().await {
            return value;
        }
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
