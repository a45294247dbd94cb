//! The handle of one shim. Cheap to clone; when the last clone is dropped the connection closes, and the
//! shim goes on with its attempt until it is adopted or done.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_core::frame::control::{PROTOCOL, Request, ShimState, ShimStatus};
use subagent_model::process::{ExitCause, ExitRecord, ProcessIdentity, StartFailure};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::ANSWER;
use super::connection::{Connection, State};
use super::held;
use super::job::{Graces, StartJob, millis};
use crate::cgroup::Cgroup;

/// Input goes to the shim in pieces of this size; each arrives whole or not at all.
const INPUT_CHUNK: usize = 1024 * 1024;

/// A child that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The direct child.
    pub process: ProcessIdentity,
    /// When it was started, in microseconds since the epoch.
    pub started_at_micros: u64,
}

/// Why a request to a shim came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// The shim is gone or the connection was taken over by another daemon.
    #[error("the connection to the shim is lost")]
    Lost,
    /// The shim did not answer in time.
    #[error("the shim did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The child closed its input; what was written is discarded.
    #[error("the child closed its input")]
    StdinClosed,
    /// The request could not be sent.
    #[error("cannot send to the shim")]
    Io(#[source] io::Error),
    /// The shim speaks another protocol, or the request makes no sense now.
    #[error("refused: {0}")]
    Refused(String),
}

impl From<io::Error> for ShimError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
                Self::Lost
            }
            _ => Self::Io(error),
        }
    }
}

/// Why a child was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The shim still holds an attempt that was not released. Nothing was sent.
    #[error("this shim still holds an attempt")]
    Busy,
    /// The shim tried and could not; nothing runs and the shim is idle.
    #[error("start failed ({}): {}", .0.stage.as_str(), .0.message)]
    Failed(StartFailure),
    /// The shim was lost or did not answer: it is not known whether something runs. The attempt's
    /// directory and [`crate::leftovers`] tell.
    #[error("it is not known whether the child was started")]
    Unknown(#[source] ShimError),
}

/// How waiting for an exit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitWait {
    /// The attempt is over.
    Exited(Arc<ExitRecord>),
    /// The connection to the shim is over before the exit came: the shim died, or another daemon took
    /// over. If it died, its direct child was killed with it; see [`crate::leftovers::kill_leftovers`].
    ShimLost,
}

#[derive(Debug)]
struct Inner {
    connection: Arc<Connection>,
    task: AbortHandle,
    identity: ProcessIdentity,
    socket: PathBuf,
    cgroup: Option<PathBuf>,
    attempt: Mutex<Option<String>>,
    served: std::sync::atomic::AtomicU64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        held::leave(&self.socket, &self.connection);
        self.task.abort();
    }
}

/// One shim.
#[derive(Clone, Debug)]
pub struct Shim {
    inner: Arc<Inner>,
}

impl Shim {
    /// Says hello on a fresh connection and waits for the answer.
    pub(super) async fn greet(
        stream: UnixStream,
        socket: PathBuf,
        limit: Duration,
    ) -> Result<(Self, Arc<ShimStatus>), ShimError> {
        let (connection, run) = Connection::new(stream);
        let task = tokio::spawn(run).abort_handle();
        let guard = AbortOnDrop(Some(task));
        connection.send(&Request::Hello { protocol: PROTOCOL }, &[])?;
        let answer =
            wait(&connection, limit, |state| state.hello.is_some() || state.refused.is_some()).await?;
        let Some((identity, status)) = answer.hello else {
            return Err(ShimError::Refused(answer.refused.map(|(_, reason)| reason).unwrap_or_default()));
        };
        held::enter(&socket, &connection);
        let inner = Inner {
            task: guard.keep().ok_or(ShimError::Lost)?,
            identity,
            socket,
            cgroup: status.cgroup.as_ref().map(PathBuf::from),
            attempt: Mutex::new(status.attempt.clone()),
            served: status.served.into(),
            connection,
        };
        Ok((Self { inner: Arc::new(inner) }, status))
    }

    /// The shim process itself.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.inner.identity
    }

    /// Its listening socket.
    pub fn socket(&self) -> &Path {
        &self.inner.socket
    }

    /// Directory of its control group, if it has one; needed to end leftovers after its death.
    pub fn cgroup(&self) -> Option<&Path> {
        self.inner.cgroup.as_deref()
    }

    /// Key of the attempt it holds.
    pub fn attempt(&self) -> Option<String> {
        self.inner.attempt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Attempts it has served, the current one included.
    pub fn served(&self) -> u64 {
        self.inner.served.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether the connection is over.
    pub fn is_lost(&self) -> bool {
        self.inner.connection.is_lost()
    }

    /// Starts a child and waits until it has been exec'd or refused. A future that is dropped does not
    /// take the start back.
    pub async fn start(&self, job: StartJob) -> Result<Started, StartError> {
        let connection = &self.inner.connection;
        let request = job.into_request();
        let key = request.attempt.clone();
        {
            let mut held = self.inner.attempt.lock().unwrap_or_else(PoisonError::into_inner);
            if held.is_some() {
                return Err(StartError::Busy);
            }
            *held = Some(key.clone());
        }
        connection.state.send_modify(|state| {
            state.started = None;
            state.record = None;
            state.stdin_closed = None;
        });
        connection.log_end.send_replace(0);
        connection
            .send(&Request::Start(Box::new(request)), &[])
            .map_err(|error| StartError::Unknown(error.into()))?;
        let state = wait(connection, ANSWER, |state| {
            state.started.as_ref().is_some_and(|(attempt, _)| *attempt == key)
        })
        .await
        .map_err(StartError::Unknown)?;
        match state.started {
            Some((_, Ok(started))) => {
                self.inner.served.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(started)
            }
            Some((_, Err(failure))) => {
                *self.inner.attempt.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(StartError::Failed(failure))
            }
            None => Err(StartError::Unknown(ShimError::Lost)),
        }
    }

    /// The child that was started over this handle or found by a survey.
    pub fn started(&self) -> Option<Started> {
        self.inner.connection.state.borrow().started.as_ref()?.1.as_ref().ok().cloned()
    }

    /// Waits for the end of the attempt. May be called any number of times, at the same time and late.
    /// By then the log ends with the record, and [`crate::exit_record::read`] finds it.
    pub async fn exit(&self) -> ExitWait {
        let mut watched = self.inner.connection.state.subscribe();
        let state = watched.wait_for(|state| state.record.is_some() || state.lost).await;
        match state.ok().and_then(|state| state.record.clone()) {
            Some(record) => ExitWait::Exited(record),
            None => ExitWait::ShimLost,
        }
    }

    /// Logical end of the attempt's log, as it grows. Bytes are read with [`crate::log::FrameLog`].
    pub fn log_end(&self) -> watch::Receiver<u64> {
        self.inner.connection.log_end.subscribe()
    }

    /// Asks for the end of the whole tree and returns at once; [`exit`](Self::exit) tells when it is
    /// gone. A second call never restarts the graces, it may only shorten them.
    pub fn stop(&self, graces: Graces) -> Result<(), ShimError> {
        let request =
            Request::Stop { term_grace_ms: millis(graces.term), kill_grace_ms: millis(graces.kill) };
        Ok(self.inner.connection.send(&request, &[])?)
    }

    /// Sends a signal to the direct child only.
    pub fn signal(&self, signo: i32) -> Result<(), ShimError> {
        Ok(self.inner.connection.send(&Request::Signal { signo }, &[])?)
    }

    /// Gives bytes to the child's input (pipe mode). Returns once the shim's socket takes more; a child
    /// that does not read delays nobody. Up to 1 MiB arrive whole or not at all, whatever dies; of more, a
    /// beginning may. What arrived is in the log, see [`crate::conversation`]: a return says only that the
    /// bytes are on their way.
    pub async fn write_stdin(&self, bytes: &[u8]) -> Result<(), ShimError> {
        let connection = &self.inner.connection;
        for chunk in bytes.chunks(INPUT_CHUNK) {
            timeout(ANSWER, connection.ready_for_more()).await.map_err(|_| ShimError::Timeout(ANSWER))??;
            if self.is_stdin_closed() {
                return Err(ShimError::StdinClosed);
            }
            connection.send(&Request::Stdin { len: chunk.len() as u64 }, chunk)?;
        }
        Ok(())
    }

    /// Whether input of the attempt is known to reach nobody any more. Where the shim was adopted, it is known a
    /// moment after the hello.
    pub fn is_stdin_closed(&self) -> bool {
        let state = self.inner.connection.state.borrow();
        state.record.is_some() || (state.stdin_closed.is_some() && state.stdin_closed == self.attempt())
    }

    /// Closes the child's input once everything written was taken.
    pub fn close_stdin(&self) -> Result<(), ShimError> {
        Ok(self.inner.connection.send(&Request::CloseStdin, &[])?)
    }

    /// Lets the lease run out `lease` from now.
    pub fn renew(&self, lease: Duration) -> Result<(), ShimError> {
        Ok(self.inner.connection.send(&Request::Renew { lease_ms: millis(lease) }, &[])?)
    }

    /// Says that everything before `position` was read out of the log by somebody who must hear all of it. Output
    /// that would push unread output out of the bounded log waits in the child's pipe then, as long as
    /// marks come: about ten seconds without one, or a lost connection, and the child goes on.
    pub fn heard(&self, position: u64) -> Result<(), ShimError> {
        Ok(self.inner.connection.send(&Request::Heard { position }, &[])?)
    }

    /// The shim's state.
    pub async fn status(&self) -> Result<Arc<ShimStatus>, ShimError> {
        let connection = &self.inner.connection;
        let before = connection.state.borrow().status.as_ref().map(|(number, _)| *number);
        connection.send(&Request::Status, &[])?;
        let state =
            wait(connection, ANSWER, |state| state.status.as_ref().map(|(number, _)| *number) > before)
                .await?;
        state.status.map(|(_, status)| status).ok_or(ShimError::Lost)
    }

    /// Says that the exit was recorded: the shim is idle again and takes another start. Nothing is
    /// waited for; requests are carried out in order. Before the exit this is refused.
    pub fn release(&self) -> Result<(), ShimError> {
        if self.attempt().is_some() && self.inner.connection.state.borrow().record.is_none() {
            return Err(ShimError::Refused("the attempt is not over".to_owned()));
        }
        let Some(attempt) = self.inner.attempt.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        Ok(self.inner.connection.send(&Request::Release { attempt }, &[])?)
    }

    /// Asks the shim to end as soon as it is idle.
    pub fn retire(&self) -> Result<(), ShimError> {
        Ok(self.inner.connection.send(&Request::Retire, &[])?)
    }

    /// Waits, up to `limit`, until the shim is gone.
    pub async fn lost(&self, limit: Duration) -> bool {
        let mut watched = self.inner.connection.state.subscribe();
        timeout(limit, watched.wait_for(|state| state.lost)).await.is_ok()
    }

    /// Whether it can take another start: connected, without an attempt, and its last tree went by itself.
    ///
    /// A group that was killed once is never used again: the kernel compares its count of kills with that of the
    /// *shim's* group when a child is cloned into it, and kills every later child at birth (seen on Linux 6.18).
    pub(super) fn is_reusable(&self) -> bool {
        let state = self.inner.connection.state.borrow();
        !state.lost
            && self.attempt().is_none()
            && state.record.as_ref().is_none_or(|record| {
                let by_itself = record.cause == ExitCause::Natural && record.leftover_killed == 0;
                record.tree_gone && (by_itself || self.inner.cgroup.is_none())
            })
            && state.hello.as_ref().is_some_and(|(_, status)| status.state != ShimState::Unknown)
    }

    /// Removes the control group when the shim has gone; called by whoever launched or adopted it.
    pub(super) fn remove_group_when_lost(&self) {
        let Some(path) = self.inner.cgroup.clone() else {
            return;
        };
        let mut watched = self.inner.connection.state.subscribe();
        let identity = self.inner.identity.clone();
        tokio::spawn(async move {
            // An error means that the last handle was dropped: the connection is over as well.
            let _ = watched.wait_for(|state| state.lost).await;
            drop(watched);
            for _ in 0..100 {
                if !crate::is_alive(&identity) {
                    // Populated means leftovers: those are ended by `kill_leftovers`, which removes it.
                    let _ = Cgroup::from_path(path).remove();
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
}

struct AbortOnDrop(Option<AbortHandle>);

impl AbortOnDrop {
    fn keep(mut self) -> Option<AbortHandle> {
        self.0.take()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// Waits for a state, for the loss of the shim, or for the limit.
async fn wait(
    connection: &Connection,
    limit: Duration,
    wanted: impl Fn(&State) -> bool,
) -> Result<State, ShimError> {
    let mut watched = connection.state.subscribe();
    let state = timeout(limit, watched.wait_for(|state| state.lost || wanted(state)))
        .await
        .map_err(|_| ShimError::Timeout(limit))?
        .map_err(|_| ShimError::Lost)?
        .clone();
    if wanted(&state) { Ok(state) } else { Err(ShimError::Lost) }
}
