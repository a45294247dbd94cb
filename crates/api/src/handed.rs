//! A body that matters to the store: what it carries is consumed, or given back, by whether it was handed over whole.
//!
//! A client that goes away before leaves a result unread and a claim free; one that goes away after may be told once more
//! by nobody, so careful clients ask with `ack=false` and acknowledge by themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use subagent_model::request::ReturnRequest;
use subagent_model::{RunNumber, SubagentId};
use subagent_runtime::{Caller, Runtime};

/// What a body carries, for whom, and from where.
pub(crate) struct Handed {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) caller: Caller,
    pub(crate) what: What,
}

/// What a body carries.
pub(crate) enum What {
    /// The result of this run and of no other: consumed once it was handed over.
    Result(SubagentId, RunNumber),
    /// Claimed results: given back unless they were handed over.
    Claim(ReturnRequest),
}

struct Chunk {
    bytes: Option<Bytes>,
    handed: Option<Handed>,
}

impl Stream for Chunk {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        // Asked for more: the server took all of it.
        if let Some(Handed { runtime, caller, what: What::Result(id, run) }) = self.handed.take() {
            tokio::spawn(async move {
                // Refused when it is addressed to someone else: to read is one thing, to consume another.
                let _ = runtime.ack_run(&caller, id, run, true).await;
            });
        }
        Poll::Ready(None)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let Some(Handed { runtime, caller, what: What::Claim(claim) }) = self.handed.take() else { return };
        // Without a runtime everything ends, and the claim by its own time.
        if let Ok(tasks) = tokio::runtime::Handle::try_current() {
            tasks.spawn(async move {
                let _ = runtime.give_back(&caller, claim).await;
            });
        }
    }
}

/// A JSON answer that does what it does once it was handed over, or was not.
pub(crate) fn json(value: &impl serde::Serialize, handed: Option<Handed>) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let body = Body::from_stream(Chunk { bytes: Some(bytes.into()), handed });
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => {
            drop(Chunk { bytes: None, handed });
            crate::answer::Refused::invalid(error.to_string()).into_response()
        }
    }
}
