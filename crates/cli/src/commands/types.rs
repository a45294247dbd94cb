//! `subagent types`: agent types, where they come from, and which projects are trusted.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use subagent_config::{Project, TrustStore, Trusted};
use subagent_model::agents::{AgentType, TypeList};
use subagent_model::{ErrorCode, Problem};
use subagent_runtime::Runtime;

use crate::agents;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::paths::Paths;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::text;

/// List agent types and providers
///
/// An agent type is a file with a prompt, tools, a model and limits. Files of subagent, Claude Code, Codex, opencode, pi
/// and Gemini are read where they lie; the nearest one of a name counts. docs/agents.md describes them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent types
  subagent types show explore
  subagent run -t explore 'where is the retry policy?'
  subagent types trust .")]
pub(crate) struct TypesArgs {
    #[command(subcommand)]
    command: Option<What>,
    /// As seen from this directory [default: the current one]
    #[arg(long, value_name = "DIR", global = true)]
    cwd: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show one type, as it was understood
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Trust a project: hooks, servers and wider permissions in its files count from now on
    Trust {
        /// The project [default: the one around the current directory]
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Trust a project no longer
    Distrust {
        /// The project [default: the one around the current directory]
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Carries it out.
pub(crate) async fn run(args: &TypesArgs, console: &Console) -> Result<u8, Failure> {
    match &args.command {
        Some(What::Trust { dir }) => trust(dir.as_deref(), true, console),
        Some(What::Distrust { dir }) => trust(dir.as_deref(), false, console),
        Some(What::Show { name }) => {
            let list = fetch(args, console, Some(name)).await?;
            match list.items.first() {
                Some(agent_type) if console.json => console.document(agent_type),
                Some(agent_type) => show(agent_type, console),
                None => {}
            }
            Ok(exit::DONE)
        }
        None => {
            let list = fetch(args, console, None).await?;
            if console.json {
                console.document(&list);
            } else {
                print(&list, console);
            }
            Ok(exit::DONE)
        }
    }
}

async fn fetch(args: &TypesArgs, console: &Console, name: Option<&str>) -> Result<TypeList, Failure> {
    let cwd = directory(args.cwd.as_deref())?;
    let session = Session::open(console).await?;
    let path = std::env::var("PATH").ok();
    let found = session.client.types(&session.caller, cwd, path, name).await;
    found.map_err(|problem: Problem| Failure::from(problem))
}

fn directory(given: Option<&Path>) -> Result<Utf8PathBuf, Failure> {
    let bad = |message: String| Failure::new(ErrorCode::InvalidCwd, message);
    let path = given.unwrap_or(Path::new("."));
    let whole = path
        .canonicalize()
        .map_err(|error| bad(format!("{} cannot be used", path.display())).because(error))?;
    Utf8PathBuf::from_path_buf(whole).map_err(|path| bad(format!("{} is not UTF-8", path.display())))
}

fn print(list: &TypeList, console: &Console) {
    let rows: Vec<_> = list
        .items
        .iter()
        .map(|it| {
            let driven = [it.provider.as_deref(), it.model.as_deref()];
            vec![
                Cell::painted(&it.name, Paint::Bold),
                Cell::painted(&driven.into_iter().flatten().collect::<Vec<_>>().join(" "), Paint::Dim),
                Cell::plain(&text::line(&it.description)),
            ]
        })
        .collect();
    console.rows(&rows);
    for problem in &list.problems {
        console.note(&text::block(problem));
    }
    let there: Vec<_> =
        list.providers.iter().filter(|it| it.found.is_some()).map(|it| it.name.as_str()).collect();
    if there.is_empty() {
        console.note("No agent is installed; `subagent doctor` says how to install one.");
    } else {
        console.aside(&format!("Agents that are installed: {}.", there.join(", ")));
    }
}

fn show(it: &AgentType, console: &Console) {
    console.line(&format!("{}  {}", it.name, text::line(&it.description)));
    if !it.aliases.is_empty() {
        console.line(&format!("also: {}", it.aliases.join(", ")));
    }
    console.line(&format!("from: {}", text::line(&it.source)));
    let mut definition = it.definition.clone().unwrap_or_default();
    let prompt = definition.get_mut("prompt").map(serde_json::Value::take);
    let skipped = ["name", "aliases", "description", "source", "prompt", "visibility"];
    for (key, value) in definition.as_object().into_iter().flatten() {
        let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
        if !skipped.contains(&key.as_str()) && !empty {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            console.line(&format!("{key}: {}", text::line(&value)));
        }
    }
    if let Some(text) = prompt.as_ref().and_then(|prompt| prompt["text"].as_str()) {
        console.line("");
        console.childs_text(&format!("{}\n", text.trim_end()));
    }
}

fn trust(dir: Option<&Path>, trusted: bool, console: &Console) -> Result<u8, Failure> {
    let root = Project::around(&directory(dir)?).root;
    let path = agents::trust_file(&Paths::find()?);
    let cannot =
        |what: &str| Failure::new(ErrorCode::InvalidRequest, format!("{} cannot be {what}", path.display()));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot("read").because(error)),
    };
    let mut store = TrustStore::parse(&text).map_err(|error| cannot("used").because(error))?;
    let changed = if trusted {
        let new = !store.trusts(&root);
        store.trust(&root, Trusted::default()).map_err(|error| cannot("used").because(error))?;
        new
    } else {
        store.distrust(&root)
    };
    if changed {
        let text = store.to_text().map_err(|error| cannot("written").because(error))?;
        write(&path, &text).map_err(|error| cannot("written").because(error))?;
    }
    let word = match (trusted, store.trusts(&root)) {
        (true, _) => "is trusted",
        (false, false) => "is not trusted",
        (false, true) => "is still trusted: a directory above it is",
    };
    console.line(&format!("{root} {word}"));
    Ok(exit::DONE)
}

/// The whole file or the old one.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = std::fs::File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}
