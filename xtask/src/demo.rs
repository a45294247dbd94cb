//! The main job, shown on this very repository: programs run as subagents, the daemon is killed in the middle, and
//! everything comes back. It uses a home of its own, prints each command as a person would type it with what it
//! really printed, and leaves nothing running.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::problem::{Problem, Result};
use crate::{binaries, metadata, setup, steps};

/// Looks at every Rust file, slowly enough to be interrupted: lines, and functions that tests call.
const SURVEY: &str = "for f in $(git ls-files '*.rs'); do \
    printf '%5s lines %3s tests  %s\\n' $(wc -l < $f) $(grep -c '#\\[test\\]\\|#\\[tokio::test' $f) $f; sleep 0.02; \
    done | sort -rn | head -5";

/// Builds, then plays the scenes.
pub(crate) fn run() -> Result<()> {
    let begun = Instant::now();
    setup::programs_only()?;
    eprintln!("==> building the programs (a few minutes the first time)");
    binaries::build()?;
    let demo = Demo::new()?;
    let played = demo.play();
    demo.end();
    played?;
    eprintln!("\nDone in {:.0} s. Nothing was left running.", begun.elapsed().as_secs_f64());
    let program = demo.program.strip_prefix(metadata::root()).unwrap_or(&demo.program).display().to_string();
    eprintln!("Try it yourself: {program} run -- git log --oneline -5");
    Ok(())
}

struct Demo {
    program: PathBuf,
    home: PathBuf,
}

impl Demo {
    fn new() -> Result<Self> {
        let target = metadata::workspace()?.target_directory;
        let home = target.join(format!("demo-{}", std::process::id()));
        std::fs::create_dir_all(&home).map_err(|error| {
            Problem::new(format!("cannot make {}: {error}", home.display()), "check the target directory")
        })?;
        Ok(Self { program: target.join(binaries::PLACE).join("subagent"), home })
    }

    fn play(&self) -> Result<()> {
        scene("A real program does real work as a subagent; its output is the result");
        self.say(&["run", "--", "git", "log", "--oneline", "-3"])?;

        scene("Three at work in the background");
        let survey = self.background("survey of this repository", &["sh", "-c", SURVEY])?;
        let words =
            self.background("words in the documents", &["sh", "-c", "cat $(git ls-files '*.md') | wc -w"])?;
        let endless = self.background("would never end", &["sleep", "1000000"])?;
        self.say(&["ls"])?;

        scene("The daemon is killed in the middle: kill -9");
        let pid = self.json(&["status", "--json"])?["pid"].as_i64().unwrap_or_default().to_string();
        eprintln!("$ kill -9 {pid}");
        steps::run(Command::new("kill").args(["-9", &pid]), "see what is reported above")?;
        std::thread::sleep(Duration::from_millis(300));

        scene("The next command starts a new daemon, which takes the living children over");
        self.say(&["ls"])?;
        self.say(&["status"])?;

        scene("One is stopped, with all that it started");
        self.say(&["stop", "--wait", &endless])?;

        scene("The others are waited for; no result was lost");
        self.say(&["wait", "--timeout", "60s", &survey, &words])?;
        self.say(&["result", &survey])?;
        self.say(&["result", &words])?;

        scene("An agent that is spoken with asks before it acts; it stays alive and takes the next message");
        let reviewer = self.spoken_with("who wrote this?")?;
        self.until_it_asks()?;
        self.say(&["requests"])?;
        self.say(&["approve", &reviewer])?;
        self.say(&["wait", "--timeout", "30s", &reviewer])?;
        self.say(&["result", &reviewer])?;
        self.say(&["steer", "--wait", "10s", &reviewer, "and what do you do now?"])?;
        self.say(&["wait", "--timeout", "30s", &reviewer])?;
        self.say(&["runs", &reviewer])?;
        self.say(&["stop", "--wait", &reviewer])?;

        scene("What is not consumed yet is in the inbox, until it is acknowledged");
        self.say(&["inbox"])?;
        self.say(&["ack", &endless])?;
        self.say(&["inbox"])
    }

    /// Whatever happened, nothing goes on.
    fn end(&self) {
        let mut command = self.command(&["shutdown", "--stop-children", "--timeout", "10s"]);
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = std::fs::remove_dir_all(&self.home);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .env("SUBAGENT_HOME", &self.home)
            .current_dir(metadata::root())
            .stdin(Stdio::null());
        command
    }

    /// Shows a command and what it prints.
    fn say(&self, args: &[&str]) -> Result<()> {
        eprintln!("$ subagent {}", typed(args));
        steps::run(&mut self.command(args), "see what is reported above")
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        let printed = steps::output(&mut self.command(args), "see what is reported above")?;
        serde_json::from_slice(&printed).map_err(|error| {
            Problem::new(format!("subagent {} printed no JSON: {error}", typed(args)), "report it")
        })
    }

    /// Starts the example of docs/lines.md and gives its handle.
    fn spoken_with(&self, prompt: &str) -> Result<String> {
        let shown = ["run", "--warm", "--background", "--talk", prompt, "--", "sh", "examples/reviewer.sh"];
        eprintln!("$ subagent {}", typed(&shown));
        let mut args = shown.to_vec();
        args.insert(1, "--json");
        let record = self.json(&args)?;
        let handle = record["handle"].as_str().unwrap_or_default().to_owned();
        eprintln!("{handle}");
        Ok(handle)
    }

    /// Waits, within a bound, until a child asks for something.
    fn until_it_asks(&self) -> Result<()> {
        for _ in 0..100 {
            if self.json(&["requests", "--json"])?["items"].as_array().is_some_and(|items| !items.is_empty())
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Problem::new(
            "the example did not ask for anything",
            "see docs/lines.md and examples/reviewer.sh",
        ))
    }

    /// Starts a program in the background and gives its handle.
    fn background(&self, description: &str, program: &[&str]) -> Result<String> {
        let mut args = vec!["run", "--background", "--json", "--description", description, "--"];
        args.extend(program);
        let shown = [&["run", "--background", "--description", description, "--"], program].concat();
        eprintln!("$ subagent {}", typed(&shown));
        let record = self.json(&args)?;
        let handle = record["handle"].as_str().unwrap_or_default().to_owned();
        eprintln!("{handle}");
        Ok(handle)
    }
}

fn scene(title: &str) {
    eprintln!("\n--- {title}");
}

/// Arguments as they are typed, long ones shortened.
fn typed(args: &[&str]) -> String {
    let word = |arg: &&str| {
        let plain = arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:".contains(c));
        match arg.char_indices().nth(60) {
            Some((end, _)) => format!("'{}...'", arg[..end].replace('\'', "'\\''")),
            None if plain => (*arg).to_owned(),
            // As a shell takes it: a quote ends the text, stands for itself, and begins it again.
            None => format!("'{}'", arg.replace('\'', "'\\''")),
        }
    };
    args.iter().map(word).collect::<Vec<_>>().join(" ")
}
