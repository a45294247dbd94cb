//! Which store, providers and limits the engine of the daemon has.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open_files;
use subagent_model::ErrorCode;
use subagent_process::{Containment, LaunchError, LauncherConfig, PoolConfig, ShimLauncher, ShimPool};
use subagent_runtime::hooks::Hooks;
use subagent_runtime::{Engine, EngineConfig, StartError};
use subagent_store::StoreError;
use subagent_store_sqlite::{OpenOptions, SqliteStore};

use crate::agents;
use crate::config::Settings;
use crate::fail::Failure;
use crate::paths::Paths;

/// Opens the store and makes the directories of attempts, all for this user alone: in a home that is open to others
/// too, what lies below them is not.
pub(super) fn open_store(paths: &Paths) -> Result<SqliteStore, Failure> {
    let store = SqliteStore::open(&paths.data, &OpenOptions::default());
    let store = store.map_err(|error| store_failure(&error, paths))?;
    for name in ["attempts", "attachments", "volatile"] {
        let dir = paths.data.join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|error| {
            Failure::new(ErrorCode::StoreFailed, format!("cannot make {}", dir.display())).because(error)
        })?;
    }
    Ok(store)
}

/// Starts the engine, which recovers what there is.
pub(super) async fn start(
    paths: &Paths,
    settings: &Settings,
    shim: PathBuf,
    store: SqliteStore,
) -> Result<Engine, Failure> {
    let launcher = ShimLauncher::new(LauncherConfig {
        program: shim,
        sockets: paths.shim_sockets(),
        containment: Containment::Auto,
        tag: paths.tag.clone(),
    })
    .map_err(|error| launcher_failure(&error))?;
    let pool = ShimPool::new(launcher, PoolConfig { idle: settings.warm_shims, ..PoolConfig::default() });
    let config = EngineConfig {
        data_dir: paths.data.clone(),
        limits: settings.limits.clone(),
        graces: settings.graces,
        child_env: child_env(paths),
        log_limit: settings.log_limit,
        lease: settings.lease,
        version: String::from(env!("CARGO_PKG_VERSION")),
        tell_after: EngineConfig::TELL_AFTER,
        escalate_after: settings.escalate_after,
        interrupt_stops_background: settings.interrupt_stops_background,
        open_within: settings.open_within,
        look_every: settings.look_every,
        child_limits: open_files::raise(),
        retention: settings.retention,
        hooks: Hooks::default(),
        agents: agents::files(paths),
        models: settings.models.clone(),
    };
    Engine::start(config, Arc::new(store), agents::registry(paths), Some(pool)).await.map_err(|error| {
        match error {
            StartError::Store(error) => store_failure(&error, paths),
            other => Failure::new(ErrorCode::StoreFailed, "the engine cannot start").because(other),
        }
    })
}

/// What every child is told, so that a call within it finds this daemon.
fn child_env(paths: &Paths) -> BTreeMap<String, String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let socket = (String::from("SUBAGENT_SOCKET"), text(&paths.own_socket()));
    let home = paths.home.as_ref().map(|home| (String::from("SUBAGENT_HOME"), text(home)));
    std::iter::once(socket).chain(home).collect()
}

fn store_failure(error: &StoreError, paths: &Paths) -> Failure {
    Failure::new(error.code(), format!("the store in {} cannot be opened", paths.data.display()))
        .because(error)
}

fn launcher_failure(error: &LaunchError) -> Failure {
    let code = if matches!(error, LaunchError::Program { .. }) {
        ErrorCode::ShimMissing
    } else {
        ErrorCode::DaemonUnreachable
    };
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let failure = Failure::new(code, error.to_string());
    match cause {
        Some(cause) => failure.because(cause),
        None => failure,
    }
}
