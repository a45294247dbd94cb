//! The HTTP face: the [`Runtime`] trait over a unix socket. Thin: each handler parses, calls, and writes what came.
//!
//! Who calls is found out in `caller.rs`: a process that belongs to a subagent is that subagent, whatever it says. All
//! others who can connect to a socket of mode 0600 are one user: the name in their header is a name, not a credential.

mod answer;
mod caller;
mod handed;
mod handlers;
mod openapi;
mod server;
mod streams;

pub use handlers::AckRequest;
pub use openapi::openapi;
pub use server::{Admin, ShutdownRequest, router, serve};
pub use subagent_runtime::Runtime;

/// The header that names the requester.
pub const REQUESTER_HEADER: &str = "x-subagent-requester";

/// The header of a key: asking twice with the same one makes nothing twice.
pub const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// Largest request body: a prompt of 50 MB and what JSON adds to it.
pub const LARGEST_BODY: usize = 128 * 1024 * 1024;
