//! The real programs, built once a test process in the profile of the tests themselves.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The shim.
pub fn shim_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("subagent-shim", "subagent-shim"))
}

/// The command line, with the shim beside it.
pub fn subagent_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        shim_program();
        built("subagent-cli", "subagent")
    })
}

/// A child that is spoken with in JSON lines and plays scripts.
pub fn talker_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("subagent-testkit", "talker"))
}

/// A child that speaks the Agent Client Protocol and plays scripts.
pub fn acp_agent_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("subagent-testkit", "acp-agent"))
}

/// The scripted model server.
pub fn model_server_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("subagent-testkit", "model-server"))
}

/// Builds a program and gives its path. Cargo itself decides whether there is anything to do; with
/// `SUBAGENT_TEST_PROGRAMS` set, programs are taken from that directory as they are.
fn built(package: &str, name: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os("SUBAGENT_TEST_PROGRAMS") {
        return PathBuf::from(dir).join(name);
    }
    let own = std::env::current_exe().expect("a test knows its own program");
    let target = own.ancestors().find(|dir| dir.ends_with("deps")).and_then(Path::parent);
    let target = target.expect("tests lie in target/PROFILE/deps").to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", package]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if target.ends_with("release") {
        build.arg("--release");
    }
    let done = build.status().expect("cargo runs");
    assert!(done.success(), "cannot build {package}");
    target.join(name)
}
