#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use subagent_model::{
    Answer, Ask, AttemptKey, AttemptNumber, BoundedText, Capabilities, Choice, ErrorCode, MessageNumber,
    Requester, RunNumber, SpawnSpec, Steering, Subject,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::{Scripted, ToldKind};
use crate::{Job, Launch, Link, Order, Provider, Said, TaskContext, TurnEnd};

fn spec(prompt: &str) -> SpawnSpec {
    SpawnSpec::new("scripted", BoundedText::whole(prompt).unwrap(), "/".into())
}

fn job(prompt: &str, attempt: u32, session: Option<&str>) -> Job {
    let key = AttemptKey {
        subagent: "01900000-0000-7000-8000-000000000001".parse().unwrap(),
        run: RunNumber(1),
        attempt: AttemptNumber(attempt),
    };
    let spec = spec(prompt);
    Job {
        key,
        prompt: spec.prompt.clone(),
        prompt_text: Some(prompt.into()),
        spec: Arc::new(spec),
        dir: "/jobs/1".into(),
        session: session.map(str::to_owned),
    }
}

fn context(job: &Job) -> TaskContext {
    TaskContext {
        key: job.key,
        prompt: job.prompt_text.clone().unwrap(),
        spec: Arc::clone(&job.spec),
        cancelled: CancellationToken::new(),
        session: job.session.clone(),
    }
}

/// A child that plays, and the test that speaks with it.
struct Child {
    orders: UnboundedSender<Order>,
    said: UnboundedReceiver<Said>,
    cancelled: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Child {
    fn launch(fake: &Scripted, job: &Job) -> Self {
        let Launch::Dialogue(body) = fake.launch(job).unwrap() else { panic!("it converses") };
        let ((orders, told), (say, said)) = (unbounded_channel(), unbounded_channel());
        let context = context(job);
        let cancelled = context.cancelled.clone();
        let task = tokio::spawn(body(context, Link { orders: told, say }));
        Self { orders, said, cancelled, task }
    }

    /// A child at work on the prompt that it was launched with.
    fn begun(fake: &Scripted, job: &Job) -> Self {
        let child = Self::launch(fake, job);
        child.prompt(&job.prompt.preview);
        child
    }

    fn tell(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    fn prompt(&self, text: &str) {
        self.tell(Order::Prompt {
            number: None,
            from: Requester::from("me"),
            text: text.to_owned(),
            attached: vec![],
        });
    }

    fn steer(&self, number: u64, text: &str) {
        let from = Requester::from("user:7");
        self.tell(Order::Steer {
            number: MessageNumber(number),
            from,
            text: text.to_owned(),
            attached: vec![],
        });
    }

    async fn next(&mut self) -> Said {
        self.said.recv().await.unwrap()
    }

    /// Everything until the turn is over.
    async fn turn(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        loop {
            all.push(self.next().await);
            if matches!(all.last(), Some(Said::Done(_))) {
                return all;
            }
        }
    }
}

fn message(text: &str) -> Said {
    Said::Message(text.to_owned())
}

fn finished(answer: &str) -> Said {
    Said::Done(TurnEnd::Finished { answer: Some(answer.to_owned()), truncated: false })
}

fn opened(session: &str) -> Said {
    Said::Opened { session: Some(session.to_owned()) }
}

fn code(said: &Said) -> ErrorCode {
    let Said::Done(TurnEnd::Failed(error)) = said else { panic!("no failure: {said:?}") };
    error.code
}

#[tokio::test]
async fn a_script_is_said_in_order_and_the_next_prompt_is_a_script_again() {
    let fake = Scripted::default();
    let script =
        "delta he\ndelta llo\nsay hello\nturn\ntool grep\nuse 5 7 0.5\ncompact\nlast turn\nbackground 2";
    let mut child = Child::begun(&fake, &job(script, 1, None));
    let all = child.turn().await;
    assert_eq!(all[0], opened("scripted-1"));
    assert_eq!(all[1..4], [Said::Delta("he".into()), Said::Delta("llo".into()), message("hello")]);
    assert_eq!(all[4], Said::Turn { more: true });
    let (Said::ToolStarted { id, name, .. }, Said::ToolEnded { id: ended, .. }) = (&all[5], &all[6]) else {
        panic!()
    };
    assert_eq!((id, name.as_str()), (ended, "grep"));
    let Said::Used(used) = all[7] else { panic!() };
    assert_eq!((used.input, used.output, used.total, used.cost_usd), (5, 7, 12, Some(0.5)));
    let rest = [Said::Compacted, Said::Turn { more: false }, Said::Background { live: 2 }, finished("hello")];
    assert_eq!(all[8..], rest);
    child.prompt("say again");
    assert_eq!(child.turn().await, [message("again"), finished("again")]);
    child.prompt("You were cut off. Please go on.");
    let heard = "heard: You were cut off. Please go on.";
    assert_eq!(child.turn().await, [message(heard), finished(heard)]);
    child.tell(Order::Close);
    child.task.await.unwrap();
}

#[tokio::test]
async fn steer_12_a_live_child_takes_a_message_while_it_holds_and_the_other_at_a_boundary() {
    for (fake, live) in [(Scripted::default(), true), (Scripted::at_boundary(), false)] {
        let mut child = Child::begun(
            &fake,
            &job("gate tool\nsay done\nturn\nawait steer\nsay got $steer of $from", 1, None),
        );
        assert_eq!(child.next().await, opened("scripted-1"));
        fake.gate("tool").reached().await;
        child.steer(1, "one");
        child.steer(2, "two");
        if live {
            assert_eq!(child.next().await, Said::Took(MessageNumber(1)), "before the gate is open");
            assert_eq!(child.next().await, Said::Took(MessageNumber(2)));
        }
        fake.gate("tool").open();
        let mut expected = vec![message("done"), Said::Turn { more: true }];
        if !live {
            expected.extend([Said::Took(MessageNumber(1)), Said::Took(MessageNumber(2))]);
        }
        expected.extend([message("got one of user:7"), finished("got one of user:7")]);
        assert_eq!(child.turn().await, expected);
        let id = job("", 1, None).key.subagent;
        assert_eq!(fake.heard_by(id)[1..], ["steer 1 one", "steer 2 two"]);
        let told = fake.heard();
        assert_eq!((told[1].kind, told[1].from.clone()), (ToldKind::Steer, Some(Requester::from("user:7"))));
    }
}

#[tokio::test]
async fn steer_04_a_message_between_turns_or_to_an_unwilling_child_is_declined() {
    let fake = Scripted::default();
    let mut child = Child::begun(&fake, &job("say x", 1, None));
    child.turn().await;
    child.steer(1, "too late");
    assert_eq!(child.next().await, Said::Declined(MessageNumber(1)));
    child.prompt("steers decline\ngate a\nsteers ignore\ngate b");
    fake.gate("a").reached().await;
    child.steer(2, "no");
    assert_eq!(child.next().await, Said::Declined(MessageNumber(2)));
    fake.gate("a").open();
    fake.gate("b").reached().await;
    child.steer(3, "never heard of it");
    fake.gate("b").open();
    assert_eq!(child.next().await, Said::Done(TurnEnd::Finished { answer: None, truncated: false }));
    assert!(fake.heard().iter().all(|told| told.kind != ToldKind::Steer));
}

#[tokio::test]
async fn an_interrupt_cancels_the_turn_keeps_the_session_and_gives_back_what_it_did_not_take() {
    let fake = Scripted::at_boundary();
    let mut child = Child::begun(&fake, &job("ask execute rm -rf /\nsay never", 1, None));
    assert_eq!(child.next().await, opened("scripted-1"));
    let Said::Asked(Ask { key, .. }) = child.next().await else { panic!() };
    child.steer(1, "wait");
    child.tell(Order::Interrupt);
    let expected = [Said::TookBack { key }, Said::Declined(MessageNumber(1)), Said::Done(TurnEnd::Cancelled)];
    assert_eq!(child.turn().await, expected);
    child.tell(Order::Interrupt);
    let from = Requester::from("me");
    child.tell(Order::Prompt {
        number: Some(MessageNumber(2)),
        from,
        text: String::from("say on"),
        attached: vec![],
    });
    let on = [Said::Took(MessageNumber(2)), message("on"), finished("on")];
    assert_eq!(child.turn().await, on, "an interrupt without a turn is none");
}

#[tokio::test]
async fn perm_01_the_answer_is_known_to_the_rest_of_the_script() {
    let fake = Scripted::default();
    let mut child = Child::begun(
        &fake,
        &job("ask-once edit a b c\nsay $answer\nquestion why? | a | b\nsay $answer", 1, None),
    );
    assert_eq!(child.next().await, opened("scripted-1"));
    let Said::Asked(ask) = child.next().await else { panic!() };
    let Subject::Approval { action, title, options, .. } = &ask.subject else { panic!() };
    assert_eq!((action.as_str(), title.as_str(), options.len()), ("edit", "a b c", 2));
    let answer =
        |ask: Ask, answer| Order::Answer { key: ask.key.clone(), ask: Box::new(ask), answer, reason: None };
    let wrong = Ask { key: String::from("other"), ..ask.clone() };
    child.tell(answer(wrong, Answer::None));
    child.tell(answer(ask, Answer::Choice { choice: Choice::DenyOnce }));
    assert_eq!(child.next().await, message("deny_once"));
    let Said::Asked(ask) = child.next().await else { panic!() };
    assert_eq!(ask.subject, Subject::Question { text: "why?".into(), choices: vec!["a".into(), "b".into()] });
    child.tell(answer(ask, Answer::Text { text: String::from("because") }));
    assert_eq!(child.next().await, message("because"));
}

#[tokio::test]
async fn a_turn_ends_in_every_way() {
    let fake = Scripted::default();
    let mut child = Child::begun(&fake, &job("say half\nfail of its own\nsay never", 1, None));
    let all = child.turn().await;
    assert_eq!((all[1].clone(), code(&all[2])), (message("half"), ErrorCode::Crashed));
    child.prompt("fail rate_limited reset 60000 slow down");
    let said = child.turn().await.pop().unwrap();
    let Said::Done(TurnEnd::Failed(error)) = &said else { panic!() };
    assert_eq!(
        (error.code, error.message.as_str(), error.retryable),
        (ErrorCode::RateLimited, "slow down", true)
    );
    assert!(error.reset_at.unwrap().as_micros() > 1_700_000_000_000_000);
    child.prompt("refuse no");
    assert_eq!(code(&child.next().await), ErrorCode::Refused);
    child.prompt("cancelled");
    assert_eq!(child.next().await, Said::Done(TurnEnd::Cancelled));
    child.prompt("say x\nblank\nsay never");
    assert_eq!(child.turn().await[1..], [message(" \n"), finished(" \n")]);
    child.prompt("say cut\ntruncated");
    let cut = Said::Done(TurnEnd::Finished { answer: Some("cut".into()), truncated: true });
    assert_eq!(child.turn().await[1], cut);
    child.prompt("say x\ndone\ngate bg\nbackground 0");
    assert_eq!(child.turn().await, [message("x"), finished("x")]);
    fake.gate("bg").open();
    assert_eq!(child.next().await, Said::Background { live: 0 });
    child.prompt("gate\n  nonsense");
    assert_eq!(code(&child.next().await), ErrorCode::Crashed, "a script with a wrong step does not begin");
    child.prompt("exit");
    child.task.await.unwrap();
}

#[tokio::test]
async fn res_09_a_resumed_session_goes_on_with_what_was_kept_and_a_forgotten_one_is_gone() {
    let fake = Scripted::default();
    let script = "attempt 1 exit\non-continue say going on\non-continue on-continue say and on";
    let mut child = Child::begun(&fake, &job(script, 1, None));
    assert_eq!(child.next().await, opened("scripted-1"));
    child.task.await.unwrap();
    let mut child = Child::launch(&fake, &job(script, 2, Some("scripted-1")));
    assert_eq!(child.next().await, opened("scripted-1"));
    child.prompt("say between");
    assert_eq!(child.turn().await[0], message("between"));
    child.prompt("Go on.");
    assert_eq!(child.turn().await, [message("going on"), finished("going on")]);
    child.prompt("Go on.");
    assert_eq!(child.turn().await[0], message("and on"));
    child.prompt("Go on.");
    assert_eq!(child.turn().await[0], message("heard: Go on."));
    let launches = fake.launches();
    assert_eq!((launches[0].session.as_deref(), launches[1].session.as_deref()), (None, Some("scripted-1")));
    fake.forget("scripted-1");
    let mut child = Child::launch(&fake, &job(script, 3, Some("scripted-1")));
    assert_eq!(code(&child.next().await), ErrorCode::SessionGone);
    let mut child = Child::launch(&fake, &job(script, 4, None));
    assert_eq!(child.next().await, opened("scripted-2"), "another session has another name");
}

#[tokio::test]
async fn steer_01_a_session_opens_when_it_is_let() {
    let fake = Scripted::default();
    let mut child = Child::begun(&fake, &job("before-open gate open\nsay x", 1, None));
    fake.gate("open").reached().await;
    tokio::task::yield_now().await;
    assert!(child.said.try_recv().is_err());
    fake.gate("open").open();
    assert_eq!(child.turn().await, [opened("scripted-1"), message("x"), finished("x")]);
    let mut child = Child::begun(&fake, &job("before-open fail auth no key\nsay x", 1, None));
    assert_eq!(code(&child.next().await), ErrorCode::Auth);
    assert_eq!(child.said.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_stop_meet_children_that_react_to_one_of_them_each() {
    let fake = Scripted::default();
    let still = |task: &tokio::task::JoinHandle<()>| !task.is_finished();
    let wait = || tokio::time::sleep(std::time::Duration::from_secs(1));

    let deaf = Child::begun(&fake, &job("deaf\ngate never", 1, None));
    fake.gate("never").reached().await;
    deaf.tell(Order::Interrupt);
    deaf.tell(Order::Close);
    wait().await;
    assert!(still(&deaf.task), "a deaf child takes no notice of its closing");
    deaf.cancelled.cancel();
    deaf.task.await.unwrap();

    let broken = Child::begun(&fake, &job("break what", 1, None));
    wait().await;
    broken.tell(Order::Close);
    wait().await;
    assert!(still(&broken.task));
    broken.cancelled.cancel();
    broken.task.await.unwrap();

    let hung = Child::begun(&fake, &job("gate never\nhang", 1, None));
    hung.cancelled.cancel();
    wait().await;
    assert!(still(&hung.task), "a script with `hang` does not mind being cancelled");
    fake.gate("never").open();
    wait().await;
    drop(hung.orders);
    wait().await;
    assert!(still(&hung.task), "and at `hang` nothing else either");
    hung.task.abort();

    let panicked = Child::begun(&fake, &job("panic on purpose", 1, None));
    assert!(panicked.task.await.unwrap_err().is_panic());
}

#[tokio::test]
async fn a_provider_reports_only_what_it_can() {
    let can = Capabilities { turns: false, cost: false, resume: false, ..Scripted::all() };
    let mut child =
        Child::begun(&Scripted::named("poor", can), &job("turn\ntool x\nuse 1 1 1\nsay x", 1, None));
    let all = child.turn().await;
    assert_eq!((all.len(), all[0].clone()), (4, Said::Opened { session: None }));
    assert!(matches!(all[1], Said::Used(usage) if usage.cost_usd.is_none()));
}

#[tokio::test]
async fn without_a_way_to_be_spoken_with_it_is_a_plain_task() {
    let fake = Scripted::default();
    let mute = fake.also("mute", Capabilities { model: true, ..Capabilities::default() });
    assert_eq!((mute.name(), mute.capabilities().steering), ("mute", Steering::None));
    let run = async |script: &str| {
        let job = job(script, 1, None);
        let Launch::Task(task) = mute.launch(&job).unwrap() else { panic!("it does not converse") };
        task(context(&job)).await
    };
    fake.gate("a").open();
    assert_eq!(run("say x\ngate a\nsay y").await, Ok(String::from("y")));
    assert_eq!(run("").await, Ok(String::new()));
    let failed = run("say half\nfail broken").await.unwrap_err();
    assert_eq!((failed.message.as_str(), failed.partial.as_deref()), ("broken", Some("half")));
    assert_eq!(run("before-open fail auth no key").await.unwrap_err().message, "no key");
    assert_eq!(run("break it").await.unwrap_err().message, "it");
    assert_eq!(run("nonsense").await.unwrap_err().message, "the script has no step \"nonsense\"");
}
