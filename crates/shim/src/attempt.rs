//! One attempt from its start to its exit record: output into the log, input into the child, deadlines,
//! and the ladder that ends the tree. It knows nothing of sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use subagent_core::frame::Kind;
use subagent_core::frame::control::{ControlFrame, StartRequest};
use subagent_model::process::{EXIT_RECORD_VERSION, ExitCause, ExitRecord, ProcessIdentity, ProcessUsage};

use super::clock::Awake;
use super::hearing::Heard;
use super::input::Input;
use super::limits::Limits;
use super::log::LogWriter;
use super::platform::{self, Cgroup};
use super::sys::{self, Reaped};

/// Longest time leftovers of a child that ended by itself get between SIGTERM and SIGKILL.
const LEFTOVER_GRACE_MS: u64 = 500;
/// Time to wait for the end of a stream that something outside the tree holds open.
const DRAIN_MS: u64 = 100;
/// Pause between two rounds of killing.
const ROUND_MS: u64 = 2;
/// Time the control group may lag behind the death of its last process before that counts as alive.
const GROUP_LAG_MS: u64 = 50;
/// Chunks read from one stream per turn, so that the other one and the controller get theirs.
const CHUNKS_PER_TURN: usize = 8;

/// The two graces of the ladder, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Graces {
    /// From SIGTERM to SIGKILL.
    pub(crate) term: u64,
    /// From SIGKILL to giving up.
    pub(crate) kill: u64,
}

/// How far the ladder went.
#[derive(Clone, Copy)]
enum Ladder {
    None,
    Term { kill_at: Awake, kill_grace: u64 },
    Kill { give_up_at: Awake, next_round: Awake },
    GaveUp,
}

struct ChildEnd {
    status: libc::c_int,
    usage: libc::rusage,
    at_micros: u64,
}

pub(crate) struct Attempt {
    key: String,
    dir: PathBuf,
    process: ProcessIdentity,
    started_at: u64,
    log: LogWriter,
    streams: [Option<OwnedFd>; 2],
    stream_bytes: [u64; 2],
    input: Option<Input>,
    graces: Graces,
    limits: Limits,
    ladder: Ladder,
    cause: ExitCause,
    child: Option<ChildEnd>,
    no_children: bool,
    group_lag_until: Option<Awake>,
    drain_until: Option<Awake>,
    leftovers: u32,
    leftovers_counted: bool,
    oom_before: Option<u64>,
}

impl Attempt {
    #[allow(clippy::too_many_arguments)] // made in one place, from parts that have no name together
    pub(crate) fn new(
        request: &StartRequest,
        process: ProcessIdentity,
        started_at: u64,
        mut log: LogWriter,
        streams: [OwnedFd; 2],
        input: Option<Input>,
        graces: Graces,
        oom_before: Option<u64>,
    ) -> Self {
        log.control(&ControlFrame::Started { attempt: request.attempt.clone(), process: process.clone() });
        Self {
            key: request.attempt.clone(),
            dir: PathBuf::from(&request.dir),
            process,
            started_at,
            log,
            streams: streams.map(Some),
            stream_bytes: [0; 2],
            input,
            graces,
            limits: Limits::new(request.deadline_ms, request.lease_ms, Awake::now()),
            ladder: Ladder::None,
            cause: ExitCause::Natural,
            child: None,
            no_children: false,
            group_lag_until: None,
            drain_until: None,
            leftovers: 0,
            leftovers_counted: false,
            oom_before,
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn dir(&self) -> &PathBuf {
        &self.dir
    }

    pub(crate) fn process(&self) -> &ProcessIdentity {
        &self.process
    }

    pub(crate) fn started_at(&self) -> u64 {
        self.started_at
    }

    pub(crate) fn log_end(&self) -> u64 {
        self.log.end()
    }

    pub(crate) fn log_mut(&mut self) -> &mut LogWriter {
        &mut self.log
    }

    /// Why the tree is being ended, if it is.
    pub(crate) fn ending(&self) -> Option<ExitCause> {
        (!matches!(self.ladder, Ladder::None)).then_some(self.cause)
    }

    pub(crate) fn stdin_pending(&self) -> u64 {
        self.input.as_ref().map_or(0, Input::pending)
    }

    /// Up to where output may go into the log now. What a child that is gone left in its pipes waits for nobody.
    pub(crate) fn room(&self, heard: Option<&Heard>, now: Awake) -> u64 {
        heard.filter(|_| self.child.is_none()).map_or(u64::MAX, |heard| heard.room(self.log.limit(), now))
    }

    /// Descriptors to watch: the two streams while there is room, and the input with the events to watch it for.
    pub(crate) fn watched(&self, room: u64) -> [Option<(RawFd, libc::c_short)>; 3] {
        let held = self.log.end() >= room;
        let [stdout, stderr] = [0, 1]
            .map(|at| self.streams[at].as_ref().filter(|_| !held).map(|fd| (fd.as_raw_fd(), libc::POLLIN)));
        let stdin = self.input.as_ref().and_then(|input| {
            let fd = input.pipe()?.as_raw_fd();
            // Without anything to write, only the loss of the reader is of interest (POLLERR).
            Some((fd, if input.waiting_pipe().is_some() { libc::POLLOUT } else { 0 }))
        });
        [stdout, stderr, stdin]
    }

    /// Reads what a stream (0: output, 1: errors) has, within the turn's share and while there is room.
    pub(crate) fn read_stream(&mut self, at: usize, room: u64, scratch: &mut [u8]) {
        let kind = if at == 0 { Kind::Stdout } else { Kind::Stderr };
        for _ in 0..CHUNKS_PER_TURN {
            if self.log.end() >= room {
                return;
            }
            let Some(fd) = &self.streams[at] else {
                return;
            };
            match sys::read(fd, scratch) {
                Ok(0) => self.stream_ended(at),
                Ok(count) => {
                    self.stream_bytes[at] += count as u64;
                    self.log.stream(kind, &scratch[..count]);
                    if count < scratch.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.streams[at] = None,
            }
        }
    }

    fn stream_ended(&mut self, at: usize) {
        self.streams[at] = None;
        // Of one that is spoken with nothing can come any more, though its exit may never come. One that exits may show it
        // by its pipes first: whoever reads this waits a moment.
        if at == 0 && self.input.is_some() && self.child.is_none() {
            self.log.control(&ControlFrame::StdoutClosed);
        }
    }

    /// A message of `len` bytes for the child begins; `None` if it takes no input at all, false if not any more.
    pub(crate) fn begin_input(&mut self, len: u64) -> Option<bool> {
        let input = self.input.as_mut()?;
        input.begin(len, &mut self.log);
        Some(input.is_open())
    }

    /// Whether input was taken once and is not any more.
    pub(crate) fn input_closed(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.is_open())
    }

    pub(crate) fn accept_input(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            input.accept(bytes, &mut self.log);
        }
    }

    /// Moves waiting input into the child, or notices that the child closed it.
    pub(crate) fn feed_input(&mut self, broken: bool, scratch: &mut [u8]) {
        if let Some(input) = &mut self.input {
            if broken {
                input.lost(&mut self.log);
            } else {
                input.feed(scratch, &mut self.log);
            }
        }
    }

    /// True once after the child closed its input.
    pub(crate) fn take_stdin_closed(&mut self) -> bool {
        self.input.as_mut().is_some_and(Input::take_closed_by_child)
    }

    pub(crate) fn close_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.close_when_fed(&mut self.log);
        }
    }

    pub(crate) fn renew(&mut self, after: u64) {
        self.limits.renew(after, Awake::now());
    }

    /// Signals the direct child, if it was not reaped yet.
    pub(crate) fn signal(&self, signo: libc::c_int) -> io::Result<()> {
        match self.child {
            Some(_) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            None => sys::signal_child(self.process.pid, signo),
        }
    }

    /// Begins the ladder, or shortens the graces of a ladder that has begun.
    pub(crate) fn end_tree(&mut self, cause: ExitCause, graces: Graces) {
        let now = Awake::now();
        let new_kill_at = now.after(graces.term);
        match &mut self.ladder {
            Ladder::None => self.begin_ladder(cause, graces, now),
            Ladder::Term { kill_at, kill_grace } => {
                *kill_at = new_kill_at.min(*kill_at);
                *kill_grace = graces.kill.min(*kill_grace);
            }
            Ladder::Kill { .. } | Ladder::GaveUp => {}
        }
    }

    fn begin_ladder(&mut self, cause: ExitCause, graces: Graces, now: Awake) {
        self.cause = cause;
        self.ladder = Ladder::Term { kill_at: now.after(graces.term), kill_grace: graces.kill };
        if cause != ExitCause::Natural {
            self.log.control(&ControlFrame::Ending { cause });
        }
        if let Some(input) = &mut self.input {
            input.close(&mut self.log);
        }
        if graces.term > 0 {
            // Stopped processes see the SIGTERM once they go on.
            platform::signal_tree(self.process.pid, &[libc::SIGTERM, libc::SIGCONT]);
        }
    }

    /// Takes note of a reaped child.
    pub(crate) fn reaped(&mut self, reaped: &Reaped) {
        if reaped.pid == self.process.pid && self.child.is_none() {
            self.child =
                Some(ChildEnd { status: reaped.status, usage: reaped.usage, at_micros: sys::now_micros() });
        }
    }

    /// Takes note of whether any child, hence any descendant, is left.
    pub(crate) fn children_left(&mut self, any: bool) {
        self.no_children = !any;
    }

    /// The next time this wants to be looked at.
    pub(crate) fn next_timer(&self) -> Option<Awake> {
        let ladder = match self.ladder {
            Ladder::None => self.limits.next(),
            Ladder::Term { kill_at, .. } => Some(kill_at),
            Ladder::Kill { give_up_at, next_round } => Some(next_round.min(give_up_at)),
            Ladder::GaveUp => Some(Awake::ZERO),
        };
        let lag = self.group_lag_until.map(|_| Awake::now().after(1));
        ladder.into_iter().chain(self.drain_until).chain(lag).min()
    }

    /// Does what is due and returns the record once the attempt is over.
    pub(crate) fn advance(&mut self, cgroup: Option<&Cgroup>) -> Option<ExitRecord> {
        let now = Awake::now();
        let gone = self.tree_gone(cgroup, now);
        if gone {
            return self.drained(now).then(|| self.finish(true, cgroup));
        }
        if self.child.is_some() && self.group_lag_until.is_none() {
            self.see_leftovers(now);
        }
        if matches!(self.ladder, Ladder::None)
            && let Some(cause) = self.limits.over(now)
        {
            self.begin_ladder(cause, self.graces, now);
        }
        if let Ladder::Term { kill_at, kill_grace } = self.ladder
            && kill_at <= now
        {
            self.ladder = Ladder::Kill { give_up_at: now.after(kill_grace.max(1)), next_round: now };
        }
        if let Ladder::Kill { give_up_at, next_round } = self.ladder {
            if give_up_at <= now {
                self.ladder = Ladder::GaveUp;
            } else if next_round <= now {
                kill(self.process.pid, cgroup);
                let next_round = Awake::now().after(ROUND_MS);
                self.ladder = Ladder::Kill { give_up_at, next_round };
            }
        }
        if matches!(self.ladder, Ladder::GaveUp) {
            return Some(self.finish(false, cgroup));
        }
        None
    }

    fn tree_gone(&mut self, cgroup: Option<&Cgroup>, now: Awake) -> bool {
        if self.child.is_none() || !self.no_children {
            return false;
        }
        if !cgroup.is_some_and(Cgroup::populated) {
            self.group_lag_until = None;
            return true;
        }
        // The kernel may update the group a moment after the last wait; later it is a real process.
        let until = *self.group_lag_until.get_or_insert(now.after(GROUP_LAG_MS));
        if until <= now && matches!(self.ladder, Ladder::None) {
            self.see_leftovers(now);
        }
        false
    }

    /// The direct child is gone and others are not: they are ended.
    fn see_leftovers(&mut self, now: Awake) {
        if !self.leftovers_counted {
            self.leftovers_counted = true;
            self.leftovers = u32::try_from(platform::count_tree()).unwrap_or(u32::MAX);
        }
        if matches!(self.ladder, Ladder::None) {
            let graces = Graces { term: self.graces.term.min(LEFTOVER_GRACE_MS), kill: self.graces.kill };
            self.begin_ladder(ExitCause::Natural, graces, now);
        }
    }

    fn drained(&mut self, now: Awake) -> bool {
        if self.streams.iter().all(Option::is_none) {
            return true;
        }
        *self.drain_until.get_or_insert(now.after(DRAIN_MS)) <= now
    }

    fn finish(&mut self, tree_gone: bool, cgroup: Option<&Cgroup>) -> ExitRecord {
        self.streams = [None, None];
        let (exit_code, signal, core_dumped) = self.child.as_ref().map_or((None, None, false), |child| {
            let status = child.status;
            (
                libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
                libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
                libc::WIFSIGNALED(status) && libc::WCOREDUMP(status),
            )
        });
        if let Some(input) = &mut self.input {
            input.close(&mut self.log);
        }
        let oom_after = cgroup.and_then(Cgroup::oom_kills);
        let record = ExitRecord {
            version: EXIT_RECORD_VERSION,
            attempt: self.key.clone(),
            process: Some(self.process.clone()),
            started_at_micros: self.started_at,
            ended_at_micros: self.child.as_ref().map_or_else(sys::now_micros, |child| child.at_micros),
            exit_code,
            signal,
            core_dumped,
            cause: self.cause,
            start_failure: None,
            stdout_bytes: self.stream_bytes[0],
            stderr_bytes: self.stream_bytes[1],
            dropped_bytes: self.log.dropped(),
            log_end: self.log.end(),
            leftover_killed: self.leftovers,
            tree_gone,
            log_error: self.log.error(),
            oom_killed: self.oom_before.zip(oom_after).map(|(before, after)| after > before),
            usage: self.child.as_ref().map_or_else(ProcessUsage::default, |child| usage(&child.usage)),
        };
        self.log.control(&ControlFrame::Exit { record: Box::new(record.clone()) });
        record
    }
}

/// One round of killing. The group's own kill is atomic; the walk reaches what left the group.
fn kill(leader: u32, cgroup: Option<&Cgroup>) {
    if let Some(cgroup) = cgroup {
        cgroup.kill();
    }
    platform::kill_round(leader);
}

fn usage(raw: &libc::rusage) -> ProcessUsage {
    let micros = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    // Kibibytes on Linux, bytes on macOS.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    ProcessUsage {
        max_rss_bytes: u64::try_from(raw.ru_maxrss).unwrap_or(0) * unit,
        user_micros: micros(raw.ru_utime),
        system_micros: micros(raw.ru_stime),
    }
}
