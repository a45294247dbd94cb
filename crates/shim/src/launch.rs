//! From a start request to an attempt: checks, the log, the pipes, the program. Every refusal names the
//! step and what was looked for; no environment value and no argument ever appears in a message.

use std::ffi::{CString, c_char};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use subagent_core::frame::control::{Resource, StartRequest, StdinSource};
use subagent_model::process::{ProcessIdentity, StartFailure, StartStage};

use super::attempt::{Attempt, Graces};
use super::input::Input;
use super::log::LogWriter;
use super::platform::{self, Cgroup};
use super::spawn::{self, Plan};
use super::sys;

/// Where programs are looked for if the child has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts the child a request describes.
pub(crate) fn start(
    request: &StartRequest,
    cgroup: Option<&Cgroup>,
    boot_id: &str,
    null: &File,
) -> Result<Attempt, StartFailure> {
    let program = find_program(request)?;
    check_cwd(&request.cwd)?;
    let strings = Strings::new(request, &program)?;
    let dir = PathBuf::from(&request.dir);
    if !dir.is_absolute() {
        return Err(refusal(
            StartStage::Log,
            libc::EINVAL,
            "the attempt's directory is not absolute".to_owned(),
        ));
    }
    let stdin_file = match &request.stdin {
        StdinSource::File(path) => Some(File::open(path).map_err(|error| {
            failure(StartStage::Stdin, &error, &format!("cannot open the input file {path:?}"))
        })?),
        StdinSource::Null | StdinSource::Pipe => None,
    };
    let limits: Vec<_> = request
        .rlimits
        .iter()
        .map(|limit| {
            let values =
                libc::rlimit { rlim_cur: limit.soft as libc::rlim_t, rlim_max: limit.hard as libc::rlim_t };
            (resource_code(limit.resource), values)
        })
        .collect();
    let log = LogWriter::create(&dir, request.log_limit)
        .map_err(|error| failure(StartStage::Log, &error, "cannot create the frame log"))?;

    let pipes = Pipes::new(matches!(request.stdin, StdinSource::Pipe))
        .map_err(|error| failure(StartStage::Other, &error, "cannot make pipes"))?;
    let child_stdin = match (&pipes.stdin, &stdin_file) {
        (Some((read, _)), _) => read.as_raw_fd(),
        (None, Some(file)) => file.as_raw_fd(),
        (None, None) => null.as_raw_fd(),
    };
    let plan = Plan {
        program: &strings.program,
        argv: &strings.argv_pointers(),
        envp: &strings.env_pointers(),
        cwd: &strings.cwd,
        streams: [child_stdin, pipes.stdout.1.as_raw_fd(), pipes.stderr.1.as_raw_fd()],
        limits: &limits,
        cgroup,
    };
    let started_at = sys::now_micros();
    let oom_before = cgroup.and_then(Cgroup::oom_kills);
    let pid = spawn::spawn(&plan).map_err(|failed| explain(&failed, request, &program))?;
    let process = ProcessIdentity { pid, start_time: platform::start_time(pid), boot_id: boot_id.to_owned() };
    Ok(Attempt::new(
        request,
        process,
        started_at,
        log,
        [pipes.stdout.0, pipes.stderr.0],
        pipes.stdin.map(|(_, write)| Input::new(write, &dir)),
        Graces { term: request.term_grace_ms, kill: request.kill_grace_ms },
        oom_before,
    ))
}

struct Pipes {
    stdin: Option<(OwnedFd, OwnedFd)>,
    stdout: (OwnedFd, OwnedFd),
    stderr: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn new(with_stdin: bool) -> io::Result<Self> {
        let stdout = sys::pipe()?;
        let stderr = sys::pipe()?;
        sys::set_nonblocking(&stdout.0)?;
        sys::set_nonblocking(&stderr.0)?;
        let stdin = if with_stdin { Some(sys::pipe()?) } else { None };
        if let Some((_, write)) = &stdin {
            sys::set_nonblocking(write)?;
        }
        Ok(Self { stdin, stdout, stderr })
    }
}

struct Strings {
    program: CString,
    cwd: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Strings {
    fn new(request: &StartRequest, program: &str) -> Result<Self, StartFailure> {
        let nul = |what: &str| StartFailure {
            stage: StartStage::Other,
            errno: libc::EINVAL,
            message: format!("{what} contains a null byte"),
        };
        let mut argv = Vec::with_capacity(request.args.len() + 1);
        argv.push(CString::new(request.program.as_str()).map_err(|_| nul("the program's name"))?);
        for arg in &request.args {
            argv.push(CString::new(arg.as_str()).map_err(|_| nul("an argument"))?);
        }
        let mut env = Vec::with_capacity(request.env.len());
        for (name, value) in &request.env {
            if name.is_empty() || name.contains('=') {
                return Err(StartFailure {
                    stage: StartStage::Other,
                    errno: libc::EINVAL,
                    message: "an environment variable has an unusable name".to_owned(),
                });
            }
            env.push(
                CString::new([name.as_str(), "=", value.as_str()].concat())
                    .map_err(|_| nul("the environment"))?,
            );
        }
        Ok(Self {
            program: CString::new(program).map_err(|_| nul("the program's path"))?,
            cwd: CString::new(request.cwd.as_str()).map_err(|_| nul("the working directory"))?,
            argv,
            env,
        })
    }

    fn argv_pointers(&self) -> Vec<*const c_char> {
        pointers(&self.argv)
    }

    fn env_pointers(&self) -> Vec<*const c_char> {
        pointers(&self.env)
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let mut out: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
    out.push(std::ptr::null());
    out
}

/// The path to execute. A name is looked up in the child's own `PATH`, in absolute entries only; a path
/// is taken as it is. No other program is ever taken instead.
fn find_program(request: &StartRequest) -> Result<String, StartFailure> {
    let name = request.program.as_str();
    if name.is_empty() {
        return Err(refusal(StartStage::Program, libc::ENOENT, "no program was given".to_owned()));
    }
    if name.contains('/') {
        let path = Path::new(&request.cwd).join(name);
        return match check_program(&path) {
            Ok(()) => Ok(name.to_owned()),
            Err(error) => Err(failure(StartStage::Program, &error, &format!("cannot execute {name:?}"))),
        };
    }
    let search = request.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let mut denied = None;
    for entry in search.split(':').filter(|entry| entry.starts_with('/')) {
        let path = [entry, "/", name].concat();
        match check_program(Path::new(&path)) {
            Ok(()) => return Ok(path),
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => denied = Some((path, error)),
            Err(_) => {}
        }
    }
    match denied {
        Some((path, error)) => Err(failure(StartStage::Program, &error, &format!("cannot execute {path:?}"))),
        None => Err(refusal(
            StartStage::Program,
            libc::ENOENT,
            format!("program {name:?} was not found in the PATH of the child"),
        )),
    }
}

fn check_program(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(())
}

fn check_cwd(cwd: &str) -> Result<(), StartFailure> {
    if cwd.is_empty() {
        return Err(refusal(StartStage::Cwd, libc::ENOENT, "no working directory was given".to_owned()));
    }
    if !cwd.starts_with('/') {
        return Err(refusal(
            StartStage::Cwd,
            libc::EINVAL,
            format!("working directory {cwd:?} is not absolute"),
        ));
    }
    let what = format!("cannot enter the working directory {cwd:?}");
    let metadata = std::fs::metadata(cwd).map_err(|error| failure(StartStage::Cwd, &error, &what))?;
    if metadata.is_dir() {
        Ok(())
    } else {
        Err(failure(StartStage::Cwd, &io::Error::from_raw_os_error(libc::ENOTDIR), &what))
    }
}

fn explain(failed: &spawn::Failed, request: &StartRequest, program: &str) -> StartFailure {
    let what = match failed.stage {
        StartStage::Cwd => format!("cannot enter the working directory {:?}", request.cwd),
        StartStage::Exec if failed.error.kind() == io::ErrorKind::NotFound => {
            format!("cannot execute {program:?}: its interpreter is missing")
        }
        StartStage::Exec => format!("cannot execute {program:?}"),
        StartStage::Cgroup => "cannot enter the control group".to_owned(),
        _ => "cannot prepare the child".to_owned(),
    };
    failure(failed.stage, &failed.error, &what)
}

fn failure(stage: StartStage, error: &io::Error, what: &str) -> StartFailure {
    refusal(stage, sys::errno(error), format!("{what}: {error}"))
}

fn refusal(stage: StartStage, errno: i32, message: String) -> StartFailure {
    StartFailure { stage, errno, message }
}

fn resource_code(resource: Resource) -> libc::c_int {
    // The type of these constants differs between systems and C libraries.
    #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)]
    match resource {
        Resource::AddressSpace => libc::RLIMIT_AS as libc::c_int,
        Resource::Core => libc::RLIMIT_CORE as libc::c_int,
        Resource::Cpu => libc::RLIMIT_CPU as libc::c_int,
        Resource::FileSize => libc::RLIMIT_FSIZE as libc::c_int,
        Resource::OpenFiles => libc::RLIMIT_NOFILE as libc::c_int,
        Resource::Processes => libc::RLIMIT_NPROC as libc::c_int,
    }
}
