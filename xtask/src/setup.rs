//! The tools that the checks need: found, or installed. System packages come through `apt-get` where that is
//! possible, cargo tools in a pinned version from source.

use std::process::{Command, Stdio};

use crate::metadata;
use crate::problem::{Problem, Result};
use crate::steps;

/// A program of the system.
struct Program {
    name: &'static str,
    package: &'static str,
    why: &'static str,
    needed: bool,
}

const PROGRAMS: &[Program] = &[
    Program { name: "cc", package: "gcc", why: "links everything and compiles SQLite", needed: true },
    Program { name: "git", package: "git", why: "worktrees are tested with the real one", needed: true },
    Program { name: "tmux", package: "tmux", why: "terminal behaviour is looked at in it", needed: false },
];

/// A cargo subcommand: name, pinned version, and whether it is there already.
const TOOLS: &[(&str, &str)] = &[("cargo-nextest", "0.9.143"), ("cargo-deny", "0.20.2")];

/// Looks for everything, and installs what is missing.
pub(crate) fn run() -> Result<()> {
    programs()?;
    for (name, version) in TOOLS {
        tool(name, version)?;
    }
    Ok(())
}

/// Looks for the programs alone: what building and running needs.
pub(crate) fn programs_only() -> Result<()> {
    programs()
}

/// The cargo tool whose absence only the full run notices.
pub(crate) fn nextest() -> Result<()> {
    TOOLS
        .iter()
        .filter(|(name, _)| *name == "cargo-nextest")
        .try_for_each(|(name, version)| tool(name, version))
}

fn programs() -> Result<()> {
    let missing: Vec<&Program> = PROGRAMS.iter().filter(|program| !on_path(program.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for program in &missing {
        eprintln!("    {} is missing: {}", program.name, program.why);
    }
    // The C library's headers and archive are only recommended by the compiler's package.
    let mut packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    if packages.contains(&"gcc") {
        packages.push("libc6-dev");
    }
    let list = packages.join(" ");
    let required = missing.iter().any(|program| program.needed);
    let installed = if on_path("apt-get") && is_root() { apt_get(&packages) } else { false };
    if installed || !required {
        return Ok(());
    }
    Err(Problem::new(
        format!("tools are missing and could not be installed: {list}"),
        format!(
            "install them, on Debian with `sudo apt-get install {list}`, and run `cargo xtask setup` again"
        ),
    ))
}

fn apt_get(packages: &[&str]) -> bool {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        quietly(&mut command)
    };
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(packages);
    // Package lists may be missing or old; a failed refresh is no reason not to try.
    apt(&["update"]);
    apt(&install)
}

fn tool(name: &str, version: &str) -> Result<()> {
    let subcommand = name.trim_start_matches("cargo-");
    if quietly(steps::cargo(&metadata::root()).args([subcommand, "--version"])) {
        return Ok(());
    }
    eprintln!("    {name} is missing; installing {version}, which takes a few minutes");
    let scratch = std::env::temp_dir().join(format!("{name}-{version}-build"));
    let mut command = steps::cargo(&metadata::root());
    // Away from the workspace's target directory: its profiles and lock are not ours to share.
    command.env("CARGO_TARGET_DIR", &scratch);
    command.args(["install", name, "--version", version, "--locked", "--quiet"]);
    steps::run(&mut command, "see above; without a network, install it by hand")?;
    drop(std::fs::remove_dir_all(&scratch));
    if quietly(steps::cargo(&metadata::root()).args([subcommand, "--version"])) {
        return Ok(());
    }
    Err(Problem::new(
        format!("{name} was installed and is not found"),
        "put the `bin` directory of cargo's home on PATH",
    ))
}

/// Whether there is such a program.
pub(crate) fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

fn is_root() -> bool {
    let mut id = Command::new("id");
    id.arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn quietly(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
