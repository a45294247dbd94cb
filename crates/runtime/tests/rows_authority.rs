//! Rows PERM-11, PERM-12 and RESULT-11: who may see and do what. A person everything, a subagent what is below it, any other
//! requester what it asked for.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use subagent_model::request::{
    AnswerRequest, BudgetRequest, GcRequest, ListFilter, ResumeRequest, SpawnRequest, SteerRequest,
    StopAllRequest, StopRequest, WaitOptions,
};
use subagent_model::{
    Choice, Cursor, ErrorCode, Mode, Problem, RequestNumber, Requester, RunNumber, Status, SubagentId,
};
use subagent_runtime::{AckTarget, Caller, Limits, Runtime};
use subagent_testkit::until_async;

use support::{World, me, scripted, waiting, world};

fn api(name: &str) -> Caller {
    Caller { requester: Requester(format!("api:{name}")) }
}

fn agent(id: SubagentId) -> Caller {
    Caller { requester: Requester::subagent(id) }
}

fn roomy() -> Limits {
    Limits { running: 50, rate: 1_000, breadth: 1_000, tree_total: 2_000, depth: 5, ..Limits::default() }
}

async fn spawned_by(world: &World, caller: &Caller, request: SpawnRequest) -> SubagentId {
    world.engine.spawn(caller, request).await.unwrap().record.id
}

/// A person's tree of three levels, a sibling of the middle one, and what two clients asked for.
struct Trees {
    root: SubagentId,
    middle: SubagentId,
    leaf: SubagentId,
    sibling: SubagentId,
    of_a: SubagentId,
    of_b: SubagentId,
}

async fn trees(world: &World) -> Trees {
    let root = world.spawn(scripted("gate hold")).await;
    let middle = spawned_by(world, &agent(root), scripted("gate hold")).await;
    let sibling = spawned_by(world, &agent(root), scripted("gate hold")).await;
    let leaf = spawned_by(world, &agent(middle), scripted("gate hold")).await;
    let of_a = spawned_by(world, &api("a"), scripted("gate hold")).await;
    let of_b = spawned_by(world, &api("b"), scripted("gate hold")).await;
    world.fake.gate("hold").reached_by(6).await;
    Trees { root, middle, leaf, sibling, of_a, of_b }
}

async fn listed(world: &World, caller: &Caller) -> BTreeSet<SubagentId> {
    let page = world.engine.list(caller, ListFilter::default()).await.unwrap();
    page.items.into_iter().map(|record| record.id).collect()
}

/// The answers to everything that only looks at one subagent.
async fn looks(world: &World, caller: &Caller, id: SubagentId) -> Vec<(&'static str, Result<(), Problem>)> {
    let engine = &world.engine;
    let none = Some(Duration::ZERO);
    let soon = WaitOptions { run: None, timeout_ms: Some(1) };
    let of_run = WaitOptions { run: Some(RunNumber(1)), timeout_ms: Some(1) };
    vec![
        ("get", engine.get(caller, id).await.map(drop)),
        ("runs", engine.runs(caller, id).await.map(drop)),
        ("messages", engine.messages(caller, id).await.map(drop)),
        ("queue_place", engine.queue_place(caller, id).await.map(drop)),
        ("output", engine.output(caller, id, 0, none).await.map(drop)),
        ("wait", engine.wait(caller, id, soon).await.map(drop)),
        ("wait for a run", engine.wait(caller, id, of_run).await.map(drop)),
        ("result", {
            let result = engine.result(caller, id, None, 0, 10).await.map(drop);
            // There is none yet: whoever may ask is told so.
            result.or_else(
                |problem| if problem.code == ErrorCode::StillRunning { Ok(()) } else { Err(problem) },
            )
        }),
    ]
}

/// The answers to everything that would change one subagent. Those that may do it change nothing that the tests look at.
async fn controls(
    world: &World,
    caller: &Caller,
    id: SubagentId,
) -> Vec<(&'static str, Result<(), Problem>)> {
    let engine = &world.engine;
    let steer = SteerRequest { message: String::from("say hello"), ..SteerRequest::default() };
    let follow_up =
        ResumeRequest { prompt: String::from("say more"), queue: true, ..ResumeRequest::default() };
    let below = SpawnRequest { parent: Some(id.to_string()), ..scripted("say below") };
    let more = BudgetRequest { max_turns: Some(99), ..BudgetRequest::default() };
    vec![
        ("steer", engine.steer(caller, id, steer).await.map(drop)),
        ("resume", engine.resume(caller, id, follow_up).await.map(drop)),
        ("change_budget", engine.change_budget(caller, id, more).await.map(drop)),
        ("spawn below", engine.spawn(caller, below).await.map(drop)),
        ("stop", engine.stop(caller, id, StopRequest::default()).await.map(drop)),
    ]
}

fn assert_all(answers: Vec<(&'static str, Result<(), Problem>)>, allowed: bool, who: &str) {
    assert!(!answers.is_empty());
    for (call, answer) in answers {
        match answer {
            Ok(()) => assert!(allowed, "{who} could {call}"),
            Err(problem) => {
                assert!(!allowed, "{who} could not {call}: {problem:?}");
                assert_eq!(problem.code, ErrorCode::NotYours, "{who} {call}");
            }
        }
    }
}

#[tokio::test]
async fn perm_11_a_subagent_sees_what_is_below_it_and_nothing_else() {
    let world = world(roomy()).await;
    let trees = trees(&world).await;
    let middle = agent(trees.middle);
    assert_eq!(listed(&world, &middle).await, BTreeSet::from([trees.leaf]));
    assert_eq!(
        listed(&world, &agent(trees.root)).await,
        BTreeSet::from([trees.middle, trees.leaf, trees.sibling])
    );
    assert_eq!(listed(&world, &agent(trees.leaf)).await, BTreeSet::new());
    assert_all(looks(&world, &middle, trees.leaf).await, true, "the middle one of its leaf");
    assert_all(looks(&world, &middle, trees.middle).await, true, "the middle one of itself");
    for other in [trees.root, trees.sibling, trees.of_a] {
        assert_all(looks(&world, &middle, other).await, false, "the middle one of others");
    }
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_11_a_subagent_controls_what_is_below_it_and_neither_itself_nor_others() {
    let world = world(roomy()).await;
    let trees = trees(&world).await;
    let middle = agent(trees.middle);
    for other in [trees.root, trees.sibling, trees.of_b] {
        assert_all(controls(&world, &middle, other).await, false, "the middle one of others");
        assert_eq!(world.status(other).await, Status::Running);
    }
    let itself = world.engine.stop(&middle, trees.middle, StopRequest::default()).await.unwrap_err();
    assert_eq!(itself.code, ErrorCode::NotYours);
    assert_all(controls(&world, &middle, trees.leaf).await, true, "the middle one of its leaf");
    let record = world.engine.get(&me(), trees.leaf).await.unwrap();
    assert!(matches!(record.status, Status::Stopping | Status::Stopped));
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_11_what_a_subagent_spawns_is_nested_wherever_it_says_it_is() {
    let world = world(Limits { depth: 2, ..roomy() }).await;
    let trees = trees(&world).await;
    let deeper = world.engine.spawn(&agent(trees.leaf), scripted("say x")).await.unwrap_err();
    assert_eq!(deeper.code, ErrorCode::DepthLimit, "no new tree by leaving the parent out");
    let elsewhere = SpawnRequest { parent: Some(trees.sibling.to_string()), ..scripted("say x") };
    let refused = world.engine.spawn(&agent(trees.middle), elsewhere).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotYours);
    world.engine.stop(&me(), trees.middle, StopRequest::default()).await.unwrap();
    world.ended(trees.middle).await;
    let late = world.engine.spawn(&agent(trees.middle), scripted("say x")).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ParentEnded, "it ends with it");
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_12_a_client_sees_and_controls_only_its_own_and_a_person_everything() {
    let world = world(roomy()).await;
    let trees = trees(&world).await;
    assert_eq!(listed(&world, &api("a")).await, BTreeSet::from([trees.of_a]));
    for other in [trees.of_b, trees.root, trees.leaf] {
        assert_all(looks(&world, &api("a"), other).await, false, "a client of others");
        assert_all(controls(&world, &api("a"), other).await, false, "a client of others");
    }
    // What is below its own is its own.
    let below = spawned_by(&world, &agent(trees.of_a), scripted("gate hold")).await;
    assert_eq!(listed(&world, &api("a")).await, BTreeSet::from([trees.of_a, below]));
    assert_all(looks(&world, &api("a"), below).await, true, "a client of what is below its own");
    assert_all(controls(&world, &api("a"), below).await, true, "a client of what is below its own");

    // Another person of this machine, too.
    let person = Caller { requester: Requester::from("user:other") };
    assert_eq!(listed(&world, &person).await.len(), 8, "seven and the one that a control spawned");
    assert_all(looks(&world, &person, trees.of_b).await, true, "a person");
    assert_all(controls(&world, &person, trees.of_b).await, true, "a person");
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_12_what_is_for_all_is_for_a_person_alone() {
    let world = world(roomy()).await;
    let trees = trees(&world).await;
    for caller in [api("a"), agent(trees.root)] {
        let engine = &world.engine;
        for refused in [
            engine.inbox_of_all(&caller, 10).await.map(drop),
            engine.gc(&caller, GcRequest { dry_run: true, ..GcRequest::default() }).await.map(drop),
            Runtime::set_limits(engine, &caller, Limits::default()).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code, ErrorCode::NotYours);
        }
    }
    assert_eq!(world.engine.limits().await.unwrap().running, roomy().running, "nothing was changed");
    assert!(world.engine.inbox_of_all(&me(), 10).await.is_ok());
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_12_a_stop_of_everything_stops_what_is_the_callers() {
    let world = world(roomy()).await;
    let trees = trees(&world).await;
    let ids = |reply: subagent_model::request::StopAllReply| -> BTreeSet<_> {
        reply.stopped.into_iter().map(|record| record.id).collect()
    };
    let all = StopAllRequest::default();
    assert_eq!(ids(world.engine.stop_all(&api("a"), all).await.unwrap()), BTreeSet::from([trees.of_a]));
    assert_eq!(
        ids(world.engine.stop_all(&agent(trees.middle), all).await.unwrap()),
        BTreeSet::from([trees.leaf])
    );
    for other in [trees.root, trees.middle, trees.sibling, trees.of_b] {
        assert_eq!(world.status(other).await, Status::Running);
    }
    let rest = BTreeSet::from([trees.root, trees.middle, trees.sibling, trees.of_b]);
    assert_eq!(ids(world.engine.stop_all(&me(), all).await.unwrap()), rest);
}

#[tokio::test]
async fn perm_12_events_are_filtered_and_the_position_goes_on() {
    let world = world(roomy()).await;
    let trees = trees(&world).await;
    for (caller, expected) in [
        (api("a"), BTreeSet::from([trees.of_a])),
        (agent(trees.middle), BTreeSet::from([trees.middle, trees.leaf])),
        (api("nobody"), BTreeSet::new()),
    ] {
        let mut seen = BTreeSet::new();
        let (mut after, head) = (Cursor(0), world.all_events().last().unwrap().seq);
        while after < head {
            let page = world.engine.events(&caller, after, 3, None).await.unwrap();
            assert!(page.next > after, "a page of others moves on");
            after = page.next;
            seen.extend(page.items.iter().map(|event| event.subagent));
        }
        assert_eq!(seen, expected, "{caller:?}");
    }
    // A reader that waits is not woken by what is for others.
    let head = world.all_events().last().unwrap().seq;
    let reader = {
        let engine = world.engine.clone();
        tokio::spawn(async move { engine.events(&api("a"), head, 100, Some(Duration::from_secs(20))).await })
    };
    world.engine.stop(&me(), trees.of_b, StopRequest::default()).await.unwrap();
    world.ended(trees.of_b).await;
    assert!(!reader.is_finished());
    world.engine.stop(&me(), trees.of_a, StopRequest::default()).await.unwrap();
    let page = reader.await.unwrap().unwrap();
    assert!(!page.items.is_empty() && page.items.iter().all(|event| event.subagent == trees.of_a));
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_12_activity_and_requests_are_filtered() {
    let world = world(roomy()).await;
    let script = "start-ask execute make\ndelta at work\ngate hold\nsay done";
    let of_a = spawned_by(&world, &api("a"), scripted(script)).await;
    let of_b = spawned_by(&world, &api("b"), scripted(script)).await;
    world.fake.gate("hold").reached_by(2).await;
    until_async("both at work", || async {
        (world.engine.activity(&me()).await.unwrap().len() == 2
            && world.engine.requests(&me(), false).await.unwrap().items.len() == 2)
            .then_some(())
    })
    .await;
    let ids: Vec<_> =
        world.engine.activity(&api("a")).await.unwrap().into_iter().map(|item| item.id).collect();
    assert_eq!(ids, [of_a]);
    let items = world.engine.requests(&api("b"), true).await.unwrap().items;
    assert_eq!(items.iter().map(|item| item.subagent).collect::<Vec<_>>(), [of_b]);
    let allow = AnswerRequest { choice: Some(Choice::AllowAlways), text: None, reason: None };
    let refused = world.engine.answer(&api("a"), of_b, RequestNumber(1), allow.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotYours);
    world.engine.answer(&api("b"), of_b, RequestNumber(1), allow).await.unwrap();
    let refused = world.engine.revoke(&api("a"), of_b, RequestNumber(1)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotYours);
    world.fake.gate("hold").open();
}

#[tokio::test]
async fn perm_12_pages_of_the_little_that_one_may_see_are_filled() {
    let world = world(roomy()).await;
    let mut own = Vec::new();
    for number in 0..60 {
        let caller = if number % 12 == 0 { api("a") } else { api("b") };
        let id = spawned_by(&world, &caller, waiting(scripted("say x"))).await;
        if number % 12 == 0 {
            own.push(id);
        }
    }
    let (mut before, mut seen, mut sizes) = (None, Vec::new(), Vec::new());
    loop {
        let filter = ListFilter { limit: Some(2), before, ..ListFilter::default() };
        let page = world.engine.list(&api("a"), filter).await.unwrap();
        sizes.push(page.items.len());
        seen.extend(page.items.iter().map(|record| record.id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    own.reverse();
    assert_eq!(seen, own, "newest first, without gaps and doubles");
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test]
async fn result_11_an_owner_is_fixed_at_the_spawn_and_nobody_beside_it_receives_or_claims() {
    let world = world(roomy()).await;
    let root = world.spawn(scripted("gate hold")).await;
    world.fake.gate("hold").reached().await;
    let sibling = spawned_by(&world, &agent(root), scripted("gate hold")).await;
    let child = spawned_by(&world, &agent(root), waiting(scripted("say for root"))).await;
    let claim = subagent_model::request::ClaimRequest {
        carrier: String::from("x"),
        hold_ms: None,
        limit: None,
        wait_ms: None,
    };
    for other in [agent(sibling), agent(child), me(), api("a")] {
        assert_eq!(world.engine.inbox(&other, 10, None).await.unwrap(), [], "{other:?}");
        assert_eq!(world.engine.claim(&other, claim.clone()).await.unwrap(), [], "{other:?}");
        let target = AckTarget { id: child, run: Some(RunNumber(1)) };
        let reply = world.engine.acknowledge(&other, vec![target], false).await.unwrap();
        assert_eq!((reply.acknowledged.len(), reply.refused[0].code), (0, ErrorCode::NotYours), "{other:?}");
    }
    assert_eq!(world.engine.inbox(&agent(root), 10, None).await.unwrap()[0].record.id, child);
    world.fake.gate("hold").open();
}

/// RESULT-14: whoever's hand it was that spawned, the owner is told as if it had used its own tool.
#[tokio::test]
async fn result_14_a_spawn_in_the_name_of_an_owner_is_owed_to_it() {
    let world = world(roomy()).await;
    let client = spawned_by(&world, &api("a"), waiting(scripted("say x"))).await;
    assert_eq!(world.engine.inbox(&api("a"), 10, None).await.unwrap()[0].record.id, client);
    let detached = SpawnRequest { mode: Mode::Detached, ..scripted("say x") };
    spawned_by(&world, &api("a"), waiting(detached)).await;
    assert_eq!(
        world.engine.inbox(&api("a"), 10, None).await.unwrap().len(),
        1,
        "nobody is told of a detached one"
    );
}
