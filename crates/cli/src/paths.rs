//! Where everything lies. One home has one daemon, and the address of that daemon follows from the home alone: another
//! working directory, another spelling of the home, or a link to it finds the same one.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use subagent_model::ErrorCode;

use crate::fail::Failure;

/// Longest path of a socket that every system takes.
const LONGEST_SOCKET: usize = 100;
/// What shims need below the runtime directory: `/s/` and a name of two numbers.
const SHIM_SOCKET: usize = "/s/ffffffff-ffffffffffff-ffffffff.sock".len();
/// Where the short way goes when no other is short enough.
const SHORT: &str = "/tmp";

/// What of the environment tells where things are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// `SUBAGENT_HOME`.
    pub(crate) subagent_home: Option<OsString>,
    /// `SUBAGENT_SOCKET`, which the daemon gives to its children.
    pub(crate) subagent_socket: Option<OsString>,
    /// `HOME`.
    pub(crate) home: Option<OsString>,
    /// `XDG_DATA_HOME`.
    pub(crate) data_home: Option<OsString>,
    /// `XDG_CONFIG_HOME`.
    pub(crate) config_home: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub(crate) runtime_dir: Option<OsString>,
    /// The working directory, for a relative home.
    pub(crate) cwd: Option<PathBuf>,
    /// This user.
    pub(crate) uid: u32,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn here() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            subagent_home: set("SUBAGENT_HOME"),
            subagent_socket: set("SUBAGENT_SOCKET"),
            home: set("HOME"),
            data_home: set("XDG_DATA_HOME"),
            config_home: set("XDG_CONFIG_HOME"),
            runtime_dir: set("XDG_RUNTIME_DIR"),
            cwd: std::env::current_dir().ok(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

/// The places of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The home, if `SUBAGENT_HOME` named it.
    pub(crate) home: Option<PathBuf>,
    /// Data directory: store, logs of attempts, log of the daemon.
    pub(crate) data: PathBuf,
    /// Configuration file.
    pub(crate) config: PathBuf,
    /// Runtime directory: sockets.
    pub(crate) runtime: PathBuf,
    /// The daemon's socket.
    pub(crate) socket: PathBuf,
    /// A short word for this home.
    pub(crate) tag: String,
    /// Directories whose owner and mode must be right before anything in them is trusted.
    guarded: Vec<PathBuf>,
    uid: u32,
}

impl Paths {
    /// The places for this process.
    pub(crate) fn find() -> Result<Self, Failure> {
        Self::of(&Surroundings::here())
    }

    /// The places for these surroundings.
    pub(crate) fn of(around: &Surroundings) -> Result<Self, Failure> {
        let absolute = |value: &Option<OsString>| {
            // The XDG specification wants relative values ignored.
            value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let below_home = |rest: &str| {
            absolute(&around.home).map(|home| home.join(rest)).ok_or_else(|| {
                Failure::new(
                    ErrorCode::InvalidRequest,
                    "neither SUBAGENT_HOME nor HOME names an absolute path",
                )
                .hint("Set SUBAGENT_HOME to the directory where subagent may keep its data.")
            })
        };
        let (home, data, config) = if let Some(home) = &around.subagent_home {
            let cwd = around.cwd.as_deref().unwrap_or(Path::new("/"));
            let home = canonical(&cwd.join(home));
            (Some(home.clone()), home.clone(), home.join("config.toml"))
        } else {
            let data = absolute(&around.data_home).map_or_else(|| below_home(".local/share"), Ok)?;
            let config = absolute(&around.config_home).map_or_else(|| below_home(".config"), Ok)?;
            (None, canonical(&data.join("subagent")), config.join("subagent/config.toml"))
        };
        let tag = tag_of(&data);
        let (runtime, guarded) = runtime_dir(around, home.as_deref(), &tag);
        let mut socket = runtime.join("subagent.sock");
        // A child knows the address of its daemon. A home that was set explicitly says otherwise where it is another one:
        // a test suite within a child has a daemon of its own.
        if home.is_none()
            && let Some(given) = absolute(&around.subagent_socket)
        {
            socket = given;
        }
        Ok(Self { home, data, config, runtime, socket, tag, guarded, uid: around.uid })
    }

    /// Where the daemon of this home listens, whatever a child was told.
    pub(crate) fn own_socket(&self) -> PathBuf {
        self.runtime.join("subagent.sock")
    }

    /// Directory of the shims' sockets.
    pub(crate) fn shim_sockets(&self) -> PathBuf {
        self.runtime.join("s")
    }

    /// The file that the one daemon holds locked.
    pub(crate) fn lock(&self) -> PathBuf {
        self.data.join("daemon.lock")
    }

    /// The file that whoever starts a daemon holds locked meanwhile.
    pub(crate) fn start_lock(&self) -> PathBuf {
        self.data.join("start.lock")
    }

    /// Log of a daemon that was started on demand.
    pub(crate) fn log(&self) -> PathBuf {
        self.data.join("daemon.log")
    }

    /// Makes the data directory, for this user alone.
    pub(crate) fn make_data(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.data);
        made.map_err(|error| {
            use std::io::ErrorKind as Kind;
            let code = match error.kind() {
                Kind::PermissionDenied | Kind::ReadOnlyFilesystem => ErrorCode::StoreReadOnly,
                Kind::StorageFull | Kind::QuotaExceeded => ErrorCode::StoreFull,
                _ => ErrorCode::StoreFailed,
            };
            Failure::new(code, format!("cannot make the data directory {}", self.data.display()))
                .because(error)
        })
    }

    /// Makes the runtime directories, for this user alone, and refuses those of somebody else.
    pub(crate) fn make_runtime(&self) -> Result<(), Failure> {
        for dir in self.guarded.iter().chain([&self.runtime, &self.shim_sockets()]) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(|error| {
                let message = format!("cannot make the runtime directory {}", dir.display());
                Failure::new(ErrorCode::DaemonUnreachable, message).because(error)
            })?;
        }
        self.check_runtime()
    }

    /// Refuses runtime directories that others could write. Missing ones are fine.
    pub(crate) fn check_runtime(&self) -> Result<(), Failure> {
        for dir in &self.guarded {
            let Ok(meta) = std::fs::symlink_metadata(dir) else { continue };
            if let Some(fault) = fault(&meta, self.uid) {
                let message =
                    format!("the runtime directory {} {fault}; nothing in it is trusted", dir.display());
                return Err(Failure::new(ErrorCode::DaemonUnreachable, message).hint(
                    "Remove it if it is yours, or set XDG_RUNTIME_DIR or SUBAGENT_HOME to a directory of yours with a \
                     short path.",
                ));
            }
        }
        Ok(())
    }
}

/// What is wrong with a directory that must be this user's alone.
fn fault(meta: &Metadata, uid: u32) -> Option<String> {
    if !meta.is_dir() {
        Some(String::from("is no directory"))
    } else if meta.uid() != uid {
        Some(format!("belongs to user {}", meta.uid()))
    } else if meta.mode() & 0o077 != 0 {
        Some(format!("is open to others (mode {:o})", meta.mode() & 0o777))
    } else {
        None
    }
}

/// The runtime directory, and which directories on the way are to be checked.
fn runtime_dir(around: &Surroundings, home: Option<&Path>, tag: &str) -> (PathBuf, Vec<PathBuf>) {
    let preferred = match home {
        Some(home) => Some(home.join("run")),
        // One that belongs to somebody else is the leftover of a changed user.
        None => around
            .runtime_dir
            .as_ref()
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
            .filter(|dir| std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == around.uid))
            .map(|dir| dir.join("subagent").join(tag)),
    };
    if let Some(dir) = preferred.filter(|dir| dir.as_os_str().len() + SHIM_SOCKET <= LONGEST_SOCKET) {
        return (dir.clone(), vec![dir]);
    }
    let user = Path::new(SHORT).join(format!("subagent-{}", around.uid));
    let dir = user.join(tag);
    (dir.clone(), vec![user, dir])
}

/// A word of 16 letters that stands for a home.
fn tag_of(data: &Path) -> String {
    use std::fmt::Write;
    let digest = Sha256::digest(data.as_os_str().as_bytes());
    digest.iter().take(8).fold(String::with_capacity(16), |mut tag, byte| {
        // Writing into a string cannot fail.
        let _ = write!(tag, "{byte:02x}");
        tag
    })
}

/// The one spelling of a path: links resolved as far as it exists, the rest taken literally.
fn canonical(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut present = path.to_owned();
    loop {
        if let Ok(found) = present.canonicalize() {
            let rest = missing.iter().rev().fold(found, |path: PathBuf, part| path.join(part));
            return normal(&rest);
        }
        let Some(name) = present.components().next_back().map(|part| part.as_os_str().to_owned()) else {
            return normal(path);
        };
        missing.push(name);
        if !present.pop() {
            return normal(path);
        }
    }
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_SOCKET, Paths, SHIM_SOCKET, Surroundings};
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    fn around(home: &Path) -> Surroundings {
        Surroundings {
            subagent_home: Some(home.into()),
            cwd: Some(PathBuf::from("/")),
            uid: rustix::process::geteuid().as_raw(),
            ..Surroundings::default()
        }
    }

    #[test]
    fn daemon_05_every_spelling_of_a_home_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&home, &link).unwrap();
        let plain = Paths::of(&around(&home)).unwrap();
        for spelling in [link, home.join("."), home.join("../home"), home.join("not-yet/..")] {
            assert_eq!(Paths::of(&around(&spelling)).unwrap(), plain, "{}", spelling.display());
        }
        let relative = Surroundings { cwd: Some(dir.path().to_owned()), ..around(Path::new("home")) };
        assert_eq!(Paths::of(&relative).unwrap(), plain);
    }

    #[test]
    fn a_home_that_is_not_there_yet_keeps_its_identity_once_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("a/b");
        let before = Paths::of(&around(&home)).unwrap();
        before.make_data().unwrap();
        assert_eq!(Paths::of(&around(&home)).unwrap(), before);
        let mode = std::fs::metadata(&before.data).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn daemon_07_a_deep_home_gets_a_short_socket() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("d".repeat(200));
        let paths = Paths::of(&around(&home)).unwrap();
        assert!(paths.socket.starts_with("/tmp"));
        assert!(paths.socket.as_os_str().len() <= LONGEST_SOCKET);
        assert!(paths.runtime.as_os_str().len() + SHIM_SOCKET <= LONGEST_SOCKET);
        let other = Paths::of(&around(&dir.path().join("e".repeat(200)))).unwrap();
        assert_ne!(paths.socket, other.socket);
    }

    #[test]
    fn daemon_20_a_runtime_directory_that_is_not_ours_alone_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut paths = Paths::of(&around(dir.path())).unwrap();
        paths.make_runtime().unwrap();
        paths.check_runtime().unwrap();
        std::fs::set_permissions(&paths.runtime, PermissionsExt::from_mode(0o777)).unwrap();
        let text = paths.check_runtime().unwrap_err().to_string();
        assert!(text.contains("open to others (mode 777)"), "{text}");
        std::fs::set_permissions(&paths.runtime, PermissionsExt::from_mode(0o700)).unwrap();
        paths.uid += 1;
        let text = paths.check_runtime().unwrap_err().to_string();
        assert!(text.contains("belongs to user"), "{text}");
        // A link in its place, to a directory that is ours.
        paths.uid -= 1;
        std::fs::rename(&paths.runtime, dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("real"), &paths.runtime).unwrap();
        assert!(paths.check_runtime().unwrap_err().to_string().contains("is no directory"));
    }

    #[test]
    fn the_xdg_directories_are_used_and_relative_ones_ignored() {
        let uid = rustix::process::geteuid().as_raw();
        let run = tempfile::tempdir().unwrap();
        let xdg = Surroundings {
            home: Some("/home/x".into()),
            data_home: Some("/data".into()),
            config_home: Some("relative".into()),
            runtime_dir: Some(run.path().into()),
            uid,
            ..Surroundings::default()
        };
        let paths = Paths::of(&xdg).unwrap();
        assert_eq!(paths.data, Path::new("/data/subagent"));
        assert_eq!(paths.config, Path::new("/home/x/.config/subagent/config.toml"));
        assert!(paths.socket.starts_with(run.path().join("subagent")));
        let foreign = Paths::of(&Surroundings { uid: uid + 1, ..xdg.clone() }).unwrap();
        assert!(foreign.socket.starts_with("/tmp"), "somebody else's runtime directory is not used");
        let other = Paths::of(&Surroundings { data_home: Some("/other".into()), ..xdg.clone() }).unwrap();
        assert_ne!(other.socket, paths.socket, "two homes never share a socket");
        let nested = Surroundings { subagent_socket: Some("/run/outer.sock".into()), ..xdg };
        assert_eq!(Paths::of(&nested).unwrap().socket, Path::new("/run/outer.sock"));
        assert!(Paths::of(&Surroundings::default()).is_err());
    }

    #[test]
    fn a_home_of_its_own_within_a_child_has_a_daemon_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let inner = Surroundings { subagent_socket: Some("/run/outer.sock".into()), ..around(dir.path()) };
        assert_eq!(
            Paths::of(&inner).unwrap().socket,
            dir.path().canonicalize().unwrap().join("run/subagent.sock")
        );
    }
}
