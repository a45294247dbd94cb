//! The commands, one file for each, and what several of them share.

pub(crate) mod ack;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod inbox;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
mod outcome;
pub(crate) mod result;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod shutdown;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod upgrade;
pub(crate) mod wait;
mod waiting;
mod whole;
