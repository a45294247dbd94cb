//! A body whose complete hand-over acknowledges what it carries. A client that goes away before leaves the result
//! unread; one that goes away after may be told once more by nobody, so careful clients ask with `ack=false` and
//! acknowledge by themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use subagent_model::{RunNumber, SubagentId};
use subagent_runtime::{Caller, Runtime};

/// What to acknowledge, and for whom.
pub(crate) struct Ack {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) caller: Caller,
    pub(crate) id: SubagentId,
    /// The run that the body carries: no other is consumed by it.
    pub(crate) run: RunNumber,
}

struct Chunk {
    bytes: Option<Bytes>,
    ack: Option<Ack>,
}

impl Stream for Chunk {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        // Asked for more: the server took all of it.
        if let Some(Ack { runtime, caller, id, run }) = self.ack.take() {
            tokio::spawn(async move {
                // Refused when it is addressed to someone else: reading is open to all, consuming is not.
                let _ = runtime.ack_run(&caller, id, run, true).await;
            });
        }
        Poll::Ready(None)
    }
}

/// A JSON answer that acknowledges once it was handed over.
pub(crate) fn json(value: &impl serde::Serialize, ack: Option<Ack>) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let body = Body::from_stream(Chunk { bytes: Some(bytes.into()), ack });
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => crate::answer::Refused::invalid(error.to_string()).into_response(),
    }
}
