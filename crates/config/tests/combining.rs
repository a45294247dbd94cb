//! A definition and a call: rows DEF-03, DEF-08, DEF-09 and DEF-10 as tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use common::{World, one, words};
use proptest::prelude::{Strategy, any, proptest};
use proptest::{collection, option, prop_assert, prop_oneof};
use subagent_config::{
    AgentDefinition, AgentName, Call, Ceiling, Combined, ContextOptions, ContextStart, Dialect, Effort,
    Field, Given, Isolation, Limits, ModelChoice, PermissionMode, Prompt, PromptMode, Sandbox, Scope, Skills,
    Source, ToolList, Why, combine,
};

fn definition(change: impl FnOnce(&mut AgentDefinition)) -> AgentDefinition {
    let source = Source { path: None, dialect: Dialect::Subagent, scope: Scope::Runtime, trusted: true };
    let prompt = Prompt { text: String::from("Work."), mode: PromptMode::Append, template: false };
    let mut it = AgentDefinition::new(AgentName::new("it").unwrap(), "Works.", prompt, source);
    change(&mut it);
    it
}

fn list(tools: &[&str]) -> Given<ToolList> {
    Given::Value(ToolList::new(tools.iter().copied()))
}

fn named(model: &str) -> Given<ModelChoice> {
    Given::Value(ModelChoice::Named(model.to_owned()))
}

fn notes(combined: &Combined) -> Vec<String> {
    combined.notes.iter().map(ToString::to_string).collect()
}

/// A definition and a call that both say everything.
fn both() -> (AgentDefinition, Call) {
    let it = definition(|it| {
        it.model = named("file");
        it.effort = Given::Value(Effort::Low);
        it.limits.max_turns = 5.into();
        it.limits.timeout_ms = 1_000.into();
        it.provider = Some(String::from("claude"));
        it.context.start = Some(ContextStart::Fresh);
        it.isolation = Given::Value(Isolation::Worktree);
        it.background = Some(true);
    });
    let call = Call {
        model: named("call"),
        effort: Given::Value(Effort::Max),
        limits: Limits { max_turns: 50.into(), timeout_ms: Given::Nothing, ..Limits::default() },
        provider: Some(String::from("codex")),
        context: ContextOptions { start: Some(ContextStart::Fork), ..ContextOptions::default() },
        isolation: Given::Nothing,
        background: Some(false),
        ..Call::default()
    };
    (it, call)
}

#[test]
fn def_08_the_caller_wins_and_what_was_set_aside_is_told() {
    let (it, call) = both();
    let combined = combine(&it, &call, &Ceiling::default());
    let effective = &combined.effective;
    assert_eq!(effective.model, named("call"));
    assert_eq!(effective.effort, Given::Value(Effort::Max));
    assert_eq!((&effective.limits.max_turns, &effective.limits.timeout_ms), (&50.into(), &Given::Nothing));
    assert_eq!(effective.context.start, Some(ContextStart::Fork));
    assert_eq!((&effective.isolation, effective.background), (&Given::Nothing, Some(false)));
    assert_eq!(
        notes(&combined),
        [
            "model: call, as the call says; file in the definition is set aside",
            "effort: max, as the call says; low in the definition is set aside",
            "max_turns: 50, as the call says; 5 in the definition is set aside",
            "timeout: none, as the call says; 1000 ms in the definition is set aside",
            "provider: codex, as the call says; claude in the definition is set aside",
            "background: false, as the call says; true in the definition is set aside",
            "isolation: none, as the call says; worktree in the definition is set aside",
            "context: fork, as the call says; fresh in the definition is set aside",
        ]
    );
}

#[test]
fn def_08_a_locked_field_stays_and_that_is_told() {
    let (mut it, call) = both();
    it.locks = [Field::Model, Field::MaxTurns, Field::Context, Field::Isolation].into();
    let combined = combine(&it, &call, &Ceiling::default());
    let effective = &combined.effective;
    assert_eq!((&effective.model, &effective.limits.max_turns), (&named("file"), &5.into()));
    assert_eq!(effective.context.start, Some(ContextStart::Fresh));
    assert_eq!(
        (&effective.isolation, &effective.effort),
        (&Given::Value(Isolation::Worktree), &Given::Value(Effort::Max))
    );
    let locked: Vec<_> =
        combined.notes.iter().filter(|note| note.why == Why::Locked).map(ToString::to_string).collect();
    assert_eq!(
        locked,
        [
            "model: file, locked by the definition; call in the call is set aside",
            "max_turns: 5, locked by the definition; 50 in the call is set aside",
            "isolation: worktree, locked by the definition; none in the call is set aside",
            "context: fresh, locked by the definition; fork in the call is set aside",
        ]
    );
    // A field that is locked and empty keeps the default.
    let bare = definition(|it| it.locks = [Field::Model].into());
    let combined = combine(&bare, &call, &Ceiling::default());
    assert_eq!(combined.effective.model, Given::Omitted);
    assert_eq!(
        notes(&combined)[0],
        "model: the default, locked by the definition; call in the call is set aside"
    );
}

#[test]
fn def_08_nothing_is_told_where_nothing_was_set_aside() {
    let (it, call) = both();
    assert_eq!(notes(&combine(&it, &Call::default(), &Ceiling::default())), [""; 0]);
    assert_eq!(notes(&combine(&definition(|_| ()), &call, &Ceiling::default())), [""; 0]);
    let same = Call { model: named("file"), ..Call::default() };
    assert_eq!(notes(&combine(&it, &same, &Ceiling::default())), [""; 0]);
}

#[test]
fn def_08_the_program_of_one_provider_is_not_that_of_another() {
    let it = definition(|it| {
        it.provider = Some(String::from("exec"));
        it.command = words(&["make"]);
    });
    assert_eq!(combine(&it, &Call::default(), &Ceiling::default()).effective.command, ["make"]);
    let other = Call { provider: Some(String::from("claude")), ..Call::default() };
    assert_eq!(combine(&it, &other, &Ceiling::default()).effective.command, [""; 0]);
}

#[test]
fn def_09_a_call_can_only_narrow() {
    let it = definition(|it| {
        it.tools = list(&["Read", "Bash(git *)", "mcp__tracker__*"]);
        it.disallowed_tools = list(&["Write"]);
        it.sandbox = Some(Sandbox::WorkspaceWrite);
        it.permission_mode = Some(PermissionMode::Ask);
        it.allowed_subagents = Given::Value(words(&["Explore", "plan"]));
        it.max_depth = Some(2);
    });
    let wide = Call {
        tools: list(&["Read", "Write", "Bash", "mcp__tracker__read"]),
        sandbox: Some(Sandbox::FullAccess),
        permission_mode: Some(PermissionMode::Bypass),
        allowed_subagents: Given::Value(words(&["explore", "general-purpose"])),
        max_depth: Some(9),
        ..Call::default()
    };
    let combined = combine(&it, &wide, &Ceiling::default());
    let effective = &combined.effective;
    assert_eq!(effective.tools, list(&["Read", "Bash(git *)", "mcp__tracker__read"]));
    assert_eq!((effective.sandbox, effective.permission_mode), (it.sandbox, it.permission_mode));
    assert_eq!(
        (&effective.allowed_subagents, effective.max_depth),
        (&Given::Value(words(&["explore"])), Some(2))
    );
    assert_eq!(
        notes(&combined),
        [
            "tools: Read, Bash(git *), mcp__tracker__read; Write, Bash in the call is more than the definition allows",
            "permission_mode: ask; bypass in the call is more than the definition allows",
            "sandbox: workspace-write; full-access in the call is more than the definition allows",
            "allowed_subagents: explore; general-purpose in the call is more than the definition allows",
            "max_depth: 2; 9 in the call is more than the definition allows",
        ]
    );
    let narrow = Call {
        tools: list(&["Read"]),
        disallowed_tools: list(&["Bash"]),
        sandbox: Some(Sandbox::ReadOnly),
        permission_mode: Some(PermissionMode::Plan),
        allowed_subagents: Given::Nothing,
        max_depth: Some(0),
        ..Call::default()
    };
    let combined = combine(&it, &narrow, &Ceiling::default());
    let effective = &combined.effective;
    assert_eq!((&effective.tools, effective.sandbox), (&list(&["Read"]), Some(Sandbox::ReadOnly)));
    assert_eq!(effective.disallowed_tools, ToolList::new(["Write", "Bash"]));
    assert_eq!((&effective.allowed_subagents, effective.max_depth), (&Given::Nothing, Some(0)));
    assert_eq!(notes(&combined), [""; 0]);
}

#[test]
fn def_09_a_child_has_at_most_what_its_parent_has() {
    let it = definition(|it| {
        it.tools = list(&["*"]);
        it.sandbox = Some(Sandbox::FullAccess);
        it.permission_mode = Some(PermissionMode::Bypass);
    });
    let parent = Ceiling {
        tools: list(&["Read", "Grep"]),
        disallowed_tools: list(&["Bash"]),
        sandbox: Some(Sandbox::ReadOnly),
        permission_mode: Some(PermissionMode::Ask),
        allowed_subagents: Given::Nothing,
        max_depth: Some(1),
    };
    for it in [&it, &definition(|_| ())] {
        let combined = combine(it, &Call::default(), &parent);
        let effective = &combined.effective;
        assert_eq!(effective.tools, list(&["Read", "Grep"]));
        assert_eq!((effective.sandbox, effective.permission_mode), (parent.sandbox, parent.permission_mode));
        assert_eq!((&effective.allowed_subagents, effective.max_depth), (&Given::Nothing, Some(1)));
        assert!(!effective.may_spawn("plan") && !effective.permits("Bash") && effective.permits("Read"));
    }
    assert_eq!(
        notes(&combine(&it, &Call::default(), &parent)),
        [
            "tools: Read, Grep; * is more than the parent has",
            "permission_mode: ask; bypass is more than the parent has",
            "sandbox: read-only; full-access is more than the parent has",
        ]
    );
}

#[test]
fn def_03_a_file_without_tools_has_all_and_one_with_an_empty_list_has_none() {
    let there_are = ["Read", "Write", "Bash", "mcp__tracker__read"];
    let of = |tools, denied, call| {
        let it = definition(|it| {
            it.tools = tools;
            it.disallowed_tools = denied;
        });
        combine(&it, &Call { tools: call, ..Call::default() }, &Ceiling::default())
            .effective
            .tools_of(&there_are)
    };
    assert_eq!(of(Given::Omitted, Given::Omitted, Given::Omitted), there_are);
    assert_eq!(of(Given::Omitted, Given::Nothing, Given::Omitted), there_are);
    assert_eq!(of(Given::Nothing, Given::Omitted, Given::Omitted), [""; 0]);
    assert_eq!(of(Given::Omitted, Given::Omitted, Given::Nothing), [""; 0]);
    assert_eq!(of(Given::Nothing, Given::Omitted, list(&["Read"])), [""; 0]);
    assert_eq!(of(list(&["Read", "Missing"]), Given::Omitted, Given::Omitted), ["Read"]);
    assert_eq!(of(list(&["Read"]), Given::Omitted, Given::Nothing), [""; 0]);
    // A list of which nothing is left is none, and never all.
    assert_eq!(of(list(&["Read"]), Given::Omitted, list(&["Write"])), [""; 0]);
    assert_eq!(of(list(&["*"]), list(&["mcp__*", "Bash"]), Given::Omitted), ["Read", "Write"]);
    // A tool that may be called in some ways is there; one of which some calls are denied is there too.
    assert_eq!(of(list(&["Bash(git *)"]), list(&["Bash(git push *)"]), Given::Omitted), ["Bash"]);
}

#[test]
fn def_03_each_answer_of_the_file_meets_each_answer_of_the_call() {
    use Given::{Nothing, Omitted, Value};
    let all = || [Omitted, Nothing, Value(Skills::All)];
    for file in all() {
        for call in all() {
            let it = definition(|it| it.skills = file.clone());
            let combined =
                combine(&it, &Call { skills: call.clone(), ..Call::default() }, &Ceiling::default());
            assert_eq!(combined.effective.skills, call.clone().or(file.clone()), "{file:?} {call:?}");
            assert_eq!(combined.notes.is_empty(), call.is_omitted() || file.is_omitted() || call == file);
        }
    }
}

#[test]
fn def_10_no_type_means_no_tools_and_no_other_type() {
    let world = World::new();
    world.own("narrow", "tools: none");
    let catalog = world.load();
    assert!(catalog.get("narow").is_err());
    assert!(
        !combine(&one(&catalog, "narrow"), &Call::default(), &Ceiling::default()).effective.permits("Read")
    );
}

fn given<T: Clone + std::fmt::Debug + 'static>(
    some: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Given<T>> {
    prop_oneof![
        proptest::strategy::Just(Given::Omitted),
        proptest::strategy::Just(Given::Nothing),
        some.prop_map(Given::Value),
    ]
}

fn tools() -> impl Strategy<Value = Given<ToolList>> {
    given(collection::vec("[ab*]{1,3}(\\([ab*]{1,2}\\))?", 1..4).prop_map(ToolList::new))
}

fn word<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = Option<T>> {
    option::of((0..all.len()).prop_map(move |index| all[index]))
}

proptest! {
    /// Whatever a call asks for, the child has nothing that the definition or the parent has not.
    #[test]
    fn def_09_no_call_widens(
        (file, call, parent) in (tools(), tools(), tools()),
        (file_mode, call_mode, parent_mode) in
            (word(PermissionMode::ALL), word(PermissionMode::ALL), word(PermissionMode::ALL)),
        (file_box, call_box, parent_box) in (word(Sandbox::ALL), word(Sandbox::ALL), word(Sandbox::ALL)),
        denied in tools(),
        locked in any::<bool>(),
        tool in "[ab]{1,3}",
    ) {
        let it = definition(|it| {
            it.tools = file.clone();
            it.disallowed_tools = denied.clone();
            it.permission_mode = file_mode;
            it.sandbox = file_box;
            if locked {
                it.locks = Field::ALL.iter().copied().collect();
            }
        });
        let call = Call { tools: call, permission_mode: call_mode, sandbox: call_box, ..Call::default() };
        let ceiling =
            Ceiling { tools: parent, permission_mode: parent_mode, sandbox: parent_box, ..Ceiling::default() };
        let effective = combine(&it, &call, &ceiling).effective;
        let alone = |tools: &Given<ToolList>| {
            let it = definition(|it| it.tools = tools.clone());
            combine(&it, &Call::default(), &Ceiling::default()).effective.permits(&tool)
        };
        if effective.permits(&tool) {
            prop_assert!(alone(&file) && alone(&call.tools) && alone(&ceiling.tools));
            prop_assert!(!denied.value().is_some_and(|denied| denied.covers(&tool)));
        }
        for bound in [file_mode, call_mode, parent_mode].into_iter().flatten() {
            prop_assert!(effective.permission_mode.is_some_and(|mode| mode <= bound));
        }
        for bound in [file_box, call_box, parent_box].into_iter().flatten() {
            prop_assert!(effective.sandbox.is_some_and(|sandbox| sandbox <= bound));
        }
    }
}
