//! One request over the socket: connections are kept alive, and a stale one is replaced once.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use subagent_model::{ErrorCode, Problem};
use subagent_runtime::Caller;
use tokio::net::UnixStream;

use crate::Client;

pub(crate) type Sender = http1::SendRequest<Full<Bytes>>;

/// How many idle connections are kept.
const IDLE: usize = 32;
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take beyond the wait that was asked for.
pub(crate) const ANSWER: Duration = Duration::from_secs(9);

/// A call to make.
pub(crate) struct Call<'a> {
    method: Method,
    path: String,
    /// Without one the daemon takes whoever is at this end of the socket.
    caller: Option<&'a Caller>,
    body: Bytes,
    /// The answer may be held back this long by our own wish.
    wait: Duration,
}

impl<'a> Call<'a> {
    pub(crate) fn new(method: Method, path: String, caller: Option<&'a Caller>) -> Self {
        Self { method, path, caller, body: Bytes::new(), wait: Duration::ZERO }
    }

    pub(crate) fn body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    pub(crate) fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

fn unreachable(what: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::DaemonUnreachable, format!("the daemon cannot be reached: {what}"))
}

/// JSON of a body.
pub(crate) fn body_of(value: &impl Serialize) -> Result<Bytes, Problem> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| Problem::new(ErrorCode::InvalidRequest, error.to_string()))
}

impl Client {
    /// Makes the call and reads the answer. `None` for an answer without a body.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, Problem> {
        let bound = call.wait.saturating_add(ANSWER);
        let Ok(answer) = tokio::time::timeout(bound, self.exchange(&call)).await else {
            let message = format!("no answer to {} within {} s", call.path, bound.as_secs());
            return Err(Problem::new(ErrorCode::Timeout, message));
        };
        let (status, bytes) = answer?;
        read(status, &bytes)
    }

    async fn exchange(&self, call: &Call<'_>) -> Result<(StatusCode, Bytes), Problem> {
        // An idle connection may have been closed by a daemon that went away: one that could not even take the request
        // is replaced. A request that was taken is never sent twice.
        while let Some(sender) = self.idle() {
            if sender.is_closed() {
                continue;
            }
            match self.send(sender, call).await {
                Err(Failed::NotSent) => {}
                Err(Failed::Broken(error)) => return Err(unreachable(error)),
                Ok(answer) => return Ok(answer),
            }
        }
        let sender = self.connect().await?;
        self.send(sender, call).await.map_err(|failed| match failed {
            Failed::NotSent => unreachable("it closed the connection"),
            Failed::Broken(error) => unreachable(error),
        })
    }

    fn idle(&self) -> Option<Sender> {
        self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self) -> Result<Sender, Problem> {
        let socket = &self.inner.socket;
        let stream = match tokio::time::timeout(CONNECT, UnixStream::connect(socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(unreachable(format!("{}: {error}", socket.display()))),
            Err(_) => return Err(unreachable(format!("{} does not accept", socket.display()))),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
        tokio::spawn(async move {
            // Its end shows at the sender.
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn send(&self, mut sender: Sender, call: &Call<'_>) -> Result<(StatusCode, Bytes), Failed> {
        if sender.ready().await.is_err() {
            return Err(Failed::NotSent);
        }
        let mut request = Request::builder()
            .method(&call.method)
            .uri(&call.path)
            .header("host", "subagent")
            .header("content-type", "application/json")
            .header("accept", "application/json");
        if let Some(caller) = call.caller {
            request = request.header("x-subagent-requester", caller.requester.as_str());
        }
        let request =
            request.body(Full::new(call.body.clone())).map_err(|error| Failed::Broken(error.to_string()))?;
        let response = match sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => {
                return Err(match error.take_message() {
                    Some(_) => Failed::NotSent,
                    None => Failed::Broken(error.into_error().to_string()),
                });
            }
        };
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| Failed::Broken(error.to_string()))?;
        if sender.ready().await.is_ok() {
            let mut idle = self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push(sender);
            }
        }
        Ok((status, body.to_bytes()))
    }
}

enum Failed {
    /// The daemon never saw it.
    NotSent,
    /// It may have seen it.
    Broken(String),
}

fn read<T: DeserializeOwned>(status: StatusCode, bytes: &[u8]) -> Result<T, Problem> {
    if status.is_success() {
        let bytes = if bytes.is_empty() { b"null" } else { bytes };
        return serde_json::from_slice(bytes).map_err(|error| {
            Problem::new(ErrorCode::DaemonUnreachable, format!("the daemon's answer cannot be read: {error}"))
        });
    }
    Err(serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let text: String = String::from_utf8_lossy(bytes).chars().take(200).collect();
        Problem::new(ErrorCode::DaemonUnreachable, format!("the daemon answered {status}: {text}"))
    }))
}
