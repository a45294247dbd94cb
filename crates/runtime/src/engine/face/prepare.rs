//! Checks of a spawn request: all that can be said without the writer, so that what it gets is well-formed.

use std::collections::BTreeMap;
use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_hooks::{SpawnAsk, SpawnRuling};
use subagent_model::request::SpawnRequest;
use subagent_model::{Budget, Capabilities, ErrorCode, Problem, RunNumber, SpawnSpec, SubagentId};
use subagent_provider::bound;
use subagent_store::{Content, ContentKind, IdempotencyKey};

use super::super::attachments::Kept;
use super::super::writer::Spawn;
use super::super::{Engine, cwd, names, schema};
use super::authority::Access;
use crate::runtime::{Caller, Runtime};

/// Longest label, description or idempotency key.
pub(super) const LONGEST_WORD: usize = 512;
/// A larger prompt is digested on a thread of its own.
const LARGE_PROMPT: usize = 256 * 1024;
/// Most labels.
const MOST_LABELS: usize = 64;

/// A spawn for the writer, environment values that are not to be stored, and what was set aside.
pub(super) struct Prepared {
    pub(super) spawn: Spawn,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) notes: Vec<String>,
    /// Its files.
    pub(super) kept: Kept,
}

impl Engine {
    /// Checks a request as far as it can be checked without the writer.
    pub(super) async fn prepare(
        &self,
        caller: &Caller,
        mut request: SpawnRequest,
    ) -> Result<Prepared, Problem> {
        let parent = match &request.parent {
            Some(name) => Some(self.resolve(name).await?),
            // What a subagent spawns is below it, whether it says so or not.
            None => super::authority::subagent_of(&caller.requester),
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
        let above = parent.map(|parent| self.parent_of(caller, parent)).transpose()?;
        if let Some(above) = &above
            && request.permissions.is_default()
        {
            // Inherited; and never wider in any case, since the strictest word of all counts.
            request.permissions = above.spec.permissions.clone();
        }
        let (bounds, notes) = self.of_type(&mut request, above.as_ref()).await?;
        check_environment(request.env.iter().chain(&request.secret_env))?;
        if request.deadline_ms == Some(0) {
            return Err(invalid("a deadline must be longer than nothing"));
        }
        check_budget(&request.budget)?;
        check_tree_budget(&request)?;
        if let Some(schema) = &request.output_schema {
            schema::usable(schema).map_err(|why| invalid(format!("output_schema cannot be used: {why}")))?;
        }
        let cwd = request.cwd.ok_or_else(cwd::missing)?;
        self.inner.cwds.check(&cwd).await?;
        let (prompt, whole) = if request.prompt.len() > LARGE_PROMPT {
            let digest = tokio::task::spawn_blocking(move || bound(request.prompt)).await;
            digest.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
        } else {
            bound(request.prompt)
        };
        let mut spec = SpawnSpec {
            prompt,
            attachments: vec![],
            description: request.description,
            agent_type: request.agent_type.unwrap_or_else(|| request.provider.clone()),
            provider: request.provider,
            model: request.model,
            exec: request.exec,
            setup: request.setup,
            mode: request.mode,
            cwd,
            env: request.env,
            secret_env: request.secret_env.keys().cloned().collect(),
            deadline_ms: request.deadline_ms,
            budget: request.budget,
            tree_budget: request.tree_budget,
            permissions: request.permissions,
            bounds,
            on_loss: request.on_loss,
            stall: request.stall,
            idle_ms: request.idle_ms,
            output_schema: request.output_schema,
            can: Capabilities::default(),
            account: None,
            labels: request.labels,
            durable: request.durable,
        };
        let provider = self.inner.registry.get(&spec.provider)?;
        provider.check(&spec)?;
        spec.can = provider.capabilities_for(&spec);
        spec.account = provider.account(&spec);
        lacks(&spec.provider, &spec.can, &spec.budget)?;
        super::setup::lacks(&spec)?;
        if spec.is_warm() && !spec.can.warm {
            return Err(cannot(&spec.provider, "stay alive between runs", "Drop --warm."));
        }
        let id = names::new_id();
        let kept = self.attach(id, spec.durable, request.attachments, &spec.provider, &spec.can).await?;
        spec.attachments.clone_from(&kept.files);
        self.ask_gates(|| {
            let depth = match &above {
                Some(above) => above.depth + 1,
                None => 0,
            };
            let (spec, requester) = (Arc::new(spec.clone()), caller.requester.clone());
            Ok(SpawnAsk { spec, resumes: None, parent, depth, requester })
        })
        .await?;
        let content = whole
            .map(|text| Content { run: RunNumber(1), kind: ContentKind::Prompt, text })
            .into_iter()
            .collect();
        let idempotency =
            request.idempotency_key.map(|key| IdempotencyKey { requester: caller.requester.clone(), key });
        let spawn = Spawn { id, spec, parent, requester: caller.requester.clone(), content, idempotency };
        Ok(Prepared { spawn, secrets: request.secret_env, notes, kept })
    }
}

impl Engine {
    /// A parent must be the caller's, or the caller itself.
    fn parent_of(&self, caller: &Caller, parent: SubagentId) -> Result<Arc<Subagent>, Problem> {
        let own = super::authority::subagent_of(&caller.requester) == Some(parent);
        self.for_caller(caller, parent, if own { Access::See } else { Access::Control })
    }

    /// Gates of this installation may deny the next run as well, by a resume or by a message that will open it.
    pub(super) async fn ask_gates_again(
        &self,
        caller: &Caller,
        state: &Subagent,
        prompt: &str,
    ) -> Result<(), Problem> {
        self.ask_gates(|| {
            let spec = SpawnSpec { prompt: bound(prompt.to_owned()).0, ..(*state.spec).clone() };
            Ok(SpawnAsk {
                spec: Arc::new(spec),
                resumes: Some(state.id),
                parent: state.parent,
                depth: state.depth,
                requester: caller.requester.clone(),
            })
        })
        .await
    }

    /// Gates of this installation may deny it.
    async fn ask_gates(&self, ask: impl FnOnce() -> Result<SpawnAsk, Problem>) -> Result<(), Problem> {
        let gates = self.inner.hooks.gates();
        if gates.is_empty() {
            return Ok(());
        }
        let ask = ask()?;
        match gates.at_spawn(&ask).await {
            SpawnRuling::Allowed => Ok(()),
            SpawnRuling::Denied { gate, reason } => {
                Err(Problem::new(ErrorCode::GateDenied, format!("{gate}: {reason}")))
            }
        }
    }
}

/// A request that makes no sense as it stands.
pub(super) fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, message)
}

/// Refuses variables that no process can have.
pub(super) fn check_environment<'a>(
    mut environment: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), Problem> {
    let bad_name = |name: &String| name.is_empty() || name.contains(['=', '\0']);
    match environment.find(|(name, value)| bad_name(name) || value.contains('\0')) {
        Some((name, _)) => {
            Err(invalid(format!("the environment variable {name:?} has a name or value that none can have")))
        }
        None => Ok(()),
    }
}

/// Refuses limits that mean nothing.
pub(super) fn check_budget(budget: &Budget) -> Result<(), Problem> {
    check_cost(budget.max_cost_usd)
}

fn check_cost(cost: Option<f64>) -> Result<(), Problem> {
    match cost {
        Some(cost) if !cost.is_finite() || cost < 0.0 => {
            Err(invalid("a cost limit is a number of US dollars, 0 or more"))
        }
        _ => Ok(()),
    }
}

fn check_tree_budget(request: &SpawnRequest) -> Result<(), Problem> {
    if request.parent.is_some() && !request.tree_budget.is_unlimited() {
        return Err(invalid("tree_budget is for the root of a tree; use budget for one subagent"));
    }
    check_cost(request.tree_budget.max_cost_usd)
}

/// Refuses limits that the provider does not report what is needed for: they would never act.
pub(super) fn lacks(provider: &str, can: &Capabilities, budget: &Budget) -> Result<(), Problem> {
    let set = |limit: Option<u64>| limit.is_some_and(|limit| limit > 0);
    let hint = "Drop the limit, or set a deadline, which holds for every provider.";
    if (set(budget.max_turns.map(Into::into)) || set(budget.max_tool_calls.map(Into::into))) && !can.turns {
        return Err(cannot(provider, "be limited in turns or tool calls: it does not report them", hint));
    }
    if set(budget.max_tokens) && !can.usage {
        return Err(cannot(provider, "be limited in tokens: it does not report them", hint));
    }
    if budget.max_cost_usd.is_some_and(|cost| cost > 0.0) && !can.cost {
        return Err(cannot(provider, "be limited in cost: it does not report it", hint));
    }
    Ok(())
}

pub(super) fn cannot(provider: &str, what: &str, hint: &str) -> Problem {
    let mut problem = Problem::new(ErrorCode::NotCapable, format!("the provider {provider} cannot {what}"));
    problem.hint = Some(hint.to_owned());
    problem
}
