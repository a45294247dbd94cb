//! Every operation in every state (SM-25), taken from the real `decide`: one table for readers, and one of all commands
//! with all that is refused. A cell that changes fails here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;

use common::bless::blessed_or_equal;
use common::phases::*;
use common::{at, completed, failed, failed_for_now, failed_until};
use subagent_core::delivery;
use subagent_core::run::{Command, Left, NotResumable, RUNTIME, Refusal, Subagent, decide};
use subagent_core::snapshot;
use subagent_model::{
    AttemptNumber, Choice, Conclusion, ErrorCode, EventKind, ExitFacts, Limit, Mark, MessageMode,
    MessageNumber, NodeId, Outcome, PolicyWord, RequestNumber, Requester, ReturnReason, RunNumber, Status,
    StopInfo, Written,
};

/// When everything is asked.
const NOW: i64 = 50;

/// What people and programs ask of a subagent.
fn operations() -> Vec<(&'static str, Command)> {
    let or_follow_up = post(MessageMode::Steer, true);
    vec![
        ("stop", stop()),
        ("interrupt", interrupt(None)),
        ("interrupt with a text", interrupt(Some("rather this"))),
        ("steer", steer()),
        ("steer or follow-up", or_follow_up),
        ("follow-up", follow_up()),
        ("resume", resume()),
        ("answer", answer(1, Choice::AllowOnce)),
        ("receipt", receipt(1)),
        ("change of the budget", change_budget(9)),
    ]
}

/// What else can be told: by drivers, carriers, timers, and by those who may not.
fn further() -> Vec<(&'static str, Command)> {
    let stranger = || Requester::from("user:2000");
    let error = |code| conclude_with(ONE, failed_for_now(code), false);
    let quota = failed_until(ErrorCode::QuotaExhausted, Some(at(900)));
    let session = Some(String::from("session-2"));
    vec![
        ("stop, and drop the follow-ups", stop_by("user:1000", true)),
        ("answer a question", answer_text(1)),
        ("answer, no such request", answer(7, Choice::AllowOnce)),
        (
            "steer, blank",
            Command::Post {
                from: common::owner(),
                mode: MessageMode::Steer,
                text: " \n".into(),
                attachments: vec![],
                or_follow_up: true,
                key: None,
            },
        ),
        ("receipt of a stranger", Command::Acknowledge { run: RunNumber(1), by: stranger() }),
        ("receipt for the second run", receipt(2)),
        ("claim delivery", claim_delivery("wait", at(90))),
        ("return delivery", return_delivery("wait")),
        ("escalate", escalate("user:2000")),
        ("revoke", Command::Revoke { number: RequestNumber(1), by: common::owner() }),
        ("next run", Command::NextRun { prompt: common::text("also the words") }),
        ("return follow-ups", Command::ReturnFollowUps { reason: ReturnReason::NotResumed }),
        ("claim", claim()),
        ("renew", Command::Renew { attempt: ONE, lease_until: at(200) }),
        ("reclaim", Command::Reclaim { owner: NodeId::from("b"), lease_until: at(200), max_attempts: MOST }),
        ("started", started()),
        ("started, no such attempt", started_as(second())),
        ("opened", opened()),
        ("opened, another session", Command::Opened { attempt: ONE, session }),
        ("prompted", prompted()),
        ("progress", progress(ONE, 1, false)),
        ("stall", Command::Stall { attempt: ONE, since: at(1) }),
        ("revive", Command::Revive { attempt: ONE }),
        ("turn done", turn_done()),
        ("turn done, children live", turn_done_with_children()),
        (
            "turn done, work in the background",
            turn_done_as(ONE, completed("42 lines"), Left { background: true, ..Left::default() }),
        ),
        ("turn done, no such attempt", turn_done_as(second(), completed("42 lines"), Left::default())),
        ("turn cancelled", turn_cancelled()),
        ("nudge", nudge()),
        ("background ended", Command::BackgroundEnded { attempt: ONE }),
        ("children ended", Command::ChildrenEnded { unread: 0 }),
        ("children ended, results unread", Command::ChildrenEnded { unread: 2 }),
        ("settle, written", settle(1, Written::Yes)),
        ("settle, not written", settle(1, Written::No)),
        ("settle, unknown", settle(1, Written::Unknown)),
        ("set aside", Command::SetAside { number: MessageNumber(1) }),
        ("withdraw", Command::Withdraw { number: MessageNumber(1) }),
        ("ask", ask(approval("b", "make install"))),
        ("ask again", ask(approval("a", "make"))),
        ("ask, denied by policy", ask_under(approval("b", "make install"), PolicyWord::Deny)),
        ("expire, too early", Command::Expire { number: RequestNumber(1) }),
        ("told", told(1)),
        ("take back", Command::TakeBack { attempt: ONE, key: "a".into() }),
        ("wrap up", wrap_up()),
        ("cut", cut()),
        ("unpark, too early", Command::Unpark),
        ("conclude", conclude(false)),
        ("conclude, children live", conclude(true)),
        ("conclude, overloaded", error(ErrorCode::Overloaded)),
        ("conclude, crashed", error(ErrorCode::Crashed)),
        ("conclude, quota", conclude_with(ONE, quota, false)),
        ("conclude, no such attempt", conclude_with(second(), completed("42 lines"), false)),
        ("requeue", requeue(MOST, None)),
        ("requeue, the last try", requeue(1, None)),
        ("gone", gone(ONE)),
        ("session gone", session_gone()),
    ]
}

/// The word of a refusal in the tables.
fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Illegal { .. } => "illegal".into(),
        Refusal::Stale { .. } => "stale".into(),
        Refusal::Lease { .. } => "lease".into(),
        Refusal::StillRunning { .. } => "still running".into(),
        Refusal::NotResumable { why } => match why {
            NotResumable::ProviderCannot => "provider cannot".into(),
            NotResumable::NoSession => "no session".into(),
            NotResumable::SessionGone => "session gone".into(),
            NotResumable::WorkspaceGone => "workspace gone".into(),
        },
        Refusal::NotCapable { .. } => "not capable".into(),
        Refusal::NoOpenTurn { .. } => "no open turn".into(),
        Refusal::Mail(refusal) => refusal.code().to_string(),
        Refusal::NoSuchMessage { .. } => "no such message".into(),
        Refusal::NoSuchRequest { .. } => "no such request".into(),
        Refusal::AlreadyAnswered { .. } => "no longer open".into(),
        Refusal::WrongAnswer { .. } => "wrong answer".into(),
        Refusal::NoSuchGrant { .. } => "no such grant".into(),
        Refusal::NoSuchRun { .. } => "no such run".into(),
        Refusal::NotYours { .. } => "not yours".into(),
        Refusal::Claimed { .. } => "claimed".into(),
    }
}

/// A fact with as much of it as tells two answers apart.
fn fact(kind: &EventKind) -> String {
    let detail = match kind {
        EventKind::Ended { outcome, idle_until, .. } => match idle_until {
            Some(_) => format!("{}, idle", outcome.status()),
            None => outcome.status().to_string(),
        },
        EventKind::MessagePosted { message } if message.from == Requester::from(RUNTIME) => "runtime".into(),
        EventKind::MessagePosted { message } => message.mode.as_str().into(),
        EventKind::MessageReturned { reason, .. } => format!("{reason:?}").to_lowercase(),
        EventKind::Waiting { on, .. } => format!("{on:?}").to_lowercase(),
        EventKind::AttemptEnded { anew: true, .. } => "anew".into(),
        _ => return kind.name().into(),
    };
    format!("{}({detail})", kind.name())
}

fn answer_of(state: &Subagent, command: &Command) -> String {
    match decide(state, command, at(NOW)) {
        Ok(facts) if facts.is_empty() => "-".into(),
        Ok(facts) => {
            let mut next = state.clone();
            for fact in &facts {
                next.apply(at(NOW), fact).unwrap_or_else(|illegal| panic!("{command:?}: {illegal}"));
            }
            facts.iter().map(fact).collect::<Vec<_>>().join(" + ")
        }
        Err(refusal) => format!("refused: {}", refused(&refusal)),
    }
}

/// Each line an operation: the states in which its answer is the same stand together. `-` is "accepted, nothing new".
#[test]
fn sm_25_every_command_has_its_answer_in_every_state() {
    let phases = phases();
    let mut table = String::new();
    for (name, command) in operations().into_iter().chain(further()) {
        writeln!(table, "{name}").unwrap();
        let mut answers: Vec<(String, Vec<&str>)> = vec![];
        for (phase, state) in &phases {
            let answer = answer_of(state, &command);
            match answers.iter_mut().find(|(known, _)| *known == answer) {
                Some((_, phases)) => phases.push(phase),
                None => answers.push((answer, vec![phase])),
            }
        }
        for (answer, phases) in answers {
            writeln!(table, "    {answer}").unwrap();
            let mut kind = "";
            for phase in phases {
                let (of, name) = phase.split_once(':').unwrap();
                if of != kind {
                    if !kind.is_empty() {
                        table.push('\n');
                    }
                    write!(table, "        {of}:").unwrap();
                    kind = of;
                }
                write!(table, " {name}").unwrap();
            }
            table.push('\n');
        }
    }
    blessed_or_equal("crates/core/tests/operations.txt", include_str!("operations.txt"), &table);
}

/// What a reader of the documentation looks up: the states of an agent, in words.
const SHOWN: [(&str, &str); 26] = [
    ("agent:queued", "queued"),
    ("agent:starting", "running, its process is being made"),
    ("agent:not-open", "running, its session is not open"),
    ("agent:in-turn", "running, in a turn"),
    ("agent:interrupting", "running, being interrupted"),
    ("agent:cut", "running, over a limit"),
    ("agent:done", "running, its process is being closed"),
    ("agent:approval", "waiting for an approval"),
    ("agent:question", "waiting for an answer"),
    ("agent:children-alive", "waiting for children, its process lives"),
    ("agent:children-gone", "waiting for children, its process has ended"),
    ("agent:quota", "waiting for its quota"),
    ("agent:stopping", "stopping"),
    ("warm:idle", "idle"),
    ("warm:queued-warm", "queued, its process lives"),
    ("warm:idle-closing", "ended, its idle process is being closed"),
    ("agent:completed", "completed"),
    ("agent:steered", "steered"),
    ("agent:aborted", "aborted"),
    ("agent:stopped", "stopped"),
    ("agent:error", "error"),
    ("agent:lost", "lost"),
    ("agent:no-session", "ended, and no session was ever opened"),
    ("program:queued", "queued, a program"),
    ("program:running", "running, a program"),
    ("program:completed", "completed, a program"),
];

const PAGE: &str = "# Operations by state

Made by `crates/core/tests/operations.rs` from the machine itself. Do not edit:
`SUBAGENT_BLESS=1 cargo test -p subagent-core --test operations` writes it anew.

Each cell is what the operation leads to at once: the events, in order, or the reason of a refusal in *italics*. A dash
means that it is accepted and nothing has to change. The agent of this table can do everything; a *program* gets its
prompt and ends, and nothing of it can be continued.
";

#[test]
fn sm_25_the_published_table_is_the_machine() {
    let mut page = String::from(PAGE);
    for (name, command) in operations() {
        write!(page, "\n## {name}\n\n| State | Answer |\n|---|---|\n").unwrap();
        for (name, words) in SHOWN {
            let answer = answer_of(&phase(name), &command);
            let answer = match answer.strip_prefix("refused: ") {
                Some(reason) => format!("*{reason}*"),
                None if answer == "-" => "–".into(),
                None => answer.replace(" + ", ", "),
            };
            writeln!(page, "| {words} | {answer} |").unwrap();
        }
    }
    blessed_or_equal("docs/operations.md", include_str!("../../../docs/operations.md"), &page);
}

#[test]
fn sm_25_read_and_wait_know_every_status() {
    for (phase, state) in phases() {
        let record = snapshot::record(&state);
        let told = snapshot::record_of_run(&state, state.run.number).unwrap();
        let ended = told.status.is_final();
        assert_eq!(ended, told.end_reason.is_some(), "{phase}");
        assert_eq!(record.status, if state.is_idle() { Status::Idle } else { told.status }, "{phase}");
        let notice = delivery::notice(&told);
        let pending = notice.contains("there is no result yet");
        assert_eq!(pending, !ended, "{phase}: a wait goes on, and a read says none yet");
        assert_eq!(record.queued_for.is_some(), record.status == Status::Queued, "{phase}");
        assert_eq!(record.waiting_on.is_some(), record.status == Status::Waiting, "{phase}");
        assert_eq!(record.waiting_since.is_some(), record.status == Status::Waiting, "{phase}");
    }
}

/// RES-06: a resume is offered exactly where it is accepted.
#[test]
fn res_06_a_record_offers_a_resume_exactly_where_it_is_accepted() {
    for (phase, state) in phases() {
        let accepted = decide(&state, &resume(), at(NOW)).is_ok();
        assert_eq!(snapshot::record(&state).resumable, accepted, "{phase}");
    }
}

#[test]
fn stop_01_a_queued_run_ends_at_once_and_never_started() {
    for name in ["program:queued", "agent:queued", "program:queued-retry"] {
        let mut state = phase(name);
        subagent_core::replay::step(&mut state, &stop(), at(9)).unwrap().unwrap();
        let record = snapshot::record(&state);
        assert_eq!((record.status, record.completed_at), (Status::Stopped, Some(at(9))));
        assert!(record.marks.contains(&Mark::NeverStarted) && state.is_owed(), "{name}");
    }
}

#[test]
fn stop_02_a_start_that_failed_while_it_was_stopped_never_started_and_keeps_its_exit() {
    let mut state = phase("program:starting");
    let exit = Some(ExitFacts { code: Some(127), signal: None, at: Some(at(11)) });
    let requeue = Command::Requeue {
        attempt: ONE,
        reason: "no start".into(),
        exit,
        not_before: None,
        max_attempts: MOST,
    };
    subagent_core::replay::step(&mut state, &stop(), at(9)).unwrap().unwrap();
    subagent_core::replay::step(&mut state, &requeue, at(12)).unwrap().unwrap();
    let record = snapshot::record(&state);
    assert_eq!((record.completed_at, record.exited_at), (Some(at(9)), Some(at(11))));
    assert!(record.marks.contains(&Mark::NeverStarted));
}

#[test]
fn sm_22_a_child_that_says_it_was_stopped_though_nobody_asked_has_failed() {
    let mut state = phase("program:running");
    let stop = StopInfo { actor: "somebody".into(), cause: subagent_model::Cause::Requested, at: at(1) };
    let conclusion = Conclusion { outcome: Outcome::Stopped { stop }, ..completed("half") };
    subagent_core::replay::step(&mut state, &conclude_with(ONE, conclusion, false), at(9)).unwrap().unwrap();
    let record = snapshot::record(&state);
    assert_eq!((record.status, record.stop), (Status::Error, None));
    assert_eq!(record.result.unwrap().preview, "half");
}

#[test]
fn sm_06_a_refusal_names_the_command_and_the_status_it_met() {
    let refusal = decide(&phase("program:running"), &claim(), at(NOW)).unwrap_err();
    assert_eq!(refusal.to_string(), "cannot claim while running");
    let refusal = decide(&phase("program:completed"), &resume(), at(NOW)).unwrap_err();
    assert_eq!(refusal.to_string(), "cannot be resumed: provider cannot: it does not continue sessions");
    let refusal = decide(&phase("agent:stopping"), &steer(), at(NOW)).unwrap_err();
    assert_eq!(refusal.to_string(), "it takes no message: run 1 is stopping");
    let refusal = decide(&phase("agent:in-turn"), &resume(), at(NOW)).unwrap_err();
    assert_eq!(refusal.to_string(), "still running: run 1 is running");
    assert!(matches!(refusal, Refusal::StillRunning { run: RunNumber(1), status: Status::Running }));
    let stale = decide(&phase("agent:in-turn"), &started_as(AttemptNumber(9)), at(NOW)).unwrap_err();
    assert_eq!(stale.to_string(), "attempt 9 is stale: the latest is 1");
}

/// Nothing but the run's own failure may be told by a failure: the codes of refusals stay what they are.
#[test]
fn sm_06_every_refusal_has_its_stable_code() {
    let code = |phase_name: &str, command: Command| {
        decide(&phase(phase_name), &command, at(NOW)).unwrap_err().code()
    };
    assert_eq!(code("agent:in-turn", resume()), ErrorCode::StillRunning);
    assert_eq!(code("program:completed", resume()), ErrorCode::NotResumable);
    assert_eq!(code("agent:stopping", steer()), ErrorCode::NoOpenTurn);
    assert_eq!(code("program:running", steer()), ErrorCode::NotCapable);
    assert_eq!(code("agent:answered", answer(1, Choice::DenyOnce)), ErrorCode::AlreadyAnswered);
    assert_eq!(code("agent:question", answer(1, Choice::DenyOnce)), ErrorCode::WrongAnswer);
    assert_eq!(code("agent:approval", answer(9, Choice::DenyOnce)), ErrorCode::NotFound);
    assert_eq!(
        code("agent:completed", Command::Acknowledge { run: RunNumber(1), by: "user:2000".into() }),
        ErrorCode::NotYours
    );
    assert_eq!(code("agent:completed", receipt(9)), ErrorCode::NotFound);
    assert_eq!(code("agent:stopped", claim()), ErrorCode::IllegalTransition);
}

#[test]
fn queue_13_a_cut_queued_run_ends_aborted_and_says_by_which_limit() {
    let mut state = phase("agent:queued");
    subagent_core::replay::step(&mut state, &cut(), at(9)).unwrap().unwrap();
    assert_eq!(state.ended().unwrap().outcome, Outcome::Aborted { limit: Limit::Deadline });
    assert_eq!(state.run.cut, Some(Limit::Deadline));
}

#[test]
fn sm_21_a_failure_of_an_agent_is_never_a_success() {
    for code in [ErrorCode::Protocol, ErrorCode::NoFinalMessage, ErrorCode::Refused, ErrorCode::Auth] {
        let mut state = phase("agent:in-turn");
        subagent_core::replay::step(&mut state, &conclude_with(ONE, failed(code), false), at(9))
            .unwrap()
            .unwrap();
        assert_eq!(state.status(), Status::Error, "{code}");
    }
}
