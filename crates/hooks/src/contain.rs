//! The wall around foreign code: a call ends with its value, a panic, or the end of its time, and nothing else of it
//! comes through.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("it took longer than {0:?}")]
    Late(Duration),
    #[error("it panicked: {0}")]
    Panicked(String),
}

/// Runs `call` for at most `deadline`.
pub(crate) async fn contained<T>(
    call: impl Future<Output = T> + Send,
    deadline: Duration,
) -> Result<T, Failure> {
    let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
    let end = tokio::time::timeout(deadline, call.as_mut()).await;
    // What a call leaves behind may panic as well when it is dropped.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(call)));
    match (end, dropped) {
        (Ok(Err(panic)), dropped) => {
            if let Err(second) = dropped {
                panic_text(second);
            }
            Err(Failure::Panicked(panic_text(panic)))
        }
        (_, Err(panic)) => Err(Failure::Panicked(panic_text(panic))),
        (Ok(Ok(value)), Ok(())) => Ok(value),
        (Err(_), Ok(())) => Err(Failure::Late(deadline)),
    }
}

fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    if let Some(text) = text.or_else(|| panic.downcast_ref::<String>().cloned()) {
        return text;
    }
    // A value of a foreign type may panic on its drop, also outside of any call. Leaking it is the lesser harm.
    std::mem::forget(panic);
    String::from("a panic without text")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Failure, contained};

    const SECOND: Duration = Duration::from_secs(1);

    struct Spiteful;

    impl Drop for Spiteful {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "dropped");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hook_01_a_call_ends_in_one_of_three_ways() {
        assert_eq!(contained(async { 7 }, SECOND).await, Ok(7));
        assert_eq!(contained(std::future::pending::<u8>(), SECOND).await, Err(Failure::Late(SECOND)));
        let told = Failure::Panicked(String::from("told 1"));
        assert_eq!(contained(async { panic!("told {}", 1) }, SECOND).await, Err::<u8, _>(told));
    }

    #[tokio::test(start_paused = true)]
    async fn hook_01_a_failure_that_cannot_be_printed_or_dropped_stays_inside() {
        let call = async { std::panic::panic_any(Spiteful) };
        let told = Failure::Panicked(String::from("a panic without text"));
        assert_eq!(contained::<u8>(call, SECOND).await, Err(told));
        let call = async {
            let _held = Spiteful;
            std::future::pending::<u8>().await
        };
        assert_eq!(contained(call, SECOND).await, Err(Failure::Panicked(String::from("dropped"))));
    }
}
