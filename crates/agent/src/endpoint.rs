//! Endpoints: where a model is asked. The port that the loop knows (`Model`), and its one adapter over HTTP.

pub mod check;
pub mod config;
mod http;
pub mod key;

use futures_util::future::BoxFuture;

use crate::failure::Failure;
use crate::wire::{Answer, Ask, Part};

pub use http::HttpModel;

/// Something that answers.
pub trait Model: Send + Sync {
    /// Asks it. Parts are shown as they come; only a whole answer counts.
    fn ask<'a>(
        &'a self,
        ask: Ask<'a>,
        show: &'a mut (dyn FnMut(Part) + Send),
    ) -> BoxFuture<'a, Result<Answer, Failure>>;

    /// A text without the key, should it stand there.
    fn clean(&self, text: String) -> String {
        text
    }
}
