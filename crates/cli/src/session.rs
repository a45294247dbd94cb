//! What every command that talks to the daemon has: the client, who calls, and the console. It also finds a daemon
//! again that was replaced while something was waited for.

use std::time::{Duration, Instant};

use subagent_client::Client;
use subagent_model::{ErrorCode, Problem, Requester, SubagentId};
use subagent_runtime::{Caller, Runtime};

use crate::connect;
use crate::console::Console;
use crate::fail::Failure;
use crate::paths::Paths;

/// How often one call survives the loss of its daemon.
const LOSSES: u32 = 5;
/// How long a daemon that went down in order may take to be followed by the next one, as an upgrade does.
const SUCCESSION: Duration = Duration::from_secs(5);

/// A connection to the daemon on behalf of somebody.
pub(crate) struct Session<'a> {
    /// The daemon.
    pub(crate) client: Client,
    /// Who calls.
    pub(crate) caller: Caller,
    /// The subagent that calls, if one does: the parent of what it spawns.
    pub(crate) own_id: Option<String>,
    /// Where everything lies.
    pub(crate) paths: Paths,
    /// Where to write.
    pub(crate) console: &'a Console,
}

impl<'a> Session<'a> {
    /// With a daemon, started if need be.
    pub(crate) async fn open(console: &'a Console) -> Result<Self, Failure> {
        let paths = Paths::find()?;
        let own_id = own_id(&paths);
        let socket = connect::ensure(&paths, own_id.is_some()).await?;
        Ok(Self::at(socket, paths, own_id, console))
    }

    /// With the daemon that there is; `None` when there is none.
    pub(crate) async fn existing(console: &'a Console) -> Result<Option<Self>, Failure> {
        let paths = Paths::find()?;
        let own_id = own_id(&paths);
        let socket = connect::find(&paths).await?;
        Ok(socket.map(|socket| Self::at(socket, paths, own_id, console)))
    }

    fn at(socket: std::path::PathBuf, paths: Paths, own_id: Option<String>, console: &'a Console) -> Self {
        let requester = own_id.as_ref().map_or_else(
            || Requester(format!("user:{}", rustix::process::getuid().as_raw())),
            |id| Requester(format!("subagent:{id}")),
        );
        Self { client: Client::new(socket), caller: Caller { requester }, own_id, paths, console }
    }

    /// The ids of these names; nothing is done with any before all are known.
    pub(crate) async fn resolve(&self, names: &[String]) -> Result<Vec<SubagentId>, Failure> {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            let id = self.client.resolve(name).await?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// A call that may be made twice, over the loss of its daemon: one that crashed is started again, one that went down
    /// in order is waited for a little while, since an upgrade brings the next.
    pub(crate) async fn steadily<T>(
        &self,
        call: impl AsyncFn(&Client) -> Result<T, Problem>,
    ) -> Result<T, Failure> {
        let mut losses = 0;
        loop {
            match call(&self.client).await {
                Err(problem) if problem.code == ErrorCode::DaemonUnreachable && losses < LOSSES => {
                    losses += 1;
                    self.find_again(problem).await?;
                }
                other => return other.map_err(Failure::from),
            }
        }
    }

    async fn find_again(&self, problem: Problem) -> Result<(), Failure> {
        let socket = self.client.socket();
        let until = Instant::now() + SUCCESSION;
        // A daemon that goes down in order takes its socket along; one that crashed leaves it.
        while !socket.exists() {
            if Instant::now() >= until {
                return Err(Failure::new(ErrorCode::DaemonUnreachable, "the daemon was shut down meanwhile")
                    .because(problem.message)
                    .hint("Children run on. The same command again starts a daemon, which adopts them."));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        connect::ensure(&self.paths, self.own_id.is_some()).await?;
        Ok(())
    }
}

/// The subagent that this process is within, as far as it belongs to this daemon: within a test suite that has a home of
/// its own, the outer one's id means nothing.
fn own_id(paths: &Paths) -> Option<String> {
    let given = std::env::var_os("SUBAGENT_SOCKET").map(std::path::PathBuf::from)?;
    let id = std::env::var("SUBAGENT_ID").ok().filter(|id| !id.is_empty())?;
    (given == paths.socket).then_some(id)
}
