//! Routes, limits and the accept loop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_runtime::Runtime;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Peer;
use crate::handlers::{self, Shared};
use crate::streams::Streams;

/// Most connections at once, a thousand subscribers among them; further ones wait in the socket's backlog.
const CONNECTIONS: usize = 2_048;
/// What is buffered for a client that does not read, beside the piece that is being written.
const BUFFER: usize = 64 * 1024;
/// How long open requests may take once the server is told to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Ways into the daemon that are no matter of the runtime.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Orders a shutdown.
    pub shutdown: mpsc::Sender<ShutdownRequest>,
}

/// Asks the daemon to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// Stop the children as well, within this many milliseconds. Without it they run on and the next daemon adopts
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_children_within_ms: Option<u64>,
    /// Let running children finish, for this many milliseconds at most. Not together with a stop of the children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_within_ms: Option<u64>,
}

/// The routes.
pub fn router(runtime: Arc<dyn Runtime>, admin: Admin) -> Router {
    Router::new()
        .route("/v1/subagents", post(handlers::spawn).get(handlers::list))
        .route("/v1/subagents/{id}", get(handlers::show))
        .route("/v1/subagents/{id}/resume", post(handlers::resume))
        .route("/v1/subagents/{id}/steer", post(handlers::steer))
        .route("/v1/subagents/{id}/wait", post(handlers::wait))
        .route("/v1/subagents/{id}/stop", post(handlers::stop))
        .route("/v1/subagents/{id}/inner", get(handlers::inner))
        .route("/v1/subagents/{id}/inner/stop", post(handlers::stop_inner))
        .route("/v1/subagents/{id}/gone", get(handlers::gone))
        .route("/v1/subagents/{id}/runs", get(handlers::runs))
        .route("/v1/subagents/{id}/usage", get(handlers::usage))
        .route("/v1/subagents/{id}/messages", get(handlers::messages))
        .route("/v1/subagents/{id}/result", get(handlers::result))
        .route("/v1/types", get(handlers::types))
        .route("/v1/subagents/{id}/transcript", get(handlers::transcript))
        .route("/v1/subagents/{id}/output", get(handlers::output))
        .route("/v1/subagents/{id}/budget", post(handlers::change_budget))
        .route("/v1/subagents/{id}/grants/{number}", delete(handlers::revoke))
        .route("/v1/names/{id}", get(handlers::named))
        .route("/v1/stop", post(handlers::stop_all))
        .route("/v1/requests", get(handlers::requests))
        .route("/v1/requests/{id}", post(handlers::answer))
        .route("/v1/inbox", get(handlers::inbox))
        .route("/v1/inbox/claim", post(handlers::claim))
        .route("/v1/inbox/return", post(handlers::give_back))
        .route("/v1/inbox/ack", post(handlers::acknowledge))
        .route("/v1/events", get(handlers::events))
        .route("/v1/activity", get(handlers::activity))
        .route("/v1/limits", get(handlers::limits).put(handlers::set_limits))
        .route("/v1/gc", post(handlers::gc))
        .route("/v1/health", get(handlers::health))
        .route("/v1/shutdown", post(handlers::shutdown))
        .route("/openapi.json", get(handlers::openapi))
        .fallback(handlers::no_such_route)
        .method_not_allowed_fallback(handlers::no_such_method)
        .layer(DefaultBodyLimit::max(crate::LARGEST_BODY))
        .with_state(Arc::new(Shared {
            runtime,
            admin,
            changing_limits: Mutex::default(),
            streams: Streams::default(),
        }))
}

/// Serves until `stop` fires; open requests then get a bounded time.
pub async fn serve(
    runtime: Arc<dyn Runtime>,
    admin: Admin,
    listener: UnixListener,
    stop: CancellationToken,
) -> io::Result<()> {
    let router = router(runtime, admin);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, or a client that left at once: neither ends the daemon.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (router, stop) = (router.clone(), stop.clone());
        connections.spawn(async move {
            let _place = place;
            connection(router, stream, stop).await;
        });
    }
    connections.close();
    let _ = tokio::time::timeout(LAST_REQUESTS, connections.wait()).await;
    Ok(())
}

/// Serves one connection. Its requests carry who is at the other end.
async fn connection(router: Router, stream: UnixStream, stop: CancellationToken) {
    let peer = match stream.peer_cred() {
        Ok(peer) => {
            let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
            Arc::new(Peer::new(peer.uid(), pid))
        }
        Err(error) => {
            // Nobody is served as somebody that he may not be.
            tracing::warn!(%error, "a connection without an other end");
            return;
        }
    };
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&peer));
        router.call(request)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(BUFFER);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
