//! The worlds, one a module.

mod cursor;
mod delivery;
mod explore;
mod limits;
mod machine;
mod mailbox;
mod parking;
mod requests;
mod run;
mod slots;
mod warm;
mod workspace;
