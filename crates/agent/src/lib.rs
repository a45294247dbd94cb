//! The built-in agent: a compact loop of model and tools over any endpoint, itself an agent of the Agent Client
//! Protocol on stdio. The supervisor drives it like any other child.

pub mod tools;
