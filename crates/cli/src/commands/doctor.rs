//! `subagent doctor`: is everything in place, and what to do where it is not.

mod agents;

use std::io::Read;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use subagent_model::ErrorCode;
use subagent_model::request::Health;
use subagent_process::cgroup::CgroupRoot;
use subagent_runtime::Runtime;
use subagent_store::Store;
use subagent_store_sqlite::{APPLICATION_ID, FILE_NAME, FORMAT, OpenOptions, SqliteStore};

use super::agent::{self, Examined};
use super::status;
use crate::config::{self, Settings};
use crate::console::Console;
use crate::daemon::lock::Lock;
use crate::exit;
use crate::fail::Failure;
use crate::paths::Paths;
use crate::session::Session;
use crate::shim;
use crate::view::look::Paint;
use crate::view::{text, time};

/// Check the installation
///
/// Each line is ok, warn or bad, and says what to do. Nothing is changed and no daemon is started. Exit code 1 when
/// something is bad.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent doctor
  subagent doctor --json | jq '.checks[] | select(.state != \"ok\")'")]
pub(crate) struct DoctorArgs {}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Bad,
}

/// One line.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Default)]
struct Report {
    checks: Vec<Check>,
}

impl Report {
    fn ok(&mut self, name: &'static str, what: impl Into<String>) {
        self.checks.push(Check { name, state: State::Ok, what: what.into(), hint: None });
    }

    fn warn(&mut self, name: &'static str, what: impl Into<String>, hint: impl Into<String>) {
        self.checks.push(Check { name, state: State::Warn, what: what.into(), hint: Some(hint.into()) });
    }

    fn bad(&mut self, name: &'static str, what: impl Into<String>, hint: impl Into<String>) {
        self.checks.push(Check { name, state: State::Bad, what: what.into(), hint: Some(hint.into()) });
    }

    fn failed(&mut self, name: &'static str, failure: &Failure) {
        let problem = failure.problem();
        self.checks.push(Check { name, state: State::Bad, what: problem.message, hint: problem.hint });
    }
}

/// Carries it out.
pub(crate) async fn run(_: &DoctorArgs, console: &Console) -> Result<u8, Failure> {
    let mut report = Report::default();
    report.ok("program", format!("subagent {}", env!("CARGO_PKG_VERSION")));
    match shim::find() {
        Ok(path) => report.ok("shim", path.display().to_string()),
        Err(failure) => report.failed("shim", &failure),
    }
    let mut socket = None;
    match Paths::find() {
        Ok(paths) => {
            examine(&paths, console, &mut report).await;
            socket = Some(paths.socket);
        }
        Err(failure) => report.failed("paths", &failure),
    }
    if let Ok(paths) = Paths::find() {
        agents::examine(&paths, &mut report);
        endpoint(&paths, &mut report).await;
    }
    tell(&report, socket.as_deref(), console);
    let bad = report.checks.iter().any(|check| check.state == State::Bad);
    Ok(if bad { exit::ENDED_BADLY } else { exit::DONE })
}

/// The endpoint of the built-in agent.
async fn endpoint(paths: &Paths, report: &mut Report) {
    let config = match config::agent(&paths.config) {
        Ok(config) => config,
        Err(failure) => return report.failed("endpoint", &failure),
    };
    match agent::examine(&config).await {
        Examined::None(why) => report.ok("endpoint", format!("none for the built-in agent: {why}")),
        Examined::Ready(name) => report.ok("endpoint", name),
        Examined::Unlisted { name, has } if has.is_empty() => {
            report.ok("endpoint", format!("{name}; it lists no models"));
        }
        Examined::Unlisted { name, has } => report.warn(
            "endpoint",
            format!("{name}: the endpoint does not list this model"),
            format!("It has {}.", has.join(", ")),
        ),
        Examined::Bad { what, hint } => report.bad("endpoint", what, hint),
    }
}

async fn examine(paths: &Paths, console: &Console, report: &mut Report) {
    let settings = configuration(paths, report);
    data(paths, &settings, report);
    match paths.check_runtime() {
        Ok(()) => report.ok("runtime", paths.runtime.display().to_string()),
        Err(failure) => report.failed("runtime", &failure),
    }
    let daemon = daemon(console, report).await;
    store(paths, daemon.as_ref(), report);
    containment(paths, daemon.as_ref(), report);
}

fn configuration(paths: &Paths, report: &mut Report) -> Settings {
    let path = paths.config.display();
    match config::load(&paths.config) {
        Ok((settings, warnings)) => {
            if paths.config.exists() {
                report.ok("settings", path.to_string());
            } else {
                report.ok("settings", format!("{path} is not there; every setting has its default"));
            }
            for warning in warnings {
                report.warn("settings", warning, "Correct its name or remove it.");
            }
            settings
        }
        Err(failure) => {
            report.failed("settings", &failure);
            Settings::default()
        }
    }
}

fn data(paths: &Paths, settings: &Settings, report: &mut Report) {
    let shown = paths.data.display().to_string();
    if !paths.data.exists() {
        report.ok("data", format!("{shown} is not there yet; the first command makes it"));
        return;
    }
    if let Err(error) =
        rustix::fs::access(&paths.data, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
    {
        let code = ErrorCode::StoreReadOnly;
        report.bad("data", format!("{shown} cannot be written: {error}"), code.remedy());
        return;
    }
    let floor = settings.limits.disk_floor_mb;
    match rustix::fs::statvfs(&paths.data) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize) / (1024 * 1024);
            if free < floor {
                let hint = ErrorCode::DiskFloor.remedy();
                report.bad("data", format!("{shown}: {free} MB free, the floor is {floor} MB"), hint);
            } else {
                report.ok("data", format!("{shown}, {free} MB free"));
            }
        }
        Err(_) => report.ok("data", shown),
    }
}

async fn daemon(console: &Console, report: &mut Report) -> Option<Health> {
    let session = match Session::existing(console).await {
        Ok(Some(session)) => session,
        Ok(None) => {
            report.ok("daemon", "none is running; any command starts it");
            return None;
        }
        Err(failure) => {
            report.failed("daemon", &failure);
            return None;
        }
    };
    let health = match session.client.health().await {
        Ok(health) => health,
        Err(problem) => {
            report.failed("daemon", &problem.into());
            return None;
        }
    };
    let what = format!(
        "version {}, process {}, up {}",
        health.version,
        health.pid,
        time::human(time::now().since(health.started_at))
    );
    match &health.degraded {
        Some(reason) => report.bad(
            "daemon",
            format!("{what}; it takes no new work: {}", text::line(reason)),
            "Remove the cause; it goes on by itself.",
        ),
        None if health.version != env!("CARGO_PKG_VERSION") => {
            report.warn("daemon", what, "`subagent upgrade` replaces it by this program; children run on.");
        }
        None => report.ok("daemon", what),
    }
    for (name, value) in status::recovery(&health.recovery) {
        let told = format!("{name}: {value}");
        if health.recovery.lost > 0 || !health.recovery.orphans.is_empty() {
            report.warn(
                "recovery",
                told,
                "`subagent ls --status lost --all` lists lost runs; orphans are left alone.",
            );
        } else {
            report.ok("recovery", told);
        }
    }
    Some(health)
}

fn store(paths: &Paths, daemon: Option<&Health>, report: &mut Report) {
    let path = paths.data.join(FILE_NAME);
    let format = match store_format(&paths.data) {
        Ok(Some(format)) => format,
        Ok(None) => return report.ok("store", "there is none yet"),
        Err(failure) => return report.failed("store", &failure),
    };
    let shown = match format {
        Format::Known(format) => format!("{}, format {format}", path.display()),
        Format::InLog => path.display().to_string(),
    };
    if let Some(health) = daemon {
        return match health.damaged.max(health.recovery.damaged) {
            0 => report.ok("store", format!("{shown}, in use by the daemon")),
            damaged => report.warn(
                "store",
                format!("{shown}, {damaged} damaged records"),
                "`subagent ls --all` names them.",
            ),
        };
    }
    // Opening an older one would lead it to the present format, and only the holder of the lock may open any.
    if matches!(format, Format::Known(format) if format < FORMAT) {
        return report.ok("store", format!("{shown}; the daemon leads it to format {FORMAT}"));
    }
    match Lock::try_take(&paths.lock()) {
        Ok(Some(_lock)) => match sound(&paths.data) {
            Ok(faults) if faults.is_empty() => report.ok("store", format!("{shown}, sound")),
            Ok(faults) => report.bad(
                "store",
                format!("{shown}: {}", faults.join("; ")),
                "Restore a backup, or recover what can be read with `sqlite3 FILE .recover`.",
            ),
            Err(failure) => report.failed("store", &failure),
        },
        Ok(None) => report.warn("store", shown, "A daemon is starting or ending; look again in a moment."),
        Err(failure) => report.failed("store", &failure),
    }
}

/// What is wrong with the file or the records in it.
fn sound(data: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: subagent_store::StoreError| {
        Failure::new(error.code(), "the store cannot be used").because(error)
    };
    let options = OpenOptions { create: false, ..OpenOptions::default() };
    let store = SqliteStore::open(data, &options).map_err(failed)?;
    let mut faults = store.check_file().map_err(failed)?;
    let live = store.live().map_err(failed)?;
    faults.extend(live.damaged.iter().map(|row| format!("record {}: {}", row.id, row.reason)));
    Ok(faults)
}

/// What the head of a store's file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// This format.
    Known(u32),
    /// Nothing yet: its first pages are still in its log.
    InLog,
}

/// The format of the store, read from its head without opening it; `None` when there is none. Refuses one that is newer
/// than this program, and a file that is no store.
pub(super) fn store_format(data: &Path) -> Result<Option<Format>, Failure> {
    let path = data.join(FILE_NAME);
    let mut head = [0; 100];
    let read = std::fs::File::open(&path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(Some(Format::InLog)),
        Err(error) => {
            let message = format!("cannot read {}", path.display());
            return Err(Failure::new(ErrorCode::StoreFailed, message).because(error));
        }
    }
    // The head of a database file: https://www.sqlite.org/fileformat2.html, 1.3.
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (format, application) = (word(60), word(68));
    if !head.starts_with(b"SQLite format 3\0") {
        let message = format!("{} is no database", path.display());
        return Err(Failure::new(ErrorCode::StoreFailed, message).hint(
            "Move it away, with the files beside it that begin with its name; a new store is made then.",
        ));
    }
    if (format, application) == (0, 0) {
        return Ok(Some(Format::InLog));
    }
    if i64::from(application) != i64::from(APPLICATION_ID) {
        let message = format!("{} is a database of another program", path.display());
        return Err(Failure::new(ErrorCode::StoreFailed, message).hint("Choose another data directory."));
    }
    if format > FORMAT {
        let message = format!("the store has format {format}, this program knows up to {FORMAT}");
        return Err(Failure::new(ErrorCode::StoreTooNew, message));
    }
    Ok(Some(Format::Known(format)))
}

fn containment(paths: &Paths, daemon: Option<&Health>, report: &mut Report) {
    let walk = "The trees of children are found by walking their descendants, which works; with a delegated control \
                group (`systemd-run --user --scope -p Delegate=yes`) the kernel does it.";
    match daemon.map(|health| health.containment.as_str()) {
        Some("cgroup") => report.ok("containment", "control groups"),
        Some(_) => report.warn("containment", "no control groups", walk),
        None => match CgroupRoot::discover(&format!("{}-doctor", paths.tag)) {
            Ok(root) => {
                report.ok("containment", format!("control groups below {}", root.path().display()));
                // Fails only if somebody else uses it, who then removes it.
                let _ = root.remove();
            }
            Err(error) => report.warn("containment", format!("no control groups: {error}"), walk),
        },
    }
}

fn tell(report: &Report, socket: Option<&Path>, console: &Console) {
    if console.json {
        let worst = report.checks.iter().map(|check| check.state).max().unwrap_or(State::Ok);
        console.document(&serde_json::json!({ "state": worst, "socket": socket, "checks": report.checks }));
        return;
    }
    for check in &report.checks {
        let (word, paint) = match check.state {
            State::Ok => ("ok  ", Paint::Green),
            State::Warn => ("warn", Paint::Yellow),
            State::Bad => ("bad ", Paint::Red),
        };
        console.line(&format!(
            "{} {:12} {}",
            paint.on(word, console.out.colour),
            check.name,
            text::line(&check.what)
        ));
        if let Some(hint) = &check.hint {
            console.line(&format!("                  {}", text::line(hint)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, store_format};
    use subagent_store_sqlite::{FILE_NAME, FORMAT, OpenOptions, SqliteStore};

    #[test]
    fn the_format_is_read_without_opening_the_store() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(store_format(dir.path()).unwrap(), None);
        drop(SqliteStore::open(dir.path(), &OpenOptions::default()).unwrap());
        assert_eq!(store_format(dir.path()).unwrap(), Some(Format::Known(FORMAT)));
        let path = dir.path().join(FILE_NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[60..64].copy_from_slice(&(FORMAT + 1).to_be_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert!(store_format(dir.path()).unwrap_err().to_string().contains("knows up to"));
        bytes[68] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(store_format(dir.path()).unwrap_err().to_string().contains("another program"));
        std::fs::write(&path, [7; 200]).unwrap();
        assert!(store_format(dir.path()).unwrap_err().to_string().contains("no database"));
    }
}
