//! How a definition and a call become one. The caller wins unless the definition locks the field; tools, sandbox,
//! permissions and what may be spawned can only become narrower. What was set aside is told, never dropped in silence.

use std::fmt;

use serde::{Deserialize, Serialize};
use subagent_model::Permissions;

use crate::definition::{AgentDefinition, ContextOptions, Field, Limits, McpServer, Skills};
use crate::fields::join;
use crate::given::Given;
use crate::name::{escape, fold};
use crate::tools::ToolList;
use crate::words::{Effort, Isolation, MemoryScope, ModelChoice, PermissionMode, Sandbox};

/// What a caller says beside the name of the type and the task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Call {
    /// Tools; only those that the definition has count.
    pub tools: Given<ToolList>,
    /// Tools to take away as well.
    pub disallowed_tools: Given<ToolList>,
    /// Model.
    pub model: Given<ModelChoice>,
    /// Effort.
    pub effort: Given<Effort>,
    /// Permission mode, at most that of the definition.
    pub permission_mode: Option<PermissionMode>,
    /// Sandbox, at most that of the definition.
    pub sandbox: Option<Sandbox>,
    /// What the run may use.
    pub limits: Limits,
    /// Provider.
    pub provider: Option<String>,
    /// Skills.
    pub skills: Given<Skills>,
    /// Memory.
    pub memory: Given<MemoryScope>,
    /// Whether the caller goes on at once.
    pub background: Option<bool>,
    /// Isolation.
    pub isolation: Given<Isolation>,
    /// With what it begins.
    pub context: ContextOptions,
    /// Types that it may spawn; only those that the definition allows count.
    pub allowed_subagents: Given<Vec<String>>,
    /// Depth of the tree below it, at most that of the definition.
    pub max_depth: Option<u32>,
}

/// What a child can have at most: what its parent has at this moment. The default is no bound.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ceiling {
    /// Tools of the parent.
    pub tools: Given<ToolList>,
    /// Tools that were taken away from it.
    pub disallowed_tools: Given<ToolList>,
    /// Its permission mode.
    pub permission_mode: Option<PermissionMode>,
    /// Its sandbox.
    pub sandbox: Option<Sandbox>,
    /// Types that it may spawn.
    pub allowed_subagents: Given<Vec<String>>,
    /// Levels that are left below the child.
    pub max_depth: Option<u32>,
}

/// Why something was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The caller said something else.
    CallerWins,
    /// The definition does not let a caller change it.
    Locked,
    /// A call can only narrow what the definition gives.
    WiderThanDefinition,
    /// A child has at most what its parent has.
    WiderThanParent,
}

/// Something that was set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Of which field.
    pub field: Field,
    /// What was said and does not count.
    pub aside: String,
    /// What counts.
    pub counts: String,
    /// Why.
    pub why: Why,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, aside, counts, why } = self;
        match why {
            Why::CallerWins => {
                write!(f, "{field}: {counts}, as the call says; {aside} in the definition is set aside")
            }
            Why::Locked => {
                write!(f, "{field}: {counts}, locked by the definition; {aside} in the call is set aside")
            }
            Why::WiderThanDefinition => {
                write!(f, "{field}: {counts}; {aside} in the call is more than the definition allows")
            }
            Why::WiderThanParent => write!(f, "{field}: {counts}; {aside} is more than the parent has"),
        }
    }
}

/// What counts for one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    /// Tools. Omitted: all that there are. Nothing: none.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub tools: Given<ToolList>,
    /// Tools that are taken away.
    #[serde(default)]
    pub disallowed_tools: ToolList,
    /// Model. Omitted and nothing: that of the provider.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub model: Given<ModelChoice>,
    /// Effort.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub effort: Given<Effort>,
    /// Permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Rules of permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// What the run may use.
    pub limits: Limits,
    /// Provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Program and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Skills.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub skills: Given<Skills>,
    /// Servers of the Model Context Protocol.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub mcp_servers: Given<Vec<McpServer>>,
    /// Hooks.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub hooks: Given<serde_json::Value>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub memory: Given<MemoryScope>,
    /// Whether the caller goes on at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Isolation.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub isolation: Given<Isolation>,
    /// With what it begins.
    pub context: ContextOptions,
    /// Types that it may spawn. Omitted: any. Nothing: none.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub allowed_subagents: Given<Vec<String>>,
    /// Depth of the tree below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
}

impl Effective {
    /// Whether a tool may be called at all.
    pub fn permits(&self, tool: &str) -> bool {
        let allowed = match &self.tools {
            Given::Omitted => true,
            Given::Nothing => false,
            Given::Value(list) => list.names(tool),
        };
        allowed && !self.disallowed_tools.covers(tool)
    }

    /// The tools that a child has, of those that there are for it.
    pub fn tools_of<'a>(&self, there_are: &[&'a str]) -> Vec<&'a str> {
        there_are.iter().copied().filter(|tool| self.permits(tool)).collect()
    }

    /// Whether a type may be spawned.
    pub fn may_spawn(&self, name: &str) -> bool {
        match &self.allowed_subagents {
            Given::Omitted => true,
            Given::Nothing => false,
            Given::Value(names) => names.iter().any(|allowed| fold(allowed) == fold(name)),
        }
    }
}

/// What counts, and what was set aside for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Combined {
    /// What counts.
    pub effective: Effective,
    /// What was set aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Combines a definition, a call, and what the parent has.
pub fn combine(definition: &AgentDefinition, call: &Call, ceiling: &Ceiling) -> Combined {
    let mut of = Combiner { definition, notes: Vec::new() };
    let effective = Effective {
        tools: of.tools(call, ceiling),
        disallowed_tools: of.denied(call, ceiling),
        model: of.given(Field::Model, &definition.model, &call.model, ToString::to_string),
        effort: of.given(Field::Effort, &definition.effort, &call.effort, ToString::to_string),
        permission_mode: of.narrower(
            Field::PermissionMode,
            definition.permission_mode,
            call.permission_mode,
            ceiling.permission_mode,
        ),
        permissions: definition.permissions.clone(),
        sandbox: of.narrower(Field::Sandbox, definition.sandbox, call.sandbox, ceiling.sandbox),
        limits: of.limits(&call.limits),
        provider: of.option(Field::Provider, definition.provider.as_ref(), call.provider.as_ref(), |name| {
            escape(name)
        }),
        command: Vec::new(),
        skills: of.given(Field::Skills, &definition.skills, &call.skills, show_skills),
        mcp_servers: definition.mcp_servers.clone(),
        hooks: definition.hooks.clone(),
        memory: of.given(Field::Memory, &definition.memory, &call.memory, ToString::to_string),
        background: of.option(
            Field::Background,
            definition.background.as_ref(),
            call.background.as_ref(),
            ToString::to_string,
        ),
        isolation: of.given(Field::Isolation, &definition.isolation, &call.isolation, ToString::to_string),
        context: of.context(&call.context),
        allowed_subagents: of.types(call, ceiling),
        max_depth: of.narrower(Field::MaxDepth, definition.max_depth, call.max_depth, ceiling.max_depth),
    };
    // A program belongs to the provider that the definition names, and to no other.
    let same = effective.provider == definition.provider;
    let command = if same { definition.command.clone() } else { Vec::new() };
    Combined { effective: Effective { command, ..effective }, notes: of.notes }
}

struct Combiner<'a> {
    definition: &'a AgentDefinition,
    notes: Vec<Note>,
}

impl Combiner<'_> {
    fn note(&mut self, field: Field, aside: &str, counts: &str, why: Why) {
        self.notes.push(Note { field, aside: escape(aside), counts: escape(counts), why });
    }

    /// A field with three answers: the call counts unless it says nothing or the field is locked.
    fn given<T: Clone + PartialEq>(
        &mut self,
        field: Field,
        file: &Given<T>,
        call: &Given<T>,
        show: impl Fn(&T) -> String,
    ) -> Given<T> {
        let told = |given: &Given<T>| match given {
            Given::Omitted => String::from("the default"),
            Given::Nothing => String::from("none"),
            Given::Value(value) => show(value),
        };
        if call.is_omitted() || call == file {
            return file.clone();
        }
        if self.definition.locks.contains(&field) {
            self.note(field, &told(call), &told(file), Why::Locked);
            return file.clone();
        }
        if !file.is_omitted() {
            self.note(field, &told(file), &told(call), Why::CallerWins);
        }
        call.clone()
    }

    /// A field with two answers.
    fn option<T: Clone + PartialEq>(
        &mut self,
        field: Field,
        file: Option<&T>,
        call: Option<&T>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let as_given = |option: Option<&T>| option.cloned().map_or(Given::Omitted, Given::Value);
        self.given(field, &as_given(file), &as_given(call), show).value().cloned()
    }

    /// A field in which less is narrower: the least of all counts.
    fn narrower<T: Copy + Ord + fmt::Display>(
        &mut self,
        field: Field,
        file: Option<T>,
        call: Option<T>,
        parent: Option<T>,
    ) -> Option<T> {
        let mut counts = call.or(file);
        if let (Some(file), Some(call)) = (file, call)
            && call > file
        {
            self.note(field, &call.to_string(), &file.to_string(), Why::WiderThanDefinition);
            counts = Some(file);
        }
        if let (Some(own), Some(parent)) = (counts, parent)
            && own > parent
        {
            self.note(field, &own.to_string(), &parent.to_string(), Why::WiderThanParent);
        }
        match (counts, parent) {
            (Some(own), Some(parent)) => Some(own.min(parent)),
            (own, parent) => own.or(parent),
        }
    }

    fn tools(&mut self, call: &Call, ceiling: &Ceiling) -> Given<ToolList> {
        let both = self.tools_within(&call.tools, &self.definition.tools.clone(), Why::WiderThanDefinition);
        self.tools_within(&both, &ceiling.tools, Why::WiderThanParent)
    }

    /// Tools of one list that lie within another.
    fn tools_within(
        &mut self,
        inner: &Given<ToolList>,
        outer: &Given<ToolList>,
        why: Why,
    ) -> Given<ToolList> {
        match (inner, outer) {
            (_, Given::Omitted) => inner.clone(),
            (Given::Omitted, outer) => outer.clone(),
            (Given::Nothing, _) => Given::Nothing,
            (Given::Value(list), Given::Nothing) => {
                self.note(Field::Tools, &list.to_string(), "none", why);
                Given::Nothing
            }
            (Given::Value(list), Given::Value(bound)) => {
                let (kept, dropped) = list.within(bound);
                let counts = if kept.is_empty() { Given::Nothing } else { Given::Value(kept) };
                if !dropped.is_empty() {
                    let told = counts.value().map_or_else(|| String::from("none"), ToString::to_string);
                    self.note(Field::Tools, &join(&dropped), &told, why);
                }
                counts
            }
        }
    }

    /// Whatever anybody took away is taken away.
    fn denied(&self, call: &Call, ceiling: &Ceiling) -> ToolList {
        [&self.definition.disallowed_tools, &call.disallowed_tools, &ceiling.disallowed_tools]
            .into_iter()
            .filter_map(Given::value)
            .fold(ToolList::default(), |all, list| all.and(list))
    }

    fn types(&mut self, call: &Call, ceiling: &Ceiling) -> Given<Vec<String>> {
        let file = self.definition.allowed_subagents.clone();
        let both = self.types_within(&call.allowed_subagents, &file, Why::WiderThanDefinition);
        self.types_within(&both, &ceiling.allowed_subagents, Why::WiderThanParent)
    }

    fn types_within(
        &mut self,
        inner: &Given<Vec<String>>,
        outer: &Given<Vec<String>>,
        why: Why,
    ) -> Given<Vec<String>> {
        let (names, bound): (&[String], &[String]) = match (inner, outer) {
            (_, Given::Omitted) => return inner.clone(),
            (Given::Omitted, outer) => return outer.clone(),
            (Given::Nothing, _) => return Given::Nothing,
            (Given::Value(names), Given::Nothing) => (names, &[]),
            (Given::Value(names), Given::Value(bound)) => (names, bound),
        };
        let (kept, dropped): (Vec<String>, Vec<String>) =
            names.iter().cloned().partition(|name| bound.iter().any(|it| fold(it) == fold(name)));
        let told = if kept.is_empty() { String::from("none") } else { join(&kept) };
        if !dropped.is_empty() {
            self.note(Field::AllowedSubagents, &join(&dropped), &told, why);
        }
        if kept.is_empty() { Given::Nothing } else { Given::Value(kept) }
    }

    fn limits(&mut self, call: &Limits) -> Limits {
        let file = self.definition.limits.clone();
        Limits {
            max_turns: self.given(Field::MaxTurns, &file.max_turns, &call.max_turns, ToString::to_string),
            grace_turns: self.given(
                Field::GraceTurns,
                &file.grace_turns,
                &call.grace_turns,
                ToString::to_string,
            ),
            max_tokens: self.given(Field::MaxTokens, &file.max_tokens, &call.max_tokens, ToString::to_string),
            max_cost_usd: self.given(
                Field::MaxCostUsd,
                &file.max_cost_usd,
                &call.max_cost_usd,
                ToString::to_string,
            ),
            max_tool_calls: self.given(
                Field::MaxToolCalls,
                &file.max_tool_calls,
                &call.max_tool_calls,
                ToString::to_string,
            ),
            timeout_ms: self
                .given(Field::Timeout, &file.timeout_ms, &call.timeout_ms, |ms| format!("{ms} ms")),
        }
    }

    fn context(&mut self, call: &ContextOptions) -> ContextOptions {
        let file = self.definition.context.clone();
        let switch = |it: &bool| format!("instructions {it}");
        ContextOptions {
            instructions: self.option(
                Field::Context,
                file.instructions.as_ref(),
                call.instructions.as_ref(),
                switch,
            ),
            start: self.option(Field::Context, file.start.as_ref(), call.start.as_ref(), ToString::to_string),
            initial_prompt: self.given(Field::Context, &file.initial_prompt, &call.initial_prompt, |text| {
                format!("an initial prompt of {} bytes", text.len())
            }),
            compact_at: self.given(Field::Context, &file.compact_at, &call.compact_at, ToString::to_string),
        }
    }
}

fn show_skills(skills: &Skills) -> String {
    match skills {
        Skills::All => String::from("all"),
        Skills::Only(names) => join(names),
    }
}
