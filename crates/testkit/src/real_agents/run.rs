//! Running an agent to its end.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest run of an agent that does one small task.
const LIMIT: Duration = Duration::from_secs(90);

/// What an agent printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// The JSON documents among its lines.
    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The documents of this type.
    pub fn of_type(&self, name: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["type"] == name).collect()
    }

    /// The same, of a run that must have ended with this code.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "many callers only want the check")]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }
}

/// Runs it to its end, which has to come.
#[track_caller]
pub fn run(mut command: Command) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let reading = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = from.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = reading(Box::new(child.stdout.take().unwrap()));
    let err = reading(Box::new(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let (status, late) = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break (status, false);
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            break (child.wait().unwrap(), true);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let ran = Ran { status, out: out.join().unwrap(), err: err.join().unwrap() };
    assert!(!late, "it did not end within {LIMIT:?}: {ran:#?}");
    ran
}
