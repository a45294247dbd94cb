//! `subagent serve`: takes the lock, opens the store, recovers, serves, and goes down without taking children along.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use subagent_api::{Admin, ShutdownRequest};
use subagent_model::ErrorCode;
use subagent_runtime::{Engine, Shutdown};
use subagent_store_sqlite::SqliteStore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lock::{self, Holder, Lock};
use super::signals::Endings;
use super::socket::{self, Published};
use super::{engine, log};
use crate::config::{self, Settings};
use crate::console::Console;
use crate::fail::Failure;
use crate::paths::Paths;
use crate::{exit, shim};

/// How long a daemon that a client started waits for one that is going down.
const PATIENCE: Duration = Duration::from_secs(12);
/// How long a new daemon waits for the lock of one that was just killed: its last children's copies close within
/// microseconds.
const SHORT_PATIENCE: Duration = Duration::from_millis(300);
/// How long the last tasks may take once everything is on disk.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Run the daemon in the foreground
///
/// Any command that needs the daemon starts it on demand, so this is for service managers and for watching it work. It
/// ends on SIGTERM, SIGINT or `subagent shutdown`; children run on and the next daemon adopts them. A second signal ends
/// it at once, also while it drains or stops children.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent serve
  subagent serve --max-running 16
  SUBAGENT_LOG=debug subagent serve

Settings come from config.toml; `subagent doctor` shows where that is. A flag overrides the file.")]
pub(crate) struct ServeArgs {
    /// Most children that run at once; further ones are queued [default: 4]
    #[arg(long, value_name = "N")]
    max_running: Option<String>,
    /// Most runs that wait in the queue; further ones are refused [default: 1000]
    #[arg(long, value_name = "N")]
    queue: Option<String>,
    /// Stay in the foreground; the only way, and the default
    #[arg(long, hide = true)]
    foreground: bool,
    /// Write a byte to this inherited descriptor once requests are served
    #[arg(long, value_name = "FD")]
    ready_fd: Option<u32>,
    /// Started by a client: detach, and leave quietly when another daemon serves
    #[arg(long, hide = true)]
    on_demand: bool,
}

/// Serves until told to end. A client that started it waits at its standard output for why it did not start.
pub(crate) fn run(args: &ServeArgs, console: &Console) -> Result<u8, Failure> {
    let ended = start(args, console);
    if let (true, Err(failure)) = (args.on_demand, &ended) {
        console.json_line(&failure.problem());
    }
    ended
}

fn start(args: &ServeArgs, console: &Console) -> Result<u8, Failure> {
    // What the daemon makes is for this user alone. Children get the mask that was there before: what they make is theirs.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    if args.on_demand {
        // Fails only for the leader of a group, which a client never makes it.
        let _ = rustix::process::setsid();
    }
    let paths = Paths::find()?;
    let settings = settings(args, &paths, console)?;
    let shim = shim::find()?;
    paths.make_data()?;
    paths.make_runtime()?;
    let patience = if args.on_demand { PATIENCE } else { SHORT_PATIENCE };
    let Some(lock) = take_lock(&paths, patience, args.on_demand)? else {
        return Ok(exit::DONE);
    };
    log::start();
    let store = engine::open_store(&paths)?;
    rustix::process::umask(before);
    // No directory is kept from being unmounted.
    if let Err(error) = std::env::set_current_dir("/") {
        tracing::warn!(%error, "cannot leave the working directory");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // A second one would be woken for every message of a child and take its processor from it: what can take long
        // runs on blocking threads, commits on the writer's.
        .worker_threads(1)
        .max_blocking_threads(64)
        .thread_keep_alive(Duration::from_secs(5))
        .thread_name("subagent")
        .enable_all()
        .build()
        .map_err(|error| unreachable("cannot start the daemon's threads").because(error))?;
    let served = runtime.block_on(serve(args, &paths, &settings, shim, store));
    // Whatever is stuck in a system call must not hold us for long, and not at all when somebody insisted.
    let patience = if matches!(served, Ok(Ended::Orderly)) { LAST_TASKS } else { Duration::ZERO };
    runtime.shutdown_timeout(patience);
    // Held until nothing is written any more.
    drop(lock);
    served.map(|_| exit::DONE)
}

/// How often the socket is looked for.
const PUBLISHED: Duration = Duration::from_secs(2);

/// How a daemon went down.
enum Ended {
    Orderly,
    AtOnce,
}

fn unreachable(message: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::DaemonUnreachable, message)
}

fn settings(args: &ServeArgs, paths: &Paths, console: &Console) -> Result<Settings, Failure> {
    let (mut settings, warnings) = config::load(&paths.config)?;
    for warning in warnings {
        console.note(&format!("warning: {warning}"));
    }
    for (key, flag) in [("running", &args.max_running), ("queue", &args.queue)] {
        if let Some(text) = flag {
            config::set(&mut settings, "limits", key, text)?;
        }
    }
    Ok(settings)
}

/// The lock; `None` when another daemon serves and this one was started by a client.
fn take_lock(paths: &Paths, patience: Duration, on_demand: bool) -> Result<Option<Lock>, Failure> {
    let path = paths.lock();
    let until = Instant::now() + patience;
    loop {
        if let Some(mut lock) = Lock::try_take(&path)? {
            if let Some(process) = subagent_process::identify(std::process::id()) {
                let version = String::from(env!("CARGO_PKG_VERSION"));
                let holder = Holder { process, socket: paths.own_socket(), version };
                if let Err(error) = lock.sign(&holder) {
                    tracing::warn!(%error, "cannot write into the lock file");
                }
            }
            return Ok(Some(lock));
        }
        if on_demand && std::os::unix::net::UnixStream::connect(paths.own_socket()).is_ok() {
            return Ok(None);
        }
        if Instant::now() >= until {
            let who = lock::holder(&path).map_or_else(
                || String::from("another process"),
                |holder| format!("process {}", holder.process.pid),
            );
            let message = format!("a daemon of {} is already running: {who}", paths.data.display());
            let hint = "Use it: every command finds it. `subagent shutdown` ends it; children run on.";
            // Not "unreachable": it is there.
            return Err(Failure::new(ErrorCode::DaemonRunning, message).hint(hint));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn serve(
    args: &ServeArgs,
    paths: &Paths,
    settings: &Settings,
    shim: PathBuf,
    store: SqliteStore,
) -> Result<Ended, Failure> {
    let mut endings = Endings::catch().map_err(|error| unreachable("cannot catch signals").because(error))?;
    let engine = engine::start(paths, settings, shim, store).await?;
    let path = paths.own_socket();
    let (listener, published) = socket::publish(&path)
        .map_err(|error| unreachable(format!("cannot listen at {}", path.display())).because(error))?;
    let (orders, mut ordered) = mpsc::channel(4);
    let stop = CancellationToken::new();
    let runtime: Arc<dyn subagent_runtime::Runtime> = Arc::new(engine.clone());
    let admin = Admin { shutdown: orders };
    let answering =
        tokio::spawn(subagent_api::serve(Arc::clone(&runtime), admin.clone(), listener, stop.clone()));
    let published = Arc::new(Mutex::new(published));
    tokio::spawn(stay_published(
        paths.lock(),
        path.clone(),
        Arc::clone(&published),
        runtime,
        admin,
        stop.clone(),
    ));
    if args.on_demand {
        // Whoever waits there learns by its end that nothing went wrong.
        if let Err(error) = rustix::stdio::dup2_stdout(std::io::stderr()) {
            tracing::warn!(%error, "cannot let go of standard output");
        }
        tokio::spawn(log::keep_short(paths.log()));
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), socket = %path.display(), "serving");
    if let Some(fd) = args.ready_fd {
        tell_ready(fd);
    }
    let policy = tokio::select! {
        Some(order) = ordered.recv() => policy(order),
        name = endings.next() => {
            tracing::info!(signal = name, "ending; children run on");
            Shutdown::Keep
        }
    };
    // Requests are answered meanwhile: whoever waits for children to end can watch them.
    let down = async {
        go_down(&engine, policy, &mut ordered).await;
        withdraw(&published);
        stop.cancel();
        answering.await
    };
    tokio::select! {
        served = down => {
            match served {
                Ok(Ok(())) => tracing::info!("ended"),
                Ok(Err(error)) => tracing::error!(%error, "serving failed"),
                Err(error) => tracing::error!(%error, "serving failed"),
            }
            Ok(Ended::Orderly)
        }
        name = endings.next() => {
            tracing::warn!(signal = name, "ending at once");
            withdraw(&published);
            Ok(Ended::AtOnce)
        }
    }
}

/// Ends the engine. A further order cuts a drain short, however long it was to be; to a stop of the children it adds nothing.
async fn go_down(engine: &Engine, mut policy: Shutdown, ordered: &mut mpsc::Receiver<ShutdownRequest>) {
    loop {
        let draining = matches!(policy, Shutdown::Drain { .. });
        tokio::select! {
            () = engine.shutdown(policy) => return,
            Some(order) = ordered.recv(), if draining => {
                policy = self::policy(order);
                tracing::info!(?policy, "told again to end while draining");
            }
        }
    }
}

fn withdraw(published: &Mutex<Published>) {
    published.lock().unwrap_or_else(PoisonError::into_inner).withdraw();
}

/// Publishes the socket again when somebody removed it: whoever holds the lock must be reachable.
async fn stay_published(
    lock: PathBuf,
    path: PathBuf,
    published: Arc<Mutex<Published>>,
    runtime: Arc<dyn subagent_runtime::Runtime>,
    admin: Admin,
    stop: CancellationToken,
) {
    while tokio::time::timeout(PUBLISHED, stop.cancelled()).await.is_err() {
        // Without its home there is nothing to serve any more.
        if !lock.exists() || !published.lock().unwrap_or_else(PoisonError::into_inner).is_missing() {
            continue;
        }
        match socket::publish(&path) {
            Ok((listener, again)) => {
                tracing::warn!(socket = %path.display(), "the socket was removed; it is published again");
                *published.lock().unwrap_or_else(PoisonError::into_inner) = again;
                let serve = subagent_api::serve(Arc::clone(&runtime), admin.clone(), listener, stop.clone());
                tokio::spawn(serve);
            }
            Err(error) => {
                tracing::error!(%error, socket = %path.display(), "cannot publish the socket again");
            }
        }
    }
}

fn policy(order: ShutdownRequest) -> Shutdown {
    match (order.stop_children_within_ms, order.drain_within_ms) {
        (Some(millis), _) => Shutdown::Stop { within: Duration::from_millis(millis) },
        (None, Some(millis)) => Shutdown::Drain { within: Duration::from_millis(millis) },
        (None, None) => Shutdown::Keep,
    }
}

/// The descriptor is opened anew by its name; whoever waits at its other end reads one byte.
fn tell_ready(fd: u32) {
    use std::io::Write;
    let path = format!("/dev/fd/{fd}");
    let told = std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(b"\n"));
    if let Err(error) = told {
        tracing::warn!(%error, fd, "cannot tell that requests are served");
    }
}
