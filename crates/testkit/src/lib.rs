//! Helpers of tests: the project's real programs, worlds with a home of their own, a scripted model, and waiting with a
//! limit.
//!
//! Nothing of it is part of a product. Helpers panic where a test would: a world that cannot be made is a failed test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

pub mod acps;
pub mod home;
pub mod http;
pub mod model_server;
pub mod programs;
pub mod real_agents;
pub mod talks;
pub mod until;
pub mod wire;

pub use home::{Home, Output};
pub use http::Http;
pub use model_server::ModelServer;
pub use programs::{acp_agent_program, model_server_program, shim_program, subagent_program, talker_program};
pub use real_agents::{Agent, AgentHome, RealAgents};
pub use until::{until, until_async};
