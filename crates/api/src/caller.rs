//! Who calls, and whom the request names.
//!
//! A process that belongs to a subagent is that subagent, whatever its header says: a child that clears its environment
//! is still nested. For all others the header counts, and without one the user at the other end of the socket.

use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use subagent_model::request::SpawnRequest;
use subagent_model::{Requester, SubagentId};
use subagent_runtime::{Caller, Runtime};

use crate::REQUESTER_HEADER;
use crate::answer::{Answer, Refused};
use crate::handlers::Shared;

/// Names under which the runtime itself speaks.
const RESERVED: [&str; 3] = ["runtime", "policy", "daemon"];
/// Longest name of a requester.
const LONGEST: usize = 256;

/// The other end of a connection, as the kernel names it.
#[derive(Debug)]
pub(crate) struct Peer {
    uid: u32,
    pid: Option<u32>,
    /// Looked up with the first request: accepting waits for nobody.
    subagent: OnceLock<SubagentId>,
}

impl Peer {
    pub(crate) fn new(uid: u32, pid: Option<u32>) -> Self {
        Self { uid, pid, subagent: OnceLock::new() }
    }

    fn subagent(&self, runtime: &dyn Runtime) -> Option<SubagentId> {
        // Only a yes is kept: a child may be known a moment after it called first.
        if let Some(known) = self.subagent.get() {
            return Some(*known);
        }
        let found = runtime.subagent_of_process(self.pid?)?;
        Some(*self.subagent.get_or_init(|| found))
    }
}

/// The caller of a request.
pub(crate) struct From {
    pub(crate) caller: Caller,
    /// The subagent that it is known to be, not only says to be.
    own: Option<SubagentId>,
}

impl FromRequestParts<Arc<Shared>> for From {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<Shared>) -> Result<Self, Refused> {
        let peer = parts.extensions.get::<Arc<Peer>>();
        let own = peer.and_then(|peer| peer.subagent(&*app.runtime));
        let requester = match (own, named(&parts.headers)?, peer) {
            (Some(own), _, _) => Requester::subagent(own),
            (None, Some(name), _) => Requester::from(name),
            (None, None, Some(peer)) => Requester(format!("user:{}", peer.uid)),
            (None, None, None) => Requester::from("api"),
        };
        Ok(Self { caller: Caller { requester }, own })
    }
}

fn named(headers: &HeaderMap) -> Answer<Option<&str>> {
    let Some(value) = headers.get(REQUESTER_HEADER) else { return Ok(None) };
    let name = value.to_str().ok().filter(|name| !name.is_empty() && name.len() <= LONGEST);
    let refused =
        || Refused::invalid(format!("{REQUESTER_HEADER} must be 1 to {LONGEST} visible characters"));
    let name = name.ok_or_else(refused)?;
    if RESERVED.contains(&name) {
        return Err(Refused::invalid(format!(
            "{REQUESTER_HEADER} cannot be {name}: the runtime itself has this name"
        )));
    }
    Ok(Some(name))
}

impl From {
    /// True for a process of a subagent.
    pub(crate) fn is_nested(&self) -> bool {
        self.own.is_some()
    }

    /// Puts what a subagent spawns below it: it may name one below itself as the parent, and nobody else.
    pub(crate) async fn nest(&self, app: &Shared, request: &mut SpawnRequest) -> Answer<()> {
        let Some(own) = self.own else { return Ok(()) };
        let parent = match &request.parent {
            None => own,
            Some(name) => app.id(name).await?,
        };
        if parent != own {
            // It sees what is below it; anything else is refused as not its own.
            app.runtime.get(&self.caller, parent).await?;
        }
        request.parent = Some(parent.to_string());
        Ok(())
    }
}

/// The id, handle or beginning of one in a request's path.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Path(name) = Path::<String>::from_request_parts(parts, state).await?;
        Ok(Self(name))
    }
}
