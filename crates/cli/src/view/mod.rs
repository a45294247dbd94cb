//! How things look: texts made safe for terminals, durations, times and numbers, the one table of statuses, aligned rows.

pub(crate) mod look;
pub(crate) mod number;
pub(crate) mod rows;
pub(crate) mod text;
pub(crate) mod time;
