//! The floor: what no supervisor with a durable record can be faster than.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;
use crate::figures::{Samples, ms, row};

/// The child of every measurement.
pub(crate) const CHILD: &str = "/bin/true";

pub(crate) struct Floor {
    pub(crate) spawn: Samples,
    pub(crate) durable: Samples,
}

/// Bare spawn and wait, and the same with two flushes of 300 bytes.
pub(crate) fn measure(dir: &Path) -> Result<Floor> {
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join("floor"))?;
    let mut floor = Floor { spawn: Samples::default(), durable: Samples::default() };
    for round in 0..550 {
        let begun = Instant::now();
        file.write_all(&[7; 300])?;
        file.sync_data()?;
        let before = Instant::now();
        Command::new(CHILD).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let spawned = before.elapsed();
        file.write_all(&[7; 300])?;
        file.sync_data()?;
        if round >= 50 {
            floor.spawn.push(spawned);
            floor.durable.push(begun.elapsed());
        }
    }
    Ok(floor)
}

impl Floor {
    pub(crate) fn print(&self) {
        row("floor: bare spawn + wait", &self.spawn.to_string());
        row("floor: the same with two flushes of 300 bytes", &self.durable.to_string());
        let durable_target = self.durable.median() * 2;
        let volatile_target = self.spawn.median() * 2 + std::time::Duration::from_millis(1);
        row("target: durable / not durable", &format!("{} / {}", ms(durable_target), ms(volatile_target)));
    }
}
