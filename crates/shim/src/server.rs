//! The shim's loop: one controlling connection, a listening socket for the next one, at most one attempt.
//! It decides when the shim is idle, when a record must be made durable, and when the shim ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use subagent_core::frame::control::{
    Event, PROTOCOL, Request, SPOOL_FILE, ShimState, ShimStatus, StartRequest,
};
use subagent_model::process::{
    EXIT_RECORD_VERSION, ExitCause, ExitRecord, ProcessIdentity, StartFailure, StartStage,
};

use super::attempt::{Attempt, Graces};
use super::clock::Awake;
use super::connection::{Connection, Piece};
use super::hearing::Heard;
use super::platform::{self, Cgroup};
use super::sys::{self, Wait};
use super::{launch, record};

/// Descriptor of the connection the shim was started with.
const CONTROL_FD: i32 = 3;
/// Bytes moved at once between descriptors.
const SCRATCH: usize = 32 * 1024;
/// Connections that have not said hello yet, at most.
const MAX_WAITING: usize = 4;
/// Time a connection has to say hello.
const HELLO_MS: u64 = 2_000;
/// Time between attempts to write a record that could not be written, and how many there are.
const RECORD_RETRY_MS: u64 = 1_000;
const RECORD_RETRIES: u32 = 600;
/// Descriptors watched at most: listener, controller, waiting connections, three of the child.
const MAX_FDS: usize = 2 + MAX_WAITING + 3;

/// An attempt that is over and not yet released.
struct Ended {
    record: ExitRecord,
    dir: PathBuf,
    written: bool,
    durable: bool,
    retry_at: Awake,
    retries: u32,
}

struct Server {
    listener: UnixListener,
    socket: PathBuf,
    socket_id: Option<(u64, u64)>,
    controller: Option<Connection>,
    waiting: Vec<Connection>,
    attempt: Option<Attempt>,
    ended: Option<Ended>,
    cgroup: Option<Cgroup>,
    null: File,
    identity: ProcessIdentity,
    served: u64,
    retire: bool,
}

/// Serves attempts until nobody needs this shim any more.
pub(crate) fn run(socket: &Path, cgroup: Option<PathBuf>) -> io::Result<()> {
    let socket = &std::path::absolute(socket)?;
    sys::quiet_signals();
    sys::new_session();
    platform::become_subreaper()?;
    // SAFETY: nothing in this process has touched descriptor 3; it is the caller's gift by contract.
    #[allow(unsafe_code)]
    let control: UnixStream = unsafe { sys::take_inherited(CONTROL_FD) }?;
    close_from(CONTROL_FD + 1);
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let cgroup = cgroup.map(|path| Cgroup::open(&path)).transpose()?;
    let listener = sys::with_private_umask(|| UnixListener::bind(socket))?;
    listener.set_nonblocking(true)?;
    // A shim may live long and must not hold a directory of somebody's.
    std::env::set_current_dir("/")?;
    let pid = std::process::id();
    let mut server = Server {
        socket_id: file_id(socket),
        socket: socket.to_owned(),
        listener,
        controller: Some(Connection::new(control, Awake::now())?),
        waiting: Vec::new(),
        attempt: None,
        ended: None,
        cgroup,
        null,
        identity: ProcessIdentity {
            pid,
            start_time: platform::start_time(pid),
            boot_id: platform::boot_id(),
        },
        served: 0,
        retire: false,
    };
    let result = server.serve();
    server.remove_socket();
    result
}

fn close_from(first: i32) {
    // Inherited descriptors are few and the limit may be huge: where they cannot be closed in one call,
    // the ones anybody would have are.
    #[allow(unsafe_code)]
    // SAFETY: nothing of ours lies above the control descriptor yet.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        for fd in first..1024 {
            libc::close(fd);
        }
    }
}

fn file_id(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Server {
    fn serve(&mut self) -> io::Result<()> {
        let mut scratch = vec![0; SCRATCH];
        while !self.is_done() {
            self.turn(&mut scratch)?;
        }
        Ok(())
    }

    /// Whether the shim may end: nobody connected or asked to retire, and nothing it still owes.
    fn is_done(&mut self) -> bool {
        if self.attempt.is_some() || !self.waiting.is_empty() {
            return false;
        }
        let alone = self.controller.is_none();
        match &self.ended {
            Some(ended) => alone && (ended.durable || ended.retries >= RECORD_RETRIES) && !self.accept(),
            None => self.retire || (alone && !self.accept()),
        }
    }

    fn turn(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        let mut fds = [libc::pollfd { fd: -1, events: 0, revents: 0 }; MAX_FDS];
        fds[0] = watch(self.listener.as_raw_fd(), libc::POLLIN);
        if let Some(controller) = &self.controller {
            fds[1] = watch_connection(controller);
        }
        for (slot, waiting) in fds[2..2 + MAX_WAITING].iter_mut().zip(&self.waiting) {
            *slot = watch_connection(waiting);
        }
        if let Some(attempt) = &self.attempt {
            let room = attempt.room(self.heard(), Awake::now());
            for (slot, watched) in fds[2 + MAX_WAITING..].iter_mut().zip(attempt.watched(room)) {
                if let Some((fd, events)) = watched {
                    *slot = watch(fd, events);
                }
            }
        }
        let waiting = self.waiting.len();
        platform::wait_ready(&mut fds, self.timeout())?;

        self.serve_attempt(&fds[2 + MAX_WAITING..], scratch);
        if fds[1].revents != 0 {
            self.serve_controller(fds[1].revents, scratch);
        }
        let mut ready = [false; MAX_WAITING];
        for (ready, slot) in ready.iter_mut().zip(&fds[2..2 + waiting]) {
            *ready = slot.revents != 0;
        }
        self.serve_waiting(ready, scratch);
        if fds[0].revents != 0 {
            self.accept();
        }
        self.advance();
        self.settle_record();
        self.announce();
        Ok(())
    }

    fn timeout(&self) -> Option<u64> {
        let hello = self.waiting.iter().map(|connection| connection.since.after(HELLO_MS)).min();
        let retry = self
            .ended
            .as_ref()
            .filter(|ended| !ended.durable && self.controller.is_none())
            .map(|ended| ended.retry_at);
        let now = Awake::now();
        let attempt = self.attempt.as_ref().and_then(Attempt::next_timer);
        let held = self.attempt.as_ref().zip(self.heard());
        let held = held.filter(|(attempt, heard)| attempt.log_end() >= attempt.room(Some(heard), now));
        let lets_go = held.map(|(_, heard)| heard.lets_go_at());
        let next = hello.into_iter().chain(retry).chain(attempt).chain(lets_go).min()?;
        // One more, since the clock's fraction of a millisecond is cut off.
        Some(match now.until(next) {
            0 => 0,
            left => left + 1,
        })
    }

    /// How far the controller has read, if it must hear all.
    fn heard(&self) -> Option<&Heard> {
        self.controller.as_ref().and_then(|controller| controller.heard.as_ref())
    }

    fn serve_attempt(&mut self, fds: &[libc::pollfd], scratch: &mut [u8]) {
        let heard = self.heard().copied();
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        // Wait first: what a child wrote before its end is in the pipes by then.
        loop {
            match sys::wait_any() {
                Wait::Reaped(reaped) => attempt.reaped(&reaped),
                Wait::Running => {
                    attempt.children_left(true);
                    break;
                }
                Wait::None => {
                    attempt.children_left(false);
                    break;
                }
            }
        }
        let room = attempt.room(heard.as_ref(), Awake::now());
        for (at, fd) in fds.iter().take(2).enumerate() {
            if fd.revents != 0 {
                attempt.read_stream(at, room, scratch);
            }
        }
        if fds[2].revents != 0 {
            attempt.feed_input(fds[2].revents & libc::POLLERR != 0, scratch);
        }
    }

    fn serve_controller(&mut self, revents: libc::c_short, scratch: &mut [u8]) {
        let Some(mut controller) = self.controller.take() else {
            return;
        };
        if revents & libc::POLLOUT != 0 {
            controller.flush();
        }
        if revents & !libc::POLLOUT != 0 {
            let count = controller.receive(scratch);
            self.take_pieces(&mut controller, &scratch[..count]);
        }
        if !controller.is_dead() {
            self.controller = Some(controller);
        }
    }

    fn serve_waiting(&mut self, ready: [bool; MAX_WAITING], scratch: &mut [u8]) {
        if self.waiting.is_empty() {
            return;
        }
        let now = Awake::now();
        let mut kept = Vec::new();
        for (at, mut connection) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            let count = if ready.get(at) == Some(&true) { connection.receive(scratch) } else { 0 };
            let mut position = 0;
            let first = connection.next_piece(&scratch[..count], &mut position);
            match first {
                Some(Piece::Line(line)) => {
                    if self.greet(&mut connection, &line) {
                        self.take_pieces(&mut connection, &scratch[position..count]);
                        if !connection.is_dead() {
                            // The newest conversation is the one that counts.
                            self.controller = Some(connection);
                        }
                    }
                }
                _ if connection.is_dead() || connection.since.after(HELLO_MS) <= now => {}
                _ => kept.push(connection),
            }
        }
        self.waiting = kept;
    }

    /// Accepts one connection; false if there is none.
    fn accept(&mut self) -> bool {
        let Ok((stream, _)) = self.listener.accept() else {
            return false;
        };
        let Ok(connection) = Connection::new(stream, Awake::now()) else {
            return true;
        };
        if self.waiting.len() == MAX_WAITING {
            self.waiting.remove(0);
        }
        self.waiting.push(connection);
        true
    }

    fn greet(&mut self, connection: &mut Connection, line: &[u8]) -> bool {
        match serde_json::from_slice(line) {
            Ok(Request::Hello { protocol }) if protocol == PROTOCOL => {
                self.hello(connection);
                true
            }
            Ok(Request::Hello { protocol }) => {
                refuse(
                    connection,
                    "hello",
                    format!("protocol {protocol} is not spoken here, only {PROTOCOL}"),
                );
                false
            }
            _ => false,
        }
    }

    fn hello(&self, connection: &mut Connection) {
        let status = self.status();
        connection.announced = status.log_end;
        connection.send(&Event::Hello {
            protocol: PROTOCOL,
            shim: self.identity.clone(),
            status: Box::new(status),
        });
        // Told once when it happened, maybe to somebody else.
        self.tell_closed_input(connection);
    }

    fn tell_closed_input(&self, connection: &mut Connection) {
        if let Some(attempt) = self.attempt.as_ref().filter(|attempt| attempt.input_closed()) {
            connection.send(&Event::StdinClosed { attempt: attempt.key().to_owned() });
        }
    }

    fn take_pieces(&mut self, connection: &mut Connection, bytes: &[u8]) {
        let mut at = 0;
        while let Some(piece) = connection.next_piece(bytes, &mut at) {
            match piece {
                Piece::Raw(range) => {
                    if let Some(attempt) = &mut self.attempt {
                        attempt.accept_input(&bytes[range]);
                    }
                }
                Piece::Line(line) => match serde_json::from_slice(&line) {
                    Ok(request) => self.request(connection, request),
                    Err(error) => refuse(connection, "", format!("unreadable request: {error}")),
                },
            }
        }
    }

    fn request(&mut self, connection: &mut Connection, request: Request) {
        match request {
            Request::Hello { protocol } if protocol == PROTOCOL => self.hello(connection),
            Request::Hello { protocol } => {
                refuse(
                    connection,
                    "hello",
                    format!("protocol {protocol} is not spoken here, only {PROTOCOL}"),
                );
            }
            Request::Start(start) => self.start(connection, &start),
            Request::Stdin { len } => {
                connection.expect_raw(len);
                match self.attempt.as_mut().and_then(|attempt| attempt.begin_input(len)) {
                    Some(true) => {}
                    Some(false) => self.tell_closed_input(connection),
                    None => refuse(connection, "stdin", "no child takes input".to_owned()),
                }
            }
            Request::CloseStdin => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.close_input();
                }
            }
            Request::Stop { term_grace_ms, kill_grace_ms } => {
                if let Some(attempt) = &mut self.attempt {
                    let graces = Graces { term: term_grace_ms, kill: kill_grace_ms };
                    attempt.end_tree(ExitCause::Stopped, graces);
                }
            }
            Request::Signal { signo } => {
                let result = self
                    .attempt
                    .as_ref()
                    .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
                    .and_then(|attempt| attempt.signal(signo));
                if let Err(error) = result {
                    refuse(connection, "signal", error.to_string());
                }
            }
            Request::Renew { lease_ms } => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.renew(lease_ms);
                }
            }
            Request::Heard { position } => connection.heard = Some(Heard::until(position, Awake::now())),
            Request::Status => connection.send(&Event::Status { status: Box::new(self.status()) }),
            Request::Release { attempt } => {
                if self.ended.as_ref().is_some_and(|ended| ended.record.attempt == attempt) {
                    let ended = self.ended.take();
                    // With processes left that nothing could kill, the next attempt must not come here.
                    self.retire |= ended.is_some_and(|ended| !ended.record.tree_gone);
                } else {
                    refuse(connection, "release", "this attempt is not over here".to_owned());
                }
            }
            Request::Retire => self.retire = true,
            Request::Unknown => refuse(connection, "", "unknown request".to_owned()),
        }
    }

    fn start(&mut self, connection: &mut Connection, request: &StartRequest) {
        let failure = if self.attempt.is_some() || self.ended.is_some() {
            Some(StartFailure {
                stage: StartStage::Other,
                errno: libc::EBUSY,
                message: "this shim still holds another attempt".to_owned(),
            })
        } else if self.retire {
            Some(StartFailure {
                stage: StartStage::Other,
                errno: libc::ESHUTDOWN,
                message: "this shim is about to end".to_owned(),
            })
        } else {
            match launch::start(request, self.cgroup.as_ref(), &self.identity.boot_id, &self.null) {
                Ok(attempt) => {
                    self.served += 1;
                    connection.announced = attempt.log_end();
                    connection.heard = request.heard.then(|| Heard::until(0, Awake::now()));
                    connection.send(&Event::Started {
                        attempt: request.attempt.clone(),
                        process: attempt.process().clone(),
                        started_at_micros: attempt.started_at(),
                    });
                    self.attempt = Some(attempt);
                    None
                }
                Err(failure) => Some(failure),
            }
        };
        if let Some(failure) = failure {
            // A child that failed to exec is a zombie now.
            if self.attempt.is_none() {
                while matches!(sys::wait_any(), Wait::Reaped(_)) {}
            }
            let event = Event::StartFailed { attempt: request.attempt.clone(), failure: failure.clone() };
            connection.send(&event);
            leave_start_failure(request, &failure);
        }
    }

    fn status(&self) -> ShimStatus {
        let mut status = ShimStatus {
            served: self.served,
            cgroup: self.cgroup.as_ref().map(|cgroup| cgroup.path().to_string_lossy().into_owned()),
            ..ShimStatus::default()
        };
        if let Some(attempt) = &self.attempt {
            status.state = ShimState::Running;
            status.attempt = Some(attempt.key().to_owned());
            status.dir = Some(attempt.dir().to_string_lossy().into_owned());
            status.process = Some(attempt.process().clone());
            status.started_at_micros = attempt.started_at();
            status.log_end = attempt.log_end();
            status.ending = attempt.ending();
            status.stdin_pending = attempt.stdin_pending();
        } else if let Some(ended) = &self.ended {
            status.state = ShimState::Exited;
            status.attempt = Some(ended.record.attempt.clone());
            status.dir = Some(ended.dir.to_string_lossy().into_owned());
            status.process.clone_from(&ended.record.process);
            status.started_at_micros = ended.record.started_at_micros;
            status.log_end = ended.record.log_end;
            status.record = Some(Box::new(ended.record.clone()));
        }
        status
    }

    fn advance(&mut self) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        if attempt.take_stdin_closed()
            && let Some(controller) = &mut self.controller
        {
            controller.send(&Event::StdinClosed { attempt: attempt.key().to_owned() });
        }
        let Some(exit) = attempt.advance(self.cgroup.as_ref()) else {
            return;
        };
        let dir = attempt.dir().clone();
        // With somebody connected who takes the event, the copy at the end of the log is enough: making
        // one more file can cost more than everything else together. `settle_record` makes it as soon as
        // the connection goes away before the release.
        if let Some(controller) = &mut self.controller {
            controller.send(&Event::Exited { attempt: exit.attempt.clone(), record: Box::new(exit.clone()) });
        } else {
            attempt.log_mut().sync();
        }
        let mut written = false;
        if attempt.log_mut().error().is_some() {
            // The log may lack its copy. Most likely the disk is full: the input's spool and old output are
            // worth less than the record.
            written = record::write(&dir, &exit).is_ok();
            if !written {
                attempt.log_mut().free_space();
                let _ = std::fs::remove_file(dir.join(SPOOL_FILE));
                written = record::write(&dir, &exit).is_ok();
            }
        }
        self.attempt = None;
        self.ended =
            Some(Ended { record: exit, dir, written, durable: false, retry_at: Awake::ZERO, retries: 0 });
    }

    /// With nobody connected, the record on disk is the only witness: it must be written and durable.
    fn settle_record(&mut self) {
        if self.controller.as_ref().is_some_and(Connection::is_dead) {
            self.controller = None;
        }
        if self.controller.is_some() {
            return;
        }
        let Some(ended) = &mut self.ended else {
            return;
        };
        let now = Awake::now();
        if ended.durable || ended.retry_at > now {
            return;
        }
        let mut result = Ok(());
        if !ended.written {
            result = record::write(&ended.dir, &ended.record);
            ended.written = result.is_ok();
        }
        if ended.written {
            result = record::make_durable(&ended.dir);
            ended.durable = result.is_ok();
        }
        if result.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // Whoever removed the attempt's directory wants no record of it.
            ended.retries = RECORD_RETRIES;
        }
        ended.retries += 1;
        ended.retry_at = now.after(RECORD_RETRY_MS);
    }

    /// Tells the controller how far the log went, unless it still has something to read.
    fn announce(&mut self) {
        if let (Some(attempt), Some(controller)) = (&self.attempt, &mut self.controller) {
            let end = attempt.log_end();
            if end != controller.announced && !controller.has_unsent() {
                controller.announced = end;
                controller.send(&Event::Grew { end });
            }
        }
    }

    /// Removes the listening socket if it is still the one this shim made.
    fn remove_socket(&self) {
        if self.socket_id.is_some() && file_id(&self.socket) == self.socket_id {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

fn watch(fd: i32, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

fn watch_connection(connection: &Connection) -> libc::pollfd {
    let out = if connection.has_unsent() { libc::POLLOUT } else { 0 };
    watch(connection.stream().as_raw_fd(), libc::POLLIN | out)
}

fn refuse(connection: &mut Connection, request: &str, reason: String) {
    connection.send(&Event::Refused { request: request.to_owned(), reason });
}

/// A failed start leaves a record too, for a daemon that dies before it reads the event. One that failed
/// because the attempt ran before must not touch what that run left.
fn leave_start_failure(request: &StartRequest, failure: &StartFailure) {
    let dir = Path::new(&request.dir);
    let unrelated = matches!(failure.errno, libc::EEXIST | libc::EBUSY | libc::ESHUTDOWN);
    if unrelated || !dir.is_absolute() || std::fs::create_dir_all(dir).is_err() {
        return;
    }
    let exit = ExitRecord {
        version: EXIT_RECORD_VERSION,
        attempt: request.attempt.clone(),
        cause: ExitCause::StartFailed,
        start_failure: Some(failure.clone()),
        ended_at_micros: sys::now_micros(),
        tree_gone: true,
        ..ExitRecord::default()
    };
    // The event tells the same; the record is a second copy.
    let _ = record::write(dir, &exit);
}
