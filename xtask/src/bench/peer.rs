//! The same trivial children through `pueue`, where it is on PATH: a queue of processes that many people know.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::figures::{Samples, row};
use crate::floor::CHILD;

/// How many children; few enough that a slow peer does not hold up the run.
const CHILDREN: usize = 20;

pub(crate) fn measure(dir: &Path) -> Result<()> {
    let on_path = Command::new("pueue").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !on_path.is_ok_and(|status| status.success()) {
        row("pueue", "not on PATH");
        return Ok(());
    }
    let home = dir.join("pueue");
    std::fs::create_dir_all(&home)?;
    let config = home.join("pueue.yml");
    let text = format!(
        "shared:\n  pueue_directory: {0}\n  runtime_directory: {0}\n  use_unix_socket: true\n\
         client: {{}}\ndaemon: {{}}\n",
        home.display()
    );
    std::fs::write(&config, text)?;
    let daemon = Command::new("pueued")
        .arg("-c")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut daemon = EndOnDrop(daemon);
    let begun = Instant::now();
    while !pueue(&config, &["status"])? {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err("pueued did not answer within 10 s".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut samples = Samples::default();
    for task in 0..CHILDREN {
        let begun = Instant::now();
        pueue(&config, &["add", "--", CHILD])?;
        pueue(&config, &["wait", &task.to_string()])?;
        samples.push(begun.elapsed());
    }
    row("pueue: add and wait, through its command line", &samples.to_string());
    pueue(&config, &["parallel", "16"])?;
    let begun = Instant::now();
    for _ in 0..100 {
        pueue(&config, &["add", "--", CHILD])?;
    }
    pueue(&config, &["wait"])?;
    let rate = 100.0 / begun.elapsed().as_secs_f64();
    row("pueue: 100 children, 16 at once", &format!("{rate:.1} a second"));
    pueue(&config, &["shutdown"])?;
    daemon.0.wait()?;
    Ok(())
}

fn pueue(config: &Path, args: &[&str]) -> Result<bool> {
    let mut command = Command::new("pueue");
    command.arg("-c").arg(config).args(args);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
}

struct EndOnDrop(Child);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // It has usually ended by then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
