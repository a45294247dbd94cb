//! Conversations of a home: the talker as a child of the real daemon, its gates, which are files of the home, and what it
//! was told, as its sessions keep it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::home::{Home, Output};
use crate::http::Http;
use crate::programs::talker_program;
use crate::until::until;

/// Larger than any page.
const PAGE: usize = 1_000;

impl Home {
    /// The program of a talker, as the end of a command line. Its sessions are kept in the home.
    pub fn talker(&self) -> Vec<String> {
        let sessions = self.path().join("sessions");
        std::fs::create_dir_all(&sessions).expect("the home can be written");
        // As an argument: what `--env` sets is gone with its daemon.
        let sessions = format!("TALKER_SESSIONS={}", sessions.display());
        let talker = talker_program().to_str().expect("paths of tests are UTF-8").to_owned();
        vec![String::from("env"), sessions, talker]
    }

    /// `subagent run --talk FLAGS SCRIPT -- talker`.
    pub fn talk(&self, flags: &[&str], script: &str) -> Output {
        self.talk_to(flags, script, &[])
    }

    /// The same, with flags of the talker itself.
    pub fn talk_to(&self, flags: &[&str], script: &str, own: &[&str]) -> Output {
        let talker = self.talker();
        let program = talker.iter().map(String::as_str);
        let args: Vec<_> = ["run", "--talk"]
            .into_iter()
            .chain(flags.iter().copied())
            .chain([script, "--"])
            .chain(program)
            .chain(own.iter().copied())
            .collect();
        self.run(&args)
    }

    /// Starts a talker in the background and gives its id.
    #[track_caller]
    pub fn talks(&self, flags: &[&str], script: &str) -> String {
        let flags: Vec<_> = ["--background", "--json"].iter().chain(flags).copied().collect();
        let record = self.talk(&flags, script).ended(0).json();
        record["id"].as_str().expect("a record has an id").to_owned()
    }

    /// Lets every talker go on that holds at `file NAME`.
    pub fn open(&self, name: &str) {
        std::fs::write(self.path().join(name), "").expect("the home can be written");
    }

    /// Waits until a talker came to `touch NAME`.
    #[track_caller]
    pub fn reached(&self, name: &str) {
        until(&format!("a child to reach {name}"), || self.path().join(name).exists().then_some(()));
    }

    /// What all talkers were told, by session: prompts and messages, in order.
    pub fn told(&self) -> BTreeMap<String, Vec<Value>> {
        let files = std::fs::read_dir(self.path().join("sessions")).into_iter().flatten();
        let session = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).ok()?;
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let told = lines.filter(|line| line["type"] == "prompt" || line["type"] == "steer").collect();
            Some((path.file_stem()?.to_str()?.to_owned(), told))
        };
        files.filter_map(|entry| session(entry.ok()?.path())).collect()
    }

    /// What this subagent was told, in words: `prompt TEXT` and `steer TEXT`.
    #[track_caller]
    pub fn told_to(&self, id: &str) -> Vec<String> {
        let record = self.show(id);
        let session = record["session"].as_str().unwrap_or_else(|| panic!("no session: {record:#}"));
        let words = |told: &Value| {
            let field = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", field("type"), field("text"))
        };
        self.told().get(session).into_iter().flatten().map(words).collect()
    }

    /// Its messages with their receipts.
    #[track_caller]
    pub fn messages(&self, id: &str) -> Vec<Value> {
        self.run(&["messages", "--json", id]).ended(0).json()["items"].as_array().cloned().unwrap_or_default()
    }

    /// The receipts of its messages, in order: `accepted`, `delivered` or `returned`.
    #[track_caller]
    pub fn receipts(&self, id: &str) -> Vec<String> {
        let word = |message: &Value| message["receipt"].as_str().unwrap_or_default().to_owned();
        self.messages(id).iter().map(word).collect()
    }

    /// HTTP to the daemon, which must be serving.
    pub fn http(&self) -> Http {
        Http::new(self.socket())
    }

    /// Every event so far.
    #[track_caller]
    pub fn all_events(&self) -> Vec<Value> {
        let http = self.http();
        let (mut all, mut after) = (Vec::new(), Value::from(0));
        loop {
            let page = http.event_page(&format!("?after={after}&limit={PAGE}")).with(200);
            let items = page["items"].as_array().expect("a page has items");
            if items.is_empty() {
                return all;
            }
            all.extend(items.iter().cloned());
            after = page["next"].clone();
        }
    }

    /// The names of the events of a subagent, in order.
    #[track_caller]
    pub fn story(&self, id: &str) -> Vec<String> {
        let own = self.all_events().into_iter().filter(|event| event["subagent"] == id);
        own.map(|event| event["event"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Ends the daemon the hard way and starts the next one.
    #[track_caller]
    pub fn next_daemon(&self) {
        self.kill_daemon();
        self.run(&["ls"]).ended(0);
    }
}
