//! Claude Code, spoken with in its own words: JSON lines both ways (`stream-json`) with its control protocol for permissions
//! and interrupts. [`ClaudeCode`] is the provider, [`Claude`] the codec.
//!
//! Its protocol is not ours to change, and grows with each release: what is not known is skipped, what it asks is answered
//! at once even where the question is not known, and only a frame that everything depends on must fit.

mod asks;
mod codec;
mod command;
mod ends;
mod frames;
mod inner;
mod mail;
mod names;
mod orders;
mod provider;
mod tools;
mod usage;

pub use codec::Claude;
pub use provider::ClaudeCode;

#[cfg(test)]
mod tests;
