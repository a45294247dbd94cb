//! What one call is given, and the few ways in which tools do their work: on a blocking thread, within the rules.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::Output;
use super::groups::Groups;
use super::rules::PathRule;
use super::spill::Spill;
use super::workspace::{Place, Refused, Want, Workspace};

/// What one call is given.
#[derive(Clone)]
pub struct Context {
    /// The directories that file tools may touch.
    pub(super) workspace: Arc<Workspace>,
    /// The environment of commands, in full.
    pub(super) environment: Arc<[(String, String)]>,
    /// All that was started and may still run.
    pub(super) groups: Arc<Groups>,
    /// Where long outputs are kept.
    pub(super) spill: Arc<Spill>,
    /// The paths that this tool may touch, by the lists of the session.
    pub(super) paths: Arc<PathRule>,
    /// Ends the call.
    pub cancel: CancellationToken,
}

impl Context {
    pub(super) fn new(
        workspace: Workspace,
        environment: Vec<(String, String)>,
        groups: Groups,
        spill: Spill,
    ) -> Self {
        Self {
            workspace: Arc::new(workspace),
            environment: environment.into(),
            groups: Arc::new(groups),
            spill: Arc::new(spill),
            paths: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }

    pub(super) fn for_call(&self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self.clone() }
    }

    /// Where a path of the model leads, if this tool may go there.
    pub(super) fn locate(&self, given: &str, want: Want) -> Result<Place, Refused> {
        let place = self.workspace.locate(given, want)?;
        self.check(&place)?;
        Ok(place)
    }

    /// Whether this tool may touch that place, by the lists of the session.
    pub(super) fn check(&self, place: &Place) -> Result<(), Refused> {
        if self.paths.permits(&place.shown, &place.absolute) {
            Ok(())
        } else {
            Err(Refused::Rule { path: place.shown.clone() })
        }
    }

    /// Looks at files on a blocking thread. A cancelled call does not wait for a file system that does not answer.
    pub(super) fn look<F>(&self, work: F) -> BoxFuture<'_, Output>
    where
        F: FnOnce(&Self) -> Result<String, Refused> + Send + 'static,
    {
        let cx = self.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&cx));
            tokio::select! {
                done = done => told(done),
                () = self.cancel.cancelled() => Output::failed("cancelled"),
            }
        })
    }

    /// Changes files on a blocking thread. What has begun is waited for, so that the answer is true.
    pub(super) fn change<F>(&self, work: F) -> BoxFuture<'_, Output>
    where
        F: FnOnce(&Self) -> Result<String, Refused> + Send + 'static,
    {
        let cx = self.clone();
        Box::pin(async move { told(tokio::task::spawn_blocking(move || work(&cx)).await) })
    }
}

fn told(done: Result<Result<String, Refused>, tokio::task::JoinError>) -> Output {
    match done {
        Ok(Ok(text)) => Output::done(text),
        Ok(Err(refused)) => Output::failed(refused.to_string()),
        Err(_) => Output::failed("the tool broke off; nothing is known of what it did"),
    }
}
