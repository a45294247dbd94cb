//! The worlds, one a module.

mod cursor;
mod delivery;
mod explore;
mod mailbox;
mod run;
mod slots;
mod workspace;
