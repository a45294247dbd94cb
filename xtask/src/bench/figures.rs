//! Samples, and how they are told.

use std::time::Duration;

use crate::Result;

/// Durations of one thing, done again and again.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The sample below which this part of all lie.
    pub(crate) fn at(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(50)
    }
}

impl std::fmt::Display for Samples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "median {}, p99 {}, n {}", ms(self.median()), ms(self.at(99)), self.0.len())
    }
}

/// Milliseconds, for people.
pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}

/// One row of the table.
pub(crate) fn row(what: &str, figure: &str) {
    println!("| {what} | {figure} |");
}

/// The class of the machine, without its name.
pub(crate) fn machine() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kib: u64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let version: String = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    Ok(format!("{cores} cores, {} GiB, Linux {version}\n", kib / 1024 / 1024))
}
