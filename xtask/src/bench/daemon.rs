//! A release daemon in a home of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use subagent_client::Client;
use subagent_model::request::{Health, SpawnRequest};
use subagent_model::{ExecSpec, Mode, PromptVia, Requester, ResultFrom};
use subagent_runtime::{Caller, Runtime};

use crate::figures::ms;
use crate::floor::CHILD;
use crate::{Options, Result};

/// A daemon that this program started.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) home: PathBuf,
    pub(crate) client: Client,
    /// From exec to the first answer.
    pub(crate) ready: Duration,
}

const CONFIG: &str = "[limits]\nrunning = 64\nqueue = 100000\ndisk_floor_mb = 0\n";

impl Daemon {
    /// Starts one at a home, which may have been used before.
    pub(crate) async fn start(options: &Options, home: &Path) -> Result<Self> {
        std::fs::create_dir_all(home)?;
        std::fs::write(home.join("config.toml"), CONFIG)?;
        let socket = socket(options, home)?;
        let begun = Instant::now();
        let mut child = Command::new(options.subagent())
            .arg("serve")
            .env("SUBAGENT_HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(home.join("bench.log"))?)
            .spawn()?;
        let client = Client::new(socket);
        loop {
            if client.health().await.is_ok_and(|health| health.pid == child.id()) {
                break;
            }
            if let Some(status) = child.try_wait()? {
                let log = std::fs::read_to_string(home.join("bench.log"))?;
                return Err(format!("the daemon ended ({status}): {log}").into());
            }
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("the daemon did not answer within 30 s".into());
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        Ok(Self { ready: begun.elapsed(), child, home: home.to_owned(), client })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) -> Result<PathBuf> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(self.home.clone())
    }

    /// A polite end, children included.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.client.shutdown(Some(Duration::from_secs(10))).await?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > Duration::from_secs(20) {
                self.child.kill()?;
                return Err(format!("the daemon did not end within {}", ms(begun.elapsed())).into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    pub(crate) async fn health(&self) -> Result<Health> {
        Ok(self.client.health().await?)
    }
}

fn socket(options: &Options, home: &Path) -> Result<PathBuf> {
    let output = Command::new(options.subagent())
        .args(["doctor", "--json"])
        .env("SUBAGENT_HOME", home)
        .stdin(Stdio::null())
        .output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(PathBuf::from(report["socket"].as_str().ok_or("doctor names no socket")?))
}

/// Who measures.
pub(crate) fn caller() -> Caller {
    Caller { requester: Requester::from("user:bench") }
}

/// A request for a program.
pub(crate) fn program(program: &str, args: &[&str], durable: bool) -> SpawnRequest {
    SpawnRequest {
        provider: String::from("exec"),
        exec: Some(ExecSpec {
            program: program.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            prompt_via: PromptVia::Stdin,
            result: ResultFrom::WholeOutput,
            talk: subagent_model::Talk::None,
        }),
        mode: Mode::Sync,
        cwd: Some("/".into()),
        env: std::iter::once((String::from("PATH"), String::from("/usr/bin:/bin"))).collect(),
        durable,
        ..SpawnRequest::default()
    }
}

/// The trivial child, asked for and waited for in one call.
pub(crate) fn trivial(durable: bool) -> SpawnRequest {
    SpawnRequest { wait_ms: Some(60_000), ..program(CHILD, &[], durable) }
}
