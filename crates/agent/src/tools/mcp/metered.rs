//! A stream that gives out only so much until more is granted: a server that writes without end is cut off, and does not
//! keep the agent busy for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// What a server may write for one request, and what comes beside it: 64 MiB.
const GRANT: u64 = 64 << 20;

/// How much may still be read.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(GRANT)))
    }

    /// A new request is made.
    pub(super) fn renew(&self) {
        // What was used up stays so: the stream has ended.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left > 0).then_some(GRANT));
    }

    /// Whether too much was written.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// The stream.
pub(super) struct Metered<R> {
    pub(super) inner: R,
    pub(super) allowance: Allowance,
}

impl<R: AsyncRead + Unpin> AsyncRead for Metered<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.allowance.is_used_up() {
            // The end of the stream.
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, into);
        let count = (into.filled().len() - before) as u64;
        let left = self.allowance.0.load(Ordering::Relaxed);
        self.allowance.0.store(left.saturating_sub(count), Ordering::Relaxed);
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_without_end_ends() {
        let allowance = Allowance::new();
        let mut stream = Metered { inner: tokio::io::repeat(b'x'), allowance: allowance.clone() };
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            if count == 0 {
                break;
            }
            total += count as u64;
            if total == GRANT / 2 {
                allowance.renew();
            }
        }
        assert!((GRANT + GRANT / 2..GRANT * 2).contains(&total), "{total}");
        allowance.renew();
        assert!(allowance.is_used_up());
    }
}
