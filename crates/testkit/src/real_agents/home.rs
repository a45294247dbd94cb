//! The private surroundings of one agent: a home, a directory to work in, a place for temporary files, and nothing of the
//! environment of the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::run::{Ran, run};
use super::{Agent, config};

/// Directories and environment of one agent. Dropped, they are gone.
#[derive(Debug)]
pub struct AgentHome {
    agent: Agent,
    program: PathBuf,
    environment: BTreeMap<String, String>,
    dir: tempfile::TempDir,
}

impl AgentHome {
    pub(super) fn new(agent: Agent, program: PathBuf, programs: &Path, url: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("sa-agent-").tempdir().expect("a temporary directory");
        // Codex has its own programs in its home and takes none from below the place for temporary files: home and that
        // place lie side by side.
        for name in ["home", "work", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let home = dir.path().join("home");
        for (path, content) in config::files(agent, url) {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().expect("it is below the home")).expect("a directory");
            std::fs::write(path, content).expect("the home can be written");
        }
        let text = |path: &Path| path.to_str().expect("paths of tests are UTF-8").to_owned();
        let tmp = text(&dir.path().join("tmp"));
        let mut environment = BTreeMap::from([
            ("HOME".to_owned(), text(&home)),
            ("PATH".to_owned(), format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display())),
            ("TMPDIR".to_owned(), tmp.clone()),
            ("CLAUDE_CODE_TMPDIR".to_owned(), tmp),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ]);
        let own = config::environment(agent, url, &text(&home));
        environment.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Self { agent, program, environment, dir }
    }

    /// The agent that lives here.
    pub fn agent(&self) -> Agent {
        self.agent
    }

    /// Its program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its home directory.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The directory that it works in; empty at first.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Its whole environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Gives it another variable, or another value of one.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Its program with these arguments, not yet started, and without anything to read.
    pub fn command<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(&self, args: I) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().envs(&self.environment).current_dir(self.work()).stdin(Stdio::null());
        command
    }

    /// What does one task in its own machine-readable form and ends. Not for agents that are only spoken with.
    #[track_caller]
    pub fn one_shot(&self, prompt: &str) -> Command {
        let arguments = config::one_shot(self.agent, prompt);
        self.command(arguments.unwrap_or_else(|| panic!("{} is only spoken with", self.agent.name())))
    }

    /// Does one task and gives what came of it.
    #[track_caller]
    pub fn run(&self, prompt: &str) -> Ran {
        run(self.one_shot(prompt))
    }

    /// What speaks ACP on its standard streams. Not for agents that do not.
    #[track_caller]
    pub fn acp(&self) -> Command {
        let arguments = config::acp(self.agent);
        let mut command =
            self.command(arguments.unwrap_or_else(|| panic!("{} speaks no ACP", self.agent.name())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}
