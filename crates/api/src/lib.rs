//! The HTTP face: the [`Runtime`] trait over a unix socket. Thin: each handler parses, calls, and writes what came.
//!
//! Who calls is told by the header `x-subagent-requester`; on a unix socket of mode 0600 everyone who can connect is
//! the same user, so it is a name, not a credential.

mod ack_body;
mod answer;
mod caller;
mod handlers;
mod openapi;
mod server;

pub use handlers::AckRequest;
pub use openapi::openapi;
pub use server::{Admin, ShutdownRequest, router, serve};
pub use subagent_runtime::Runtime;

/// The header that names the requester.
pub const REQUESTER_HEADER: &str = "x-subagent-requester";

/// Largest request body: a prompt of 50 MB and what JSON adds to it.
pub const LARGEST_BODY: usize = 128 * 1024 * 1024;
