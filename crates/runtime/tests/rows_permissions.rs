//! Rows PERM-01 to PERM-06: what children ask, who answers, and that nothing waits for ever.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use subagent_model::request::StopRequest;
use subagent_model::request::{
    AnswerRequest, OpenRequest, ResumeRequest, SpawnRequest, SteerMode, SteerRequest,
};
use subagent_model::{
    ActivityOn, Answer, Choice, ErrorCode, ExecSpec, Mark, Permissions, PolicyRule, PolicyWord, PromptVia,
    RequestNumber, RequestState, Requester, ResultFrom, Status, SubagentId, SubagentRecord, Subject, Talk,
};
use subagent_runtime::{Caller, Limits, Runtime};
use subagent_testkit::{talker_program, until_async};

use support::{World, me, scripted, shell, waiting, world};

fn yes() -> AnswerRequest {
    choose(Choice::AllowOnce)
}

fn choose(choice: Choice) -> AnswerRequest {
    AnswerRequest { choice: Some(choice), text: None, reason: None }
}

fn text(text: &str) -> AnswerRequest {
    AnswerRequest { choice: None, text: Some(text.to_owned()), reason: None }
}

fn rule(action: &str, matches: &str, say: PolicyWord) -> PolicyRule {
    PolicyRule { action: Some(action.to_owned()), matches: Some(matches.to_owned()), say }
}

fn under(permissions: Permissions, script: &str) -> SpawnRequest {
    SpawnRequest { permissions, ..scripted(script) }
}

fn below(parent: SubagentId, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { parent: Some(parent.to_string()), ..request }
}

/// A program that speaks lines and plays the script: it outlives an engine.
fn talker(script: &str) -> SpawnRequest {
    let exec = ExecSpec {
        program: talker_program().to_string_lossy().into_owned(),
        args: vec![],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::Lines,
    };
    SpawnRequest { exec: Some(exec), prompt: script.to_owned(), ..shell("") }
}

/// Open requests, once there are so many.
async fn open(world: &World, many: usize) -> Vec<OpenRequest> {
    until_async("open requests", || async {
        let items = world.engine.requests(&me(), false).await.unwrap().items;
        (items.len() == many).then_some(items)
    })
    .await
}

async fn get(world: &World, id: SubagentId) -> SubagentRecord {
    world.engine.get(&me(), id).await.unwrap()
}

fn preview(record: &SubagentRecord) -> &str {
    &record.result.as_ref().unwrap().preview
}

/// Everything that was answered in a run, in words: `NUMBER ANSWER by WHO: WHY`.
fn answers(record: &SubagentRecord) -> Vec<String> {
    let one = |request: &subagent_model::RequestItem| {
        let answered = request.answered.as_ref()?;
        let word = match &answered.answer {
            Answer::Choice { choice } => format!("{choice:?}"),
            Answer::Text { text } => text.clone(),
            Answer::None => String::from("none"),
        };
        let why = answered.reason.as_deref().unwrap_or("-");
        Some(format!("{} {word} by {}: {why}", request.number, answered.by))
    };
    record.requests.iter().filter_map(one).collect()
}

#[tokio::test]
async fn perm_01_the_full_action_is_listed_and_any_that_stands_above_may_answer() {
    let world = world(Limits::default()).await;
    let parent = world.spawn(scripted("gate parent")).await;
    world.fake.gate("parent").reached().await;
    let child =
        world.spawn(below(parent, scripted("ask execute git push --force origin main\nsay $answer"))).await;
    let listed = open(&world, 1).await;
    assert_eq!((listed[0].id.clone(), listed[0].subagent), (format!("{child}.q1"), child));
    let Subject::Approval { action, title, options, .. } = &listed[0].request.ask.subject else { panic!() };
    assert_eq!((action.as_str(), title.as_str()), ("execute", "git push --force origin main"));
    assert!(!options.is_empty());
    assert_eq!(get(&world, child).await.waiting_on, Some(ActivityOn::Approval));

    let stranger = Caller { requester: Requester::from("api:other") };
    let refused = world.engine.answer(&stranger, child, RequestNumber(1), yes()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotYours);
    assert_eq!(world.engine.requests(&stranger, true).await.unwrap().items, []);
    let itself = Caller { requester: Requester::subagent(child) };
    let refused = world.engine.answer(&itself, child, RequestNumber(1), yes()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotYours, "nobody answers for itself");

    // Its requester is the person; its parent may answer as well.
    let above = Caller { requester: Requester::subagent(parent) };
    assert_eq!(world.engine.requests(&above, false).await.unwrap().items.len(), 1);
    let answered = world.engine.answer(&above, child, RequestNumber(1), yes()).await.unwrap();
    assert_eq!(answered.request.answered.unwrap().by, above.requester);
    let record = world.ended(child).await;
    assert!(preview(&record).starts_with("allow"), "{record:?}");
    assert!(!record.marks.contains(&Mark::PermissionDenied));
    world.fake.gate("parent").open();
}

#[tokio::test]
async fn perm_01_the_policy_is_tried_before_anybody_is_asked() {
    let world = world(Limits::default()).await;
    let permissions = Permissions {
        rules: vec![
            rule("execute", "rm *", PolicyWord::Deny),
            rule("execute", "ls*", PolicyWord::Allow),
            rule("edit", "*", PolicyWord::Ask),
        ],
        otherwise: PolicyWord::Deny,
        ..Permissions::default()
    };
    let script = "ask execute ls -l\nsay one $answer\nask execute rm -rf .\nsay two $answer\nask fetch http://x\n\
                  say three $answer\nask edit a.txt\nsay four $answer";
    let id = world.spawn(under(permissions, script)).await;
    let listed = open(&world, 1).await;
    assert_eq!(listed[0].request.number, RequestNumber(4), "three were decided without anybody");
    world.engine.answer(&me(), id, RequestNumber(4), yes()).await.unwrap();
    let record = world.ended(id).await;
    assert_eq!(
        answers(&record),
        [
            "1 AllowOnce by policy: rule 2 of the policy",
            "2 DenyOnce by policy: rule 1 of the policy",
            "3 DenyOnce by policy: the policy",
            "4 AllowOnce by user:me: -",
        ]
    );
    assert!(record.marks.contains(&Mark::PermissionDenied));
    assert_eq!(world.fake.heard_by(id).iter().filter(|told| told.starts_with("answer ")).count(), 4);
}

#[tokio::test]
async fn prov_12_what_rules_of_its_own_denied_is_kept_in_the_outcome_of_that_run_only() {
    let world = world(Limits::default()).await;
    for script in ["denied Bash rm\nsay did without", "denied Bash rm\nsay so far\nfail refused no"] {
        let record = world.ended(world.spawn(scripted(script)).await).await;
        assert_eq!(
            record.marks.iter().filter(|mark| **mark == Mark::PermissionDenied).count(),
            1,
            "{record:?}"
        );
        assert!(record.requests.is_empty(), "nobody was asked: {record:?}");
    }
    let other = world.ended(world.spawn(scripted("say nothing was denied")).await).await;
    assert!(!other.marks.contains(&Mark::PermissionDenied));
}

#[tokio::test]
async fn perm_06_what_an_ancestor_denies_no_child_allows_however_it_was_made() {
    let world = world(Limits::default()).await;
    let strict =
        Permissions { rules: vec![rule("execute", "rm *", PolicyWord::Deny)], ..Permissions::default() };
    let parent = world.spawn(under(strict.clone(), "gate parent")).await;
    world.fake.gate("parent").reached().await;
    let wide = Permissions { otherwise: PolicyWord::Allow, ..Permissions::default() };

    // Its own policy allows everything; the parent's asks where it does not deny.
    let asks = "ask execute rm -rf .\nsay $answer";
    let child =
        world.engine.spawn(&me(), waiting(below(parent, under(wide.clone(), asks)))).await.unwrap().record;
    assert!(preview(&child).starts_with("deny"), "{child:?}");
    assert_eq!(answers(&child), ["1 DenyOnce by policy: rule 1 of the policy (policy of an ancestor)"]);
    let undecided = world.spawn(below(parent, under(wide.clone(), "ask execute make\nsay $answer"))).await;
    assert_eq!(open(&world, 1).await[0].subagent, undecided, "the parent would have to ask");

    // A grandchild by its own call, and the next run by a resume.
    let of_parent = Caller { requester: Requester::subagent(parent) };
    let nested = world.engine.spawn(&of_parent, waiting(under(wide, asks))).await.unwrap().record;
    assert!(preview(&nested).starts_with("deny"), "{nested:?}");
    let again = ResumeRequest { prompt: asks.to_owned(), wait_ms: Some(20_000), ..ResumeRequest::default() };
    let resumed = world.engine.resume(&me(), child.id, again).await.unwrap().record;
    assert_eq!(resumed.run.0, 2);
    assert!(preview(&resumed).starts_with("deny"), "{resumed:?}");

    // Without one of its own it has the parent's.
    let plain = world.engine.spawn(&me(), waiting(below(parent, scripted(asks)))).await.unwrap().record;
    assert_eq!(answers(&plain), ["1 DenyOnce by policy: rule 1 of the policy"]);
}

#[tokio::test]
async fn perm_02_unattended_is_denied_at_once_and_the_run_goes_on() {
    let world = world(Limits::default()).await;
    let unattended = Permissions { unattended: true, ..Permissions::default() };
    let script = "ask execute make\nsay one $answer\nquestion Which one?\nsay went on";
    let record = world.engine.spawn(&me(), waiting(under(unattended, script))).await.unwrap().record;
    assert_eq!(record.status, Status::Completed);
    assert_eq!(preview(&record), "went on");
    assert!(record.marks.contains(&Mark::PermissionDenied), "never a silent success: {:?}", record.marks);
    let answers = answers(&record);
    assert!(answers[0].starts_with("1 DenyOnce by policy: nobody is there to answer"), "{answers:?}");
    assert!(answers[1].starts_with("2 none by policy: nobody is there to answer"), "{answers:?}");
    let inbox = world.engine.inbox(&me(), 10, None).await.unwrap();
    assert!(inbox[0].notice.contains("denied"), "{}", inbox[0].notice);
}

#[tokio::test]
async fn perm_02_what_nobody_answers_in_time_is_denied_and_never_waits_for_ever() {
    let world = world(Limits::default()).await;
    let soon = Permissions { expire_ms: Some(50), ..Permissions::default() };
    let script = "ask execute make\nsay $answer\nquestion Which?\nsay went on";
    let record = world.engine.spawn(&me(), waiting(under(soon, script))).await.unwrap().record;
    assert_eq!((record.status, preview(&record)), (Status::Completed, "went on"));
    assert!(record.marks.contains(&Mark::PermissionDenied));
    let answers = answers(&record);
    assert!(answers[0].starts_with("1 DenyOnce by policy: nobody answered within"), "{answers:?}");
    assert!(answers[1].starts_with("2 none by policy: nobody answered within"), "{answers:?}");
    let late = world.engine.answer(&me(), record.id, RequestNumber(1), yes()).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::AlreadyAnswered);
}

#[tokio::test]
async fn perm_02_there_is_a_time_limit_where_none_was_set() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("ask execute make\nsay $answer")).await;
    let request = &open(&world, 1).await[0].request;
    let patience = request.expires_at.since(request.opened_at);
    assert_eq!(patience, Duration::from_mins(15), "there is a limit where none was set");
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    world.ended(id).await;
}

#[tokio::test]
async fn perm_03_several_requests_are_answered_in_any_order() {
    let world = world(Limits::default()).await;
    let script = "start-ask execute one\nstart-ask edit two\nstart-ask fetch three\nawait answer\nsay last $answer\n\
                  gate end\nsay done";
    let id = world.spawn(scripted(script)).await;
    let listed = open(&world, 3).await;
    assert_eq!(listed.iter().map(|item| item.request.number.0).collect::<Vec<_>>(), [1, 2, 3]);
    world.engine.answer(&me(), id, RequestNumber(3), choose(Choice::DenyOnce)).await.unwrap();
    world.fake.gate("end").reached().await;
    assert_eq!(get(&world, id).await.status, Status::Waiting, "two are open");
    world.engine.answer(&me(), id, RequestNumber(1), yes()).await.unwrap();
    assert_eq!(get(&world, id).await.status, Status::Waiting, "one is open");
    assert_eq!(open(&world, 1).await[0].request.number, RequestNumber(2));
    world.engine.answer(&me(), id, RequestNumber(2), yes()).await.unwrap();
    assert_eq!(get(&world, id).await.status, Status::Running);
    until_async("all answers", || async {
        let heard = world.fake.heard_by(id);
        let told: Vec<_> = heard.iter().filter(|told| told.starts_with("answer ")).cloned().collect();
        (told.len() == 3)
            .then(|| assert_eq!(told, ["answer deny_once", "answer allow_once", "answer allow_once"]))
    })
    .await;
    world.fake.gate("end").open();
    assert_eq!(world.ended(id).await.status, Status::Completed);
}

#[tokio::test]
async fn perm_03_a_request_that_the_child_takes_back_is_withdrawn() {
    let world = world(Limits::default()).await;
    let id =
        world.spawn(scripted("start-ask execute make\ngate asked\ntake-back\ngate taken\nsay done")).await;
    open(&world, 1).await;
    world.fake.gate("asked").open();
    open(&world, 0).await;
    let all = world.engine.requests(&me(), true).await.unwrap().items;
    assert_eq!(all[0].request.state, RequestState::Withdrawn);
    assert_eq!(get(&world, id).await.status, Status::Running);
    let late = world.engine.answer(&me(), id, RequestNumber(1), yes()).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::AlreadyAnswered);
    world.fake.gate("taken").open();
    let record = world.ended(id).await;
    assert!(!record.marks.contains(&Mark::PermissionDenied), "nobody denied anything");
}

#[tokio::test]
async fn perm_03_a_stop_and_an_interrupt_withdraw_what_is_open() {
    let world = world(Limits::default()).await;
    for interrupt in [false, true] {
        let id = world.spawn(scripted("ask execute make\nsay $answer")).await;
        open(&world, 1).await;
        if interrupt {
            let request = SteerRequest { mode: SteerMode::Interrupt, ..SteerRequest::default() };
            assert!(world.engine.steer(&me(), id, request).await.unwrap().accepted);
        } else {
            world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
        }
        assert_eq!(world.engine.requests(&me(), false).await.unwrap().items, [], "interrupt: {interrupt}");
        let record = world.ended(id).await;
        assert_eq!(record.status, Status::Stopped);
        assert_eq!(record.requests[0].state, RequestState::Withdrawn);
        let late = world.engine.answer(&me(), id, RequestNumber(1), yes()).await.unwrap_err();
        assert_eq!(late.code, ErrorCode::AlreadyAnswered);
        assert!(world.fake.heard_by(id).iter().all(|told| !told.starts_with("answer ")));
    }
}

#[tokio::test]
async fn perm_03_an_open_request_survives_a_restart_and_its_answer_reaches_the_child() {
    let world = world(Limits::default()).await;
    let id = world.spawn(talker("ask execute make all\nsay it was $answer")).await;
    let before = open(&world, 1).await;
    let process = world.process(id).await;
    let world = world.restarted(Limits::default(), async || {}).await;
    assert_eq!(open(&world, 1).await, before, "the same request, once");
    assert_eq!(get(&world, id).await.status, Status::Waiting);
    world.engine.answer(&me(), id, RequestNumber(1), yes()).await.unwrap();
    let record = world.ended(id).await;
    assert_eq!(preview(&record), "it was allow_once");
    assert_eq!(record.attempts[0].process.as_ref().map(|process| process.pid), Some(process.pid));
    assert_eq!(record.attempt.0, 1, "the same process");
    assert_eq!(record.requests.len(), 1);
}

#[tokio::test]
async fn perm_03_what_was_asked_while_nobody_was_there_is_heard_and_expires() {
    let world = world(Limits::default()).await;
    let (go, asked) = (world.dir.path().join("go"), world.dir.path().join("asked"));
    let script = format!(
        "tool read\nfile {}\nstart-ask execute make\ntouch {}\nawait answer\nsay $answer",
        go.display(),
        asked.display()
    );
    let soon = Permissions { expire_ms: Some(50), ..Permissions::default() };
    let id = world.spawn(SpawnRequest { permissions: soon, ..talker(&script) }).await;
    // It has its prompt.
    until_async("the turn", || async { (get(&world, id).await.tool_uses == 1).then_some(()) }).await;
    let world = world
        .restarted(Limits::default(), async || {
            std::fs::write(&go, "").unwrap();
            until_async("the question", || async { asked.exists().then_some(()) }).await;
        })
        .await;
    let record = world.ended(id).await;
    assert_eq!(preview(&record), "deny_once");
    assert!(record.marks.contains(&Mark::PermissionDenied));
}

#[tokio::test]
async fn perm_04_always_covers_this_subagent_only_is_listed_and_can_be_taken_back() {
    let world = world(Limits::default()).await;
    let asks = "ask execute make\nsay $answer";
    let id = world.spawn(scripted(&format!("{asks}\n{asks}\ngate taken\n{asks}"))).await;
    open(&world, 1).await;
    world.engine.answer(&me(), id, RequestNumber(1), choose(Choice::AllowAlways)).await.unwrap();
    // The second time nobody is asked.
    world.fake.gate("taken").reached().await;
    let record = get(&world, id).await;
    let grant = &record.grants[0];
    assert_eq!((grant.number, grant.allow, grant.title.as_str()), (RequestNumber(1), true, "make"));
    assert_eq!(answers(&record)[1], "2 AllowOnce by user:me: the standing answer of request q1");

    // Another subagent is asked for the same.
    let other = world.spawn(scripted(asks)).await;
    assert_eq!(open(&world, 1).await[0].subagent, other);
    world.engine.answer(&me(), other, RequestNumber(1), choose(Choice::DenyOnce)).await.unwrap();
    assert!(preview(&world.ended(other).await).starts_with("deny"));

    let stranger = Caller { requester: Requester::from("api:other") };
    let refused = world.engine.revoke(&stranger, id, RequestNumber(1)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotYours);
    assert!(world.engine.revoke(&me(), id, RequestNumber(9)).await.is_err());
    let record = world.engine.revoke(&me(), id, RequestNumber(1)).await.unwrap();
    assert_eq!(record.grants, []);
    world.fake.gate("taken").open();
    assert_eq!(open(&world, 1).await[0].subagent, id, "it is asked again");
    world.engine.answer(&me(), id, RequestNumber(3), choose(Choice::DenyOnce)).await.unwrap();
    assert!(preview(&world.ended(id).await).starts_with("deny"));
}

#[tokio::test]
async fn perm_04_an_always_holds_for_the_next_run_and_over_a_restart() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("ask execute make\nsay $answer")).await;
    open(&world, 1).await;
    world.engine.answer(&me(), id, RequestNumber(1), choose(Choice::DenyAlways)).await.unwrap();
    world.ended(id).await;
    let world = world.restarted(Limits::default(), async || {}).await;
    let again = ResumeRequest {
        prompt: String::from("ask execute make\nsay two $answer"),
        wait_ms: Some(20_000),
        ..ResumeRequest::default()
    };
    let record = world.engine.resume(&me(), id, again).await.unwrap().record;
    assert!(preview(&record).starts_with("two deny"), "{record:?}");
    assert!(record.marks.contains(&Mark::PermissionDenied));
}

#[tokio::test]
async fn perm_05_a_question_of_a_delegated_child_is_routed_and_answered_in_words() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("question Which colour? | red | blue\nsay it is $answer")).await;
    let listed = open(&world, 1).await;
    let Subject::Question { text: asked, choices } = &listed[0].request.ask.subject else { panic!() };
    assert_eq!(
        (asked.as_str(), choices.as_slice()),
        ("Which colour?", &["red".to_owned(), "blue".to_owned()][..])
    );
    assert_eq!(get(&world, id).await.waiting_on, Some(ActivityOn::Question));

    let wrong = world.engine.answer(&me(), id, RequestNumber(1), yes()).await.unwrap_err();
    assert_eq!(wrong.code, ErrorCode::WrongAnswer);
    for empty in [
        AnswerRequest { choice: None, text: None, reason: None },
        text(" "),
        AnswerRequest { text: Some("x".into()), ..yes() },
    ] {
        let wrong = world.engine.answer(&me(), id, RequestNumber(1), empty).await.unwrap_err();
        assert_eq!(wrong.code, ErrorCode::InvalidRequest);
    }
    let none = world.engine.answer(&me(), id, RequestNumber(2), text("red")).await.unwrap_err();
    assert_eq!(none.code, ErrorCode::NotFound);
    world.engine.answer(&me(), id, RequestNumber(1), text("green")).await.unwrap();
    assert_eq!(preview(&world.ended(id).await), "it is green");
}

#[tokio::test]
async fn perm_01_a_text_is_no_answer_to_a_permission() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("ask execute make\nsay $answer")).await;
    open(&world, 1).await;
    let wrong = world.engine.answer(&me(), id, RequestNumber(1), text("yes")).await.unwrap_err();
    assert_eq!(wrong.code, ErrorCode::WrongAnswer);
    assert_eq!(open(&world, 1).await.len(), 1, "it is still open");
    world.engine.answer(&me(), id, RequestNumber(1), yes()).await.unwrap();
    assert_eq!(world.ended(id).await.status, Status::Completed);
}

#[tokio::test]
async fn perm_08_siblings_have_their_own_rules_from_their_first_call_on() {
    let world = world(Limits { rate: 100, ..Limits::default() }).await;
    let rules = |say| Permissions { rules: vec![rule("execute", "make *", say)], ..Permissions::default() };
    let allows = Permissions { otherwise: PolicyWord::Allow, ..Permissions::default() };
    // The parent may do all, so that each child has exactly what was said for it.
    let top = world.spawn(under(allows.clone(), "gate top")).await;
    world.fake.gate("top").reached().await;
    let first = "ask execute make test\nsay $answer";
    let (mut wanted, mut spawned) = (vec![], vec![]);
    for (say, word) in [(PolicyWord::Allow, "allow"), (PolicyWord::Deny, "deny")].into_iter().cycle().take(6)
    {
        let request = waiting(below(top, under(rules(say), first)));
        spawned.push(world.engine.spawn(&me(), request).await.unwrap().record);
        wanted.push(word);
    }
    for (record, word) in spawned.iter().zip(wanted) {
        assert!(preview(record).starts_with(word), "{word}: {record:?}");
        assert_eq!(answers(record).len(), 1, "decided by its own rule, nobody was asked");
    }
    // They are not the parent's, and go with the child.
    let plain = world.engine.spawn(&me(), waiting(below(top, scripted(first)))).await.unwrap().record;
    assert_eq!(answers(&plain), ["1 AllowOnce by policy: the policy"]);
    world.fake.gate("top").open();
}
