//! Rows of budgets: near the limit one request to wrap up, at the limit the cut; deadlines; budgets of trees. Each test is
//! named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use subagent_model::request::{BudgetRequest, ResumeRequest, SpawnRequest};
use subagent_model::{
    Budget, ErrorCode, EventKind, Limit, Mark, Outcome, Status, SubagentId, SubagentRecord, Talk, TreeBudget,
};
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::until_async;
use support::{World, me, plain, scripted, shell, under, waiting, world};

fn limited(budget: Budget, script: &str) -> SpawnRequest {
    SpawnRequest { budget, ..scripted(script) }
}

fn tokens(most: u64) -> Budget {
    Budget { max_tokens: Some(most), ..Budget::default() }
}

fn limit_of(record: &SubagentRecord, world: &World) -> Option<Limit> {
    world.all_events().into_iter().filter(|event| event.subagent == record.id).find_map(|event| {
        match event.kind {
            EventKind::Ended { outcome: Outcome::Aborted { limit }, .. } => Some(limit),
            _ => None,
        }
    })
}

/// What the child was told by messages, without their numbers.
fn steers(world: &World, id: SubagentId) -> Vec<String> {
    let heard = world.fake.heard_by(id).into_iter();
    heard
        .filter_map(|told| told.strip_prefix("steer ")?.split_once(' ').map(|(_, text)| text.to_owned()))
        .collect()
}

fn count(kinds: &[&str], kind: &str) -> usize {
    kinds.iter().filter(|other| **other == kind).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_13_near_each_limit_a_run_is_told_once_and_ends_by_itself() {
    let world = world(Limits::default()).await;
    let cost = Budget { max_cost_usd: Some(1.0), ..Budget::default() };
    let calls = Budget { max_tool_calls: Some(10), ..Budget::default() };
    for (limit, budget, before, near, after) in [
        (Limit::Tokens, tokens(100), "use 80 9", "use 1 0", "use 5 4"),
        (Limit::Cost, cost, "use 1 1 0.89", "use 1 1 0.01", "use 1 1 0.09"),
        (Limit::ToolCalls, calls, "repeat 8 tool read", "tool read", "use 1 1"),
    ] {
        let name = format!("{limit:?}");
        let script = format!(
            "{before}\nturn\ngate {name} before\n{near}\nawait steer\n{after}\nturn\ngate {name} after\nsay wrapped up"
        );
        let id = world.spawn(limited(budget, &script)).await;
        world.fake.gate(&format!("{name} before")).reached().await;
        until_async("its progress", || async {
            (world.engine.get(&me(), id).await.unwrap().turn_count == 1).then_some(())
        })
        .await;
        assert_eq!(world.engine.get(&me(), id).await.unwrap().wrap_up, None, "{name}: not yet");
        world.fake.gate(&format!("{name} before")).open();
        world.fake.gate(&format!("{name} after")).reached().await;
        world.fake.gate(&format!("{name} after")).open();
        let record = world.ended(id).await;
        assert_eq!(record.status, Status::Completed, "{record:?}");
        assert_eq!(record.wrap_up.map(|wrap_up| wrap_up.limit), Some(limit));
        let told = steers(&world, id);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("Wrap up now"), "{told:?}");
        assert_eq!(count(&world.all_kinds(id), "wrap_up_asked"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_13_at_the_limit_it_is_cut_with_what_it_has_and_its_slot_is_free() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let cost = Budget { max_cost_usd: Some(1.0), ..Budget::default() };
    let calls = Budget { max_tool_calls: Some(2), ..Budget::default() };
    for (limit, budget, over) in [
        (Limit::Tokens, tokens(100), "use 99 1"),
        (Limit::Cost, cost, "use 1 1 1.0"),
        (Limit::ToolCalls, calls, "repeat 2 tool read"),
    ] {
        for deaf in ["", "deaf\n"] {
            let script = format!("{deaf}say partly\n{over}\ngate never\nsay all of it");
            let reply = world.engine.spawn(&me(), waiting(limited(budget, &script))).await.unwrap();
            assert!(reply.ended, "{limit:?}: a waiter is answered");
            let record = reply.record;
            assert_eq!((record.status, limit_of(&record, &world)), (Status::Aborted, Some(limit)));
            assert_eq!(record.result.as_ref().unwrap().preview, "partly");
            assert!(record.marks.contains(&Mark::Partial), "{record:?}");
            assert_eq!(world.notices(record.id).await, 1);
            assert_eq!(world.engine.health().await.unwrap().running, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_20_the_limit_the_count_and_the_warning_are_data() {
    let world = world(Limits::default()).await;
    let budget = Budget { max_turns: Some(2), grace_turns: Some(3), ..Budget::default() };
    // It was near another limit before: the grace of turns is counted from its own request.
    let budget = Budget { max_tokens: Some(100), ..budget };
    let wraps =
        limited(budget, "use 90 1\nawait steer\nturn\nturn\nawait steer\nturn\nlast turn\nsay wrapped");
    let record = world.engine.spawn(&me(), waiting(wraps)).await.unwrap().record;
    assert_eq!((record.status, record.turn_count, record.max_turns), (Status::Steered, 4, Some(2)));
    assert_eq!(record.wrap_up.map(|wrap_up| wrap_up.limit), Some(Limit::Turns));
    let told = steers(&world, record.id);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("token") && told[1].contains("turn limit"), "{told:?}");
    // Exactly N and done: its limit was never in its way.
    let fits = limited(budget, "turn\nlast turn\nsay done");
    let record = world.engine.spawn(&me(), waiting(fits)).await.unwrap().record;
    assert_eq!((record.status, record.turn_count, record.wrap_up), (Status::Completed, 2, None));
    // One more than N + G is never begun.
    let goes_on = limited(budget, "say partly\nturn\nturn\nawait steer\nturn\nturn\nturn\ngate never\nturn");
    let record = world.engine.spawn(&me(), waiting(goes_on)).await.unwrap().record;
    assert_eq!((record.status, record.turn_count), (Status::Aborted, 5));
    assert_eq!(limit_of(&record, &world), Some(Limit::Turns));
    assert_eq!(record.result.unwrap().preview, "partly");
    // The next run has turns of its own.
    let again = ResumeRequest {
        prompt: String::from("turn\nsay again"),
        wait_ms: Some(20_000),
        ..ResumeRequest::default()
    };
    let record = world.engine.resume(&me(), record.id, again).await.unwrap().record;
    assert_eq!((record.status, record.turn_count, record.wrap_up), (Status::Completed, 1, None));
    assert_eq!(record.earlier_runs[0].turn_count, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_13_a_running_budget_can_be_extended_and_is_judged_anew() {
    let world = world(Limits::default()).await;
    let script = "use 90 0\nawait steer\ngate a\nuse 100 0\nturn\ngate b\nuse 730 0\nawait steer\ngate c\nuse 90 0\ngate never";
    let id = world.spawn(limited(tokens(100), script)).await;
    world.fake.gate("a").reached().await;
    let more = BudgetRequest { max_tokens: Some(1_000), ..BudgetRequest::default() };
    let record = world.engine.change_budget(&me(), id, more).await.unwrap();
    assert_eq!((record.budget.max_tokens, record.wrap_up), (Some(1_000), None));
    world.fake.gate("a").open();
    world.fake.gate("b").reached().await;
    world.fake.gate("b").open();
    // Near the new limit it is told again.
    world.fake.gate("c").reached().await;
    assert_eq!(steers(&world, id).len(), 2);
    world.fake.gate("c").open();
    let record = world.ended(id).await;
    assert_eq!((record.status, limit_of(&record, &world)), (Status::Aborted, Some(Limit::Tokens)));
    assert_eq!(record.run_usage.unwrap().total, 1_010);
    let refusal = world.engine.change_budget(&me(), id, more).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::IllegalTransition);
    // 0 lifts a limit; what is absent stays.
    let calls = Budget { max_tool_calls: Some(1), ..tokens(100) };
    let id = world.spawn(limited(calls, "gate d\nrepeat 9 tool read\nsay done")).await;
    world.fake.gate("d").reached().await;
    let lifted = BudgetRequest { max_tool_calls: Some(0), ..BudgetRequest::default() };
    let record = world.engine.change_budget(&me(), id, lifted).await.unwrap();
    assert_eq!(record.budget.max_tokens, Some(100));
    world.fake.gate("d").open();
    assert_eq!(world.ended(id).await.status, Status::Completed);
    // Less than it has used already: it is cut now, though it says nothing any more.
    let id = world.spawn(limited(tokens(1_000), "say partly\nuse 500 0\nturn\ngate never")).await;
    world.fake.gate("never").reached().await;
    until_async("its progress", || async {
        (world.engine.get(&me(), id).await.unwrap().turn_count == 1).then_some(())
    })
    .await;
    let near = BudgetRequest { max_tokens: Some(550), ..BudgetRequest::default() };
    let record = world.engine.change_budget(&me(), id, near).await.unwrap();
    assert_eq!(record.wrap_up.map(|wrap_up| wrap_up.limit), Some(Limit::Tokens));
    let less = BudgetRequest { max_tokens: Some(500), ..BudgetRequest::default() };
    world.engine.change_budget(&me(), id, less).await.unwrap();
    let record = world.ended(id).await;
    assert_eq!((record.status, limit_of(&record, &world)), (Status::Aborted, Some(Limit::Tokens)));
    assert_eq!(record.result.unwrap().preview, "partly");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_13_a_limit_that_could_never_act_is_refused() {
    let world = world(Limits::default()).await;
    let budgets = [
        tokens(100),
        Budget { max_turns: Some(3), ..Budget::default() },
        Budget { max_cost_usd: Some(0.5), ..Budget::default() },
        Budget { max_tool_calls: Some(3), ..Budget::default() },
    ];
    for budget in budgets {
        for request in [plain("say x"), shell("true")] {
            let provider = request.provider.clone();
            let refusal = world.engine.spawn(&me(), SpawnRequest { budget, ..request }).await.unwrap_err();
            assert_eq!(refusal.code, ErrorCode::NotCapable, "{budget:?}");
            assert!(refusal.message.contains(&provider) && refusal.hint.unwrap().contains("deadline"));
        }
    }
    for cost in [-1.0, f64::NAN, f64::INFINITY] {
        let budget = Budget { max_cost_usd: Some(cost), ..Budget::default() };
        let refusal = world.engine.spawn(&me(), limited(budget, "say x")).await.unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidRequest);
    }
    let id = world.spawn(plain("gate a")).await;
    let more = BudgetRequest { max_turns: Some(1), ..BudgetRequest::default() };
    assert_eq!(world.engine.change_budget(&me(), id, more).await.unwrap_err().code, ErrorCode::NotCapable);
    assert!(world.all_events().iter().all(|event| event.subagent == id));
    world.fake.gate("a").open();
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_14_a_tree_reserves_at_the_spawn_and_gives_back_at_the_end() {
    let world = world(Limits::default()).await;
    let root = SpawnRequest {
        tree_budget: TreeBudget { max_tokens: Some(100), max_cost_usd: None },
        ..scripted("gate root\nsay root")
    };
    let root = world.spawn(root).await;
    let a = world.spawn(under(root, limited(tokens(60), "gate a\nuse 10 5\nsay a"))).await;
    let refusal = world.engine.spawn(&me(), under(root, limited(tokens(60), "say b"))).await.unwrap_err();
    assert_eq!((refusal.code, refusal.limit, refusal.used), (ErrorCode::TreeBudget, Some(100), Some(60)));
    let small = world.spawn(under(root, limited(tokens(40), "gate small\nsay small"))).await;
    let free = world.engine.spawn(&me(), under(root, scripted("say c"))).await.unwrap_err();
    assert_eq!(free.code, ErrorCode::TreeBudget, "nothing is left even for one that reserves nothing");
    for (gate, id) in [("a", a), ("small", small)] {
        world.fake.gate(gate).open();
        world.ended(id).await;
    }
    // 15 are used, the rest was given back.
    let refusal = world.engine.spawn(&me(), under(root, limited(tokens(86), "say b"))).await.unwrap_err();
    assert_eq!(refusal.used, Some(15));
    let b = world.spawn(under(root, limited(tokens(85), "say b"))).await;
    assert_eq!(world.ended(b).await.status, Status::Completed);
    let below = SpawnRequest {
        tree_budget: TreeBudget { max_tokens: Some(5), max_cost_usd: None },
        ..under(root, scripted("say c"))
    };
    let refusal = world.engine.spawn(&me(), below).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::InvalidRequest);
    world.fake.gate("root").open();
    assert_eq!(world.ended(root).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_14_a_tree_that_has_used_its_budget_ends_with_what_it_has() {
    let world = world(Limits { running: 3, ..Limits::default() }).await;
    let root = SpawnRequest {
        tree_budget: TreeBudget { max_tokens: Some(100), max_cost_usd: None },
        ..scripted("say root so far\ngate never\nsay more")
    };
    let root = world.spawn(root).await;
    let quiet = world.spawn(under(root, scripted("say quiet so far\ngate never\nsay more"))).await;
    let spends = "use 50 0\nturn\ngate half\nuse 40 0\nawait steer\nsay spends so far\ngate last\nuse 10 0\ngate never";
    let spender = world.spawn(under(root, scripted(spends))).await;
    let queued = world.spawn(under(quiet, scripted("say never"))).await;
    let stranger = world.spawn(scripted("say stranger")).await;
    world.fake.gate("never").reached().await;
    world.fake.gate("half").reached().await;
    let members = [root, quiet, spender];
    for id in members {
        assert!(steers(&world, id).is_empty());
    }
    world.fake.gate("half").open();
    world.fake.gate("last").reached().await;
    for id in members {
        let told =
            until_async("the request", || async { Some(steers(&world, id)).filter(|told| !told.is_empty()) });
        let told = told.await;
        assert!(told.len() == 1 && told[0].contains("share with others"), "{told:?}");
    }
    assert_eq!(world.status(queued).await, Status::Queued);
    // Like every other spending, that of a restart counts on from the store.
    world.fake.gate("last").open();
    let texts = [Some("root so far"), Some("quiet so far"), Some("spends so far"), None];
    for (id, text) in members.into_iter().chain([queued]).zip(texts) {
        let record = world.ended(id).await;
        assert_eq!((record.status, limit_of(&record, &world)), (Status::Aborted, Some(Limit::TreeTokens)));
        assert_eq!(record.result.as_ref().map(|text| text.preview.as_str()), text);
        assert_eq!(count(&world.all_kinds(id), "ended"), 1);
    }
    assert!(world.fake.launches().iter().all(|launch| launch.key.subagent != queued));
    assert_eq!(world.ended(stranger).await.status, Status::Completed);
    let again = ResumeRequest { prompt: String::from("say x"), ..ResumeRequest::default() };
    let refusal = world.engine.resume(&me(), root, again).await.unwrap_err();
    assert_eq!((refusal.code, refusal.limit, refusal.used), (ErrorCode::TreeBudget, Some(100), Some(100)));
}

/// The account of a tree is made anew from the records of its members.
#[tokio::test(flavor = "multi_thread")]
async fn queue_14_what_a_tree_has_used_outlives_the_engine() {
    let world = world(Limits::default()).await;
    let root = SpawnRequest {
        tree_budget: TreeBudget { max_tokens: Some(100), max_cost_usd: None },
        ..scripted("use 30 10\nsay root")
    };
    let root = world.engine.spawn(&me(), waiting(root)).await.unwrap().record.id;
    let world = world.restarted(Limits::default(), async || ()).await;
    let again = ResumeRequest {
        prompt: String::from("say root so far\nuse 60 0\ngate never"),
        wait_ms: Some(20_000),
        ..ResumeRequest::default()
    };
    let record = world.engine.resume(&me(), root, again).await.unwrap().record;
    assert_eq!((record.status, record.usage.unwrap().total), (Status::Aborted, 100));
    assert_eq!(limit_of(&record, &world), Some(Limit::TreeTokens));
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_13_near_its_deadline_a_run_is_told_and_may_still_end() {
    let world = world(Limits::default()).await;
    let request = SpawnRequest { deadline_ms: Some(3_000), ..waiting(scripted("await steer\nsay in time")) };
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!((record.status, record.result.unwrap().preview.as_str()), (Status::Completed, "in time"));
    let wrap_up = record.wrap_up.unwrap();
    assert_eq!(wrap_up.limit, Limit::Deadline);
    let after = wrap_up.at.since(record.started_at.unwrap());
    assert!(after >= Duration::from_millis(2_600), "told after {after:?}");
    let request = SpawnRequest { deadline_ms: Some(400), ..waiting(scripted("say partly\ngate never")) };
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!((record.status, limit_of(&record, &world)), (Status::Aborted, Some(Limit::Deadline)));
    assert_eq!((record.result.unwrap().preview.as_str(), steers(&world, record.id).len()), ("partly", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_15_the_deadline_of_a_child_that_never_reads_is_kept_from_outside() {
    let world = world(Limits::default()).await;
    let hello = r#"echo '{"type":"hello","version":1,"can":["steer","interrupt","took"]}';"#;
    let mut speaks = shell(&format!("trap '' TERM; {hello} echo up >&2; while :; do sleep 0.1; done"));
    speaks.exec.as_mut().unwrap().talk = Talk::Lines;
    let blocked = shell("trap '' TERM; echo so far; setsid sleep 60 & sleep 60");
    for request in [speaks, blocked] {
        let speaks_lines = request.exec.as_ref().unwrap().talk == Talk::Lines;
        let request = SpawnRequest { deadline_ms: Some(500), ..request };
        let id = world.spawn(request).await;
        let process = world.process(id).await;
        let record = world.ended(id).await;
        assert_eq!((record.status, limit_of(&record, &world)), (Status::Aborted, Some(Limit::Deadline)));
        assert!(!subagent_process::is_alive(&process), "{record:?}");
        let told = record.wrap_up.map(|wrap_up| wrap_up.limit);
        assert_eq!(told, speaks_lines.then_some(Limit::Deadline), "it was told, though it never reads");
        let took = record.exited_at.unwrap().since(record.started_at.unwrap());
        // Deadline, graces, and two seconds.
        assert!(took >= Duration::from_millis(450) && took < Duration::from_millis(5_800), "{took:?}");
        assert_eq!(world.engine.health().await.unwrap().running, 0);
    }
}
