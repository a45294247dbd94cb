//! From an agent type and a call to one request: which definition it is, what of it counts, which provider drives it. And
//! the list of all of them.

use std::sync::Arc;

use camino::Utf8PathBuf;
use subagent_config::models::NamedBy;
use subagent_config::prompt::{Identity, Surroundings, compose};
use subagent_config::{
    AgentDefinition, AgentName, Call, Catalog, Ceiling, Dialect, Effective, Effort, Given, Isolation, Limits,
    ModelChoice, PermissionMode, Prompt, PromptMode, Sandbox, Scope, Source, ToolList, combine,
};
use subagent_core::run::Subagent;
use subagent_model::agents::{AgentType, ProviderInfo, TypeList};
use subagent_model::request::SpawnRequest;
use subagent_model::{
    Bounds, Budget, ErrorCode, ExecSpec, McpServer, McpTransport, Mode, Problem, PromptVia, ResultFrom,
    SystemPrompt, SystemPromptMode, Talk,
};
use subagent_provider::Provider;

use super::super::agents::{find, in_order};
use super::super::{Engine, cwd};
use super::ceiling::{bounds_of, ceiling, claude_word, passed_on, programs_within, stance, wider};
use super::prepare::invalid;

/// What runs programs.
const EXEC: &str = "exec";

impl Engine {
    /// Puts the agent type and what the parent allows into the request, and chooses the provider where none is named.
    /// Gives what bounds the children, and what was set aside.
    pub(super) async fn of_type(
        &self,
        request: &mut SpawnRequest,
        above: Option<&Arc<Subagent>>,
    ) -> Result<(Bounds, Vec<String>), Problem> {
        if request.provider.is_empty() && request.exec.is_some() {
            request.provider = String::from(EXEC);
        }
        let named = match request.provider.as_str() {
            "" => None,
            name => Some(Arc::clone(self.inner.registry.get(name)?)),
        };
        if let Some(provider) = named.filter(|provider| !provider.is_agent()) {
            // For a program the type is a label.
            let Some(above) = above else { return Ok((Bounds::default(), Vec::new())) };
            programs_within(above, request, provider.name())?;
            self.within_policies(above, request, &*provider)?;
            return Ok((passed_on(&above.spec.bounds), Vec::new()));
        }
        if request.prompt.trim().is_empty() {
            return Err(invalid("an agent needs a task: the prompt is blank"));
        }
        let ceiling = above.map(|above| ceiling(&above.spec.bounds)).unwrap_or_default();
        let mut notes = Vec::new();
        let name = request.agent_type.clone().filter(|name| *name != request.provider);
        let (definition, catalog) = match name {
            None => (Arc::new(untyped()?), None),
            Some(name) => {
                let cwd = request.cwd.clone().ok_or_else(cwd::missing)?;
                let catalog = self.catalog(cwd).await?;
                let definition = Arc::clone(catalog.get(&name).map_err(|error| {
                    Problem::new(error.code(), error.to_string()).with_ids(error.usable().to_vec())
                })?);
                (definition, Some(catalog))
            }
        };
        let named = combine(&definition, &call_of(request, "")?, &ceiling).effective.provider;
        let provider = if let Some(provider) = named {
            provider
        } else {
            let found = self.installed(request, of_dialect(definition.source.dialect)).await?;
            notes.push(format!("provider: {found}, the first agent that is installed"));
            found
        };
        let driver = Arc::clone(self.inner.registry.get(&provider)?);
        if let Some(above) = above {
            programs_within(above, request, &provider)?;
        }
        let call = call_of(request, &provider)?;
        let combined = combine(&definition, &call, &ceiling);
        request.provider = provider;
        let mut told: Vec<_> = combined.notes.iter().map(ToString::to_string).collect();
        let effective = combined.effective;
        let by = if effective.model == call.model { NamedBy::Call } else { NamedBy::Definition };
        tools(&effective, request);
        held(&definition, &ceiling, &effective, request, &mut told)?;
        let mut bounds = bounds_of(&effective, &request.setup.tools, &*driver);
        if let Some(catalog) = catalog {
            apply(&definition, &effective, request, &mut told)?;
            for name in bounds.types.iter_mut().flatten() {
                // Another name of a type is that type.
                if let Ok(definition) = catalog.get(name) {
                    *name = definition.name.to_string();
                }
            }
        }
        if let Some(above) = above {
            self.within_policies(above, request, &*driver)?;
        }
        self.choose_model(request, &*driver, by, &mut told)?;
        told.append(&mut notes);
        Ok((bounds, told))
    }

    /// The model that a name means, where the models of the provider are known.
    fn choose_model(
        &self,
        request: &mut SpawnRequest,
        provider: &dyn Provider,
        by: NamedBy,
        notes: &mut Vec<String>,
    ) -> Result<(), Problem> {
        let Some(name) = request.model.as_ref().filter(|_| provider.capabilities().model) else {
            return Ok(());
        };
        let models = self.inner.models.of(provider, request.cwd.as_deref());
        let chosen = models.choose(name, by).map_err(|error| {
            Problem::new(error.code(), error.to_string()).with_ids(error.usable().to_vec())
        })?;
        if let Some(model) = chosen.filter(|model| model.id != *name) {
            notes.push(format!("model: {}, which {name:?} means", model.id));
            request.model = Some(model.id.clone());
        }
        Ok(())
    }

    /// The first agent that is on the `PATH` of the request.
    async fn installed(
        &self,
        request: &SpawnRequest,
        first: Option<&'static str>,
    ) -> Result<String, Problem> {
        let path =
            request.env.get("PATH").or_else(|| request.secret_env.get("PATH")).cloned().unwrap_or_default();
        let inner = Arc::clone(&self.inner);
        let found = tokio::task::spawn_blocking(move || {
            let all = in_order(&inner.registry, first);
            let there = |provider: &&Arc<dyn Provider>| {
                let found = provider.program().and_then(|program| find(program, &path));
                found.is_some() && provider.lacks().is_none()
            };
            all.into_iter().find(there).map(|provider| provider.name().to_owned())
        });
        let found = found.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?;
        found.ok_or_else(|| {
            let all = in_order(&self.inner.registry, None);
            let (bare, there): (Vec<&Arc<dyn Provider>>, Vec<_>) =
                all.iter().copied().partition(|provider| provider.lacks().is_none());
            let names: Vec<_> = bare.iter().filter_map(|provider| provider.program()).collect();
            let mut message =
                format!("no agent is installed: none of {} is on the PATH of the caller", names.join(", "));
            for provider in there {
                message.extend(["; ", provider.name(), ": ", provider.lacks().unwrap_or_default()]);
            }
            let mut problem = Problem::new(ErrorCode::ProgramNotFound, message);
            problem.hint = all.iter().find_map(|provider| provider.install_hint()).map(str::to_owned);
            problem
        })
    }

    async fn catalog(&self, cwd: Utf8PathBuf) -> Result<Arc<Catalog>, Problem> {
        let inner = Arc::clone(&self.inner);
        let read = tokio::task::spawn_blocking(move || inner.agents.catalog(&cwd));
        read.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))
    }

    pub(super) async fn list_types(
        &self,
        cwd: Utf8PathBuf,
        path: Option<String>,
        name: Option<&str>,
    ) -> Result<TypeList, Problem> {
        self.inner.cwds.check(&cwd).await?;
        let catalog = self.catalog(cwd).await?;
        let items = match name {
            None => catalog
                .usable()
                .iter()
                .filter_map(|name| catalog.get(name).ok())
                .map(|d| shown(d, false))
                .collect(),
            Some(name) => {
                let definition = catalog.get(name).map_err(|error| {
                    Problem::new(error.code(), error.to_string()).with_ids(error.usable().to_vec())
                })?;
                vec![shown(definition, true)]
            }
        };
        let problems = catalog.diagnostics().iter().map(ToString::to_string).collect();
        let inner = Arc::clone(&self.inner);
        let providers = tokio::task::spawn_blocking(move || {
            let path = path.unwrap_or_default();
            inner.registry.iter().map(|provider| about(provider, &path)).collect()
        });
        let providers =
            providers.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?;
        Ok(TypeList { items, problems, providers })
    }
}

fn about(provider: &Arc<dyn Provider>, path: &str) -> ProviderInfo {
    let found = provider.program().and_then(|program| find(program, path));
    let install = provider.install_hint().filter(|_| found.is_none());
    ProviderInfo {
        name: provider.name().to_owned(),
        can: provider.capabilities(),
        program: provider.program().map(str::to_owned),
        found: found.map(|path| path.display().to_string()),
        install: install.map(str::to_owned),
    }
}

fn shown(definition: &AgentDefinition, whole: bool) -> AgentType {
    AgentType {
        name: definition.name.to_string(),
        aliases: definition.aliases.iter().map(ToString::to_string).collect(),
        description: definition.description.clone(),
        provider: definition.provider.clone(),
        model: definition.model.value().map(ToString::to_string),
        source: definition.source.to_string(),
        definition: whole.then(|| serde_json::to_value(definition).unwrap_or_default()),
    }
}

/// Definitions of an agent's own kind are meant for it.
fn of_dialect(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Claude => Some("claude"),
        Dialect::Codex => Some("codex"),
        Dialect::Opencode => Some("opencode"),
        Dialect::Pi => Some("pi"),
        Dialect::Gemini => Some("gemini"),
        Dialect::Subagent => None,
    }
}

/// What stands for a definition where no type is named: it says nothing.
fn untyped() -> Result<AgentDefinition, Problem> {
    let name = AgentName::new("agent").map_err(|error| invalid(error.to_string()))?;
    let prompt = Prompt { text: String::new(), mode: PromptMode::Append, template: false };
    let source = Source { path: None, dialect: Dialect::Subagent, scope: Scope::Builtin, trusted: true };
    Ok(AgentDefinition::new(name, "", prompt, source))
}

/// The tools that count.
fn tools(effective: &Effective, request: &mut SpawnRequest) {
    request.setup.tools.allow = match &effective.tools {
        Given::Omitted => None,
        Given::Nothing => Some(Vec::new()),
        Given::Value(list) => Some(list.patterns().to_vec()),
    };
    request.setup.tools.deny = effective.disallowed_tools.patterns().to_vec();
}

/// Puts what counts of a type into the request.
fn apply(
    definition: &AgentDefinition,
    effective: &Effective,
    request: &mut SpawnRequest,
    notes: &mut Vec<String>,
) -> Result<(), Problem> {
    request.agent_type = Some(definition.name.to_string());
    if let ([program, args @ ..], None) = (effective.command.as_slice(), &request.exec) {
        request.exec = Some(ExecSpec {
            program: program.clone(),
            args: args.to_vec(),
            prompt_via: PromptVia::Stdin,
            result: ResultFrom::WholeOutput,
            talk: Talk::None,
        });
    }
    request.model = match &effective.model {
        Given::Value(ModelChoice::Named(name)) => Some(name.clone()),
        // That of the parent is that of the provider where it is the same agent; nothing else is known of it here.
        Given::Value(ModelChoice::Inherit) | Given::Nothing | Given::Omitted => None,
    };
    request.setup.effort = effective.effort.value().map(ToString::to_string);
    limits(&effective.limits, request);
    if request.permissions.is_default()
        && let Some(permissions) = &effective.permissions
    {
        request.permissions = permissions.clone();
    }
    if effective.background == Some(true) && request.mode == Mode::Sync && request.wait_ms.is_none() {
        request.mode = Mode::Async;
    }
    if let Given::Value(before) = &effective.context.initial_prompt {
        request.prompt = format!("{}\n\n{}", before.trim_end(), request.prompt);
    }
    for (field, given) in [
        ("skills", effective.skills.value().is_some()),
        ("hooks", effective.hooks.value().is_some()),
        ("memory", effective.memory.value().is_some()),
        ("context.compact_at", effective.context.compact_at.value().is_some()),
    ] {
        if given {
            notes.push(format!("{field}: not used by this version"));
        }
    }
    instructions(definition, effective, request)?;
    servers(effective, request, notes);
    Ok(())
}

/// A limit in the words of definitions: 0 is none.
fn given<T: PartialEq + Default>(limit: Option<T>) -> Given<T> {
    match limit {
        None => Given::Omitted,
        Some(limit) if limit == T::default() => Given::Nothing,
        Some(limit) => Given::Value(limit),
    }
}

/// What the caller said, in the words of definitions; `provider` is what drives the child.
fn call_of(request: &SpawnRequest, provider: &str) -> Result<Call, Problem> {
    let setup = &request.setup;
    let (permission_mode, sandbox) = stance(provider, setup.permission_mode.as_deref());
    let effort = match &setup.effort {
        None => Given::Omitted,
        Some(word) => {
            let read = serde_json::from_value::<Effort>(word.to_lowercase().into());
            let read = read.or_else(|_| word.parse().map(Effort::Number));
            Given::Value(read.map_err(|_| {
                invalid(format!("{word:?} is no effort: minimal, low, medium, high, xhigh, max, or a number"))
            })?)
        }
    };
    let budget = &request.budget;
    Ok(Call {
        tools: setup.tools.allow.as_ref().map_or(Given::Omitted, |list| {
            if list.is_empty() { Given::Nothing } else { Given::Value(ToolList::new(list.iter().cloned())) }
        }),
        disallowed_tools: match setup.tools.deny.as_slice() {
            [] => Given::Omitted,
            list => Given::Value(ToolList::new(list.iter().cloned())),
        },
        model: request.model.clone().map_or(Given::Omitted, |name| Given::Value(ModelChoice::Named(name))),
        effort,
        provider: Some(request.provider.clone()).filter(|name| !name.is_empty()),
        limits: Limits {
            max_turns: given(budget.max_turns),
            grace_turns: given(budget.grace_turns),
            max_tokens: given(budget.max_tokens),
            max_cost_usd: given(budget.max_cost_usd),
            max_tool_calls: given(budget.max_tool_calls),
            timeout_ms: request.deadline_ms.map_or(Given::Omitted, Given::Value),
        },
        background: (request.mode != Mode::Sync).then_some(true),
        permission_mode,
        sandbox,
        ..Call::default()
    })
}

fn limits(limits: &Limits, request: &mut SpawnRequest) {
    request.budget = Budget {
        max_turns: limits.max_turns.value().copied(),
        grace_turns: limits.grace_turns.value().copied(),
        max_tokens: limits.max_tokens.value().copied(),
        max_cost_usd: limits.max_cost_usd.value().copied(),
        max_tool_calls: limits.max_tool_calls.value().copied(),
    };
    request.deadline_ms = limits.timeout_ms.value().copied();
}

/// What holds a child back must hold, whether its type or its parent says it: where it cannot, the spawn is refused.
fn held(
    definition: &AgentDefinition,
    ceiling: &Ceiling,
    effective: &Effective,
    request: &mut SpawnRequest,
    notes: &mut Vec<String>,
) -> Result<(), Problem> {
    let cannot = |by_type: bool, what: &str| {
        let who = if by_type {
            format!("the agent type {} asks for", definition.name)
        } else {
            String::from("its parent is held to, and so is it,")
        };
        Err(Problem::new(ErrorCode::NotCapable, format!("{who} {what}")))
    };
    if effective.isolation == Given::Value(Isolation::Worktree) {
        return cannot(true, "a worktree of its own, which this version cannot make");
    }
    let (known, _) = stance(&request.provider, request.setup.permission_mode.as_deref());
    if let (Some(word), None) = (&request.setup.permission_mode, known)
        && (ceiling.permission_mode.is_some() || ceiling.sandbox.is_some())
    {
        // A mode that does not exist is refused by its provider, with those that do.
        if request.provider != "claude" && request.provider != "codex" {
            return Err(wider(format!(
                "nobody here knows whether the mode {word:?} of {} lies within what its parent may do",
                request.provider
            )));
        }
    }
    let (sandbox, mode) = (effective.sandbox, effective.permission_mode);
    match (request.provider.as_str(), sandbox) {
        // All of its edits are asked about where nothing wider is allowed; that is its usual sandbox.
        ("codex", Some(Sandbox::WorkspaceWrite)) if mode.is_some_and(|mode| mode <= PermissionMode::Ask) => {
            request.setup.permission_mode = None;
        }
        ("codex", Some(sandbox @ (Sandbox::ReadOnly | Sandbox::WorkspaceWrite))) => {
            request.setup.permission_mode = Some(sandbox.as_str().to_owned());
        }
        (_, None | Some(Sandbox::FullAccess)) => {}
        // Tools that only look, and no other, change nothing.
        (_, Some(Sandbox::ReadOnly)) if effective.tools.value().is_some() => {}
        (_, Some(sandbox)) => {
            return cannot(
                definition.sandbox == Some(sandbox),
                &format!("the sandbox {sandbox}, which only the provider codex has in this version"),
            );
        }
    }
    let Some(mode) = mode else { return Ok(()) };
    let asked = known;
    match (mode, request.provider.as_str()) {
        (PermissionMode::Deny, _) => {
            request.permissions.unattended = true;
            if request.provider == "claude" && asked != Some(PermissionMode::Deny) {
                request.setup.permission_mode = None;
            }
        }
        (mode @ (PermissionMode::Plan | PermissionMode::AcceptEdits), "claude") => {
            request.setup.permission_mode = claude_word(mode).map(str::to_owned);
        }
        (PermissionMode::Plan, _) => {
            let by_type = definition.permission_mode == Some(PermissionMode::Plan);
            return cannot(by_type, "the permission mode plan, which its provider does not have");
        }
        // A word of the call that says no less; else what is there anyway.
        (mode, "claude") if asked == Some(mode) => {}
        (PermissionMode::Ask, "claude") => request.setup.permission_mode = None,
        (PermissionMode::Ask, _) => {}
        (wide, provider) => {
            if provider == "claude" {
                request.setup.permission_mode = None;
            }
            if definition.permission_mode == Some(wide) {
                notes.push(format!(
                    "permission_mode: {wide} is not passed on; what the agent asks for goes by the policy of the \
                     subagent"
                ));
            }
        }
    }
    Ok(())
}

/// The text of the definition becomes a part of the system prompt.
fn instructions(
    definition: &AgentDefinition,
    effective: &Effective,
    request: &mut SpawnRequest,
) -> Result<(), Problem> {
    let variables = std::collections::BTreeMap::new();
    let name = request.description.clone().unwrap_or_else(|| definition.name.to_string());
    let directory = request.cwd.as_ref().map(|cwd| cwd.as_str());
    let around = Surroundings {
        base: None,
        // Agents read the instruction files of a project by themselves.
        instructions: &[],
        variables: &variables,
        identity: Identity { name: &name, directory, branch: None },
        isolated_from: None,
    };
    let composed =
        compose(definition, &effective.context, &around).map_err(|error| invalid(error.to_string()))?;
    let mode = match definition.prompt.mode {
        PromptMode::Append => SystemPromptMode::Append,
        PromptMode::Replace => SystemPromptMode::Override,
    };
    let mut text = composed.text;
    if let Some(own) = request.setup.system_prompt.take() {
        text = format!("{text}\n\n{}", own.text);
    }
    request.setup.system_prompt = Some(SystemPrompt { mode, text });
    Ok(())
}

/// Servers with a configuration of their own go with the request; others are the agent's business.
fn servers(effective: &Effective, request: &mut SpawnRequest, notes: &mut Vec<String>) {
    for server in effective.mcp_servers.value().into_iter().flatten() {
        if request.setup.mcp_servers.iter().any(|own| own.name == server.name) {
            continue;
        }
        let Some(config) = &server.config else {
            notes.push(format!("mcp_servers: {} is left to the configuration of the agent", server.name));
            continue;
        };
        let via = serde_json::from_value::<McpTransport>(config.clone()).or_else(|_| {
            let mut config = config.clone();
            if let Some(map) = config.as_object_mut() {
                let kind = if map.contains_key("url") { "http" } else { "stdio" };
                map.insert(String::from("type"), kind.into());
            }
            serde_json::from_value::<McpTransport>(config)
        });
        match via {
            Ok(via) => request.setup.mcp_servers.push(McpServer { name: server.name.clone(), via }),
            Err(error) => notes.push(format!("mcp_servers: {} cannot be used: {error}", server.name)),
        }
    }
}
