//! Checks of a spawn request: all that can be said without the writer, so that what it gets is well-formed.

use std::collections::BTreeMap;

use subagent_model::request::SpawnRequest;
use subagent_model::{ErrorCode, Problem, RunNumber, SpawnSpec};
use subagent_provider::bound;
use subagent_store::{Content, ContentKind, IdempotencyKey};

use super::super::writer::Spawn;
use super::super::{Engine, cwd, names};
use crate::runtime::{Caller, Runtime};

/// Longest label, description or idempotency key.
const LONGEST_WORD: usize = 512;
/// A larger prompt is digested on a thread of its own.
const LARGE_PROMPT: usize = 256 * 1024;
/// Most labels.
const MOST_LABELS: usize = 64;

/// A spawn for the writer, and environment values that are not to be stored.
type Prepared = (Spawn, BTreeMap<String, String>);

impl Engine {
    /// Checks a request as far as it can be checked without the writer.
    pub(super) async fn prepare(&self, caller: &Caller, request: SpawnRequest) -> Result<Prepared, Problem> {
        let parent = match &request.parent {
            Some(name) => Some(self.resolve(name).await?),
            None => None,
        };
        let words = [&request.description, &request.idempotency_key, &request.agent_type, &request.model];
        if let Some(word) = words.into_iter().flatten().find(|word| word.len() > LONGEST_WORD) {
            return Err(invalid(format!("a field is longer than {LONGEST_WORD} bytes: {word:.40}...")));
        }
        let labels = &request.labels;
        if labels.len() > MOST_LABELS
            || labels.iter().any(|(k, v)| k.is_empty() || k.len() + v.len() > LONGEST_WORD)
        {
            return Err(invalid(format!("at most {MOST_LABELS} labels of {LONGEST_WORD} bytes, with names")));
        }
        let bad_name = |name: &String| name.is_empty() || name.contains(['=', '\0']);
        let mut environment = request.env.iter().chain(&request.secret_env);
        if let Some((name, _)) = environment.find(|(name, value)| bad_name(name) || value.contains('\0')) {
            return Err(invalid(format!(
                "the environment variable {name:?} has a name or value that none can have"
            )));
        }
        if request.deadline_ms == Some(0) {
            return Err(invalid("a deadline must be longer than nothing"));
        }
        let cwd = request.cwd.ok_or_else(cwd::missing)?;
        self.inner.cwds.check(&cwd).await?;
        let (prompt, whole) = if request.prompt.len() > LARGE_PROMPT {
            let digest = tokio::task::spawn_blocking(move || bound(request.prompt)).await;
            digest.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
        } else {
            bound(request.prompt)
        };
        let spec = SpawnSpec {
            prompt,
            description: request.description,
            agent_type: request.agent_type.unwrap_or_else(|| request.provider.clone()),
            provider: request.provider,
            model: request.model,
            exec: request.exec,
            mode: request.mode,
            cwd,
            env: request.env,
            secret_env: request.secret_env.keys().cloned().collect(),
            deadline_ms: request.deadline_ms,
            labels: request.labels,
            durable: request.durable,
        };
        self.inner.registry.get(&spec.provider)?.check(&spec)?;
        let content = whole
            .map(|text| Content { run: RunNumber(1), kind: ContentKind::Prompt, text })
            .into_iter()
            .collect();
        let idempotency =
            request.idempotency_key.map(|key| IdempotencyKey { requester: caller.requester.clone(), key });
        let spawn = Spawn {
            id: names::new_id(),
            spec,
            parent,
            requester: caller.requester.clone(),
            content,
            idempotency,
        };
        Ok((spawn, request.secret_env))
    }
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, message)
}
