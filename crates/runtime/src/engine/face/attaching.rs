//! Files of a request: kept before it is accepted, and held against what the provider takes.

use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_model::request::AttachRequest;
use subagent_model::{Attachment, Capabilities, ErrorCode, Problem, SubagentId};

use super::super::Engine;
use super::super::attachments::{self, Kept};
use super::prepare::cannot;

impl Engine {
    /// Reads, checks and keeps the files that go with the prompt of a spawn.
    pub(super) async fn attach(
        &self,
        id: SubagentId,
        durable: bool,
        requests: Vec<AttachRequest>,
        provider: &str,
        can: &Capabilities,
    ) -> Result<Kept, Problem> {
        if requests.is_empty() {
            return Ok(Kept::default());
        }
        if !can.images && !can.texts {
            return Err(cannot(provider, "be given files", "Name the files in the prompt."));
        }
        let inner = Arc::clone(&self.inner);
        let kept = tokio::task::spawn_blocking(move || {
            attachments::keep(inner.paths.attachments_of(id, durable), &requests)
        });
        let kept = kept.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))??;
        takes(provider, can, &kept.files)?;
        Ok(kept)
    }

    /// The same for a subagent that there is. Files of a request that is then refused go with its other files: another
    /// request may have the same.
    pub(super) async fn attach_to(
        &self,
        state: &Subagent,
        requests: Vec<AttachRequest>,
    ) -> Result<Vec<Attachment>, Problem> {
        let spec = &state.spec;
        let kept = self.attach(state.id, spec.durable, requests, &spec.provider, &spec.can).await?;
        let files = kept.files.clone();
        kept.stay();
        Ok(files)
    }
}

/// Refuses files that the provider has no place for.
fn takes(provider: &str, can: &Capabilities, files: &[Attachment]) -> Result<(), Problem> {
    for file in files {
        let (able, what) =
            if file.is_image() { (can.images, "images") } else { (can.texts, "texts beside the prompt") };
        if !able {
            let what = format!("be given {what}, as {:?} is", file.name);
            return Err(cannot(provider, &what, "Name the file in the prompt."));
        }
    }
    Ok(())
}
