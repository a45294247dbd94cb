//! A small real model on loopback that speaks the OpenAI wire format, so that a first run and a test need no account. Reading of
//! weights, tokens, grammar, sampling and wire format are modules of their own; `engine` has the one thread that computes, and
//! `server` is the only one that knows HTTP. It has no part in the product.

pub mod chat;
pub mod engine;
pub mod grammar;
pub mod model;
pub mod sampler;
pub mod schema;
pub mod server;
pub mod text;
pub mod tokens;
pub mod wire;
