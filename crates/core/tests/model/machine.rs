//! The run machine as the worlds hold it: commands are decided and folded by the real code, and what tells two states apart
//! is written down in one place.

use std::fmt::Write as _;
use std::rc::Rc;

use subagent_core::need::{Need, needs};
use subagent_core::run::{Command, Delivery, Hold, Phase, Subagent, decide};
use subagent_model::{
    ActivityOn, Conclusion, EventKind, Outcome, QueueReason, Receipt, SpawnSpec, Timestamp,
};

use crate::common::{at, born};

pub const FACTS_APPLY: &str = "11: every decided fact applies";

/// A rule that a mutant drops: the state is shown to `decide` as if its condition did not hold.
pub type Blind<'a> = &'a dyn Fn(&mut Subagent, &Command);

/// A subagent in a world.
#[derive(Clone)]
pub struct Machine {
    pub state: Rc<Subagent>,
    /// A decided fact did not apply.
    pub misfit: bool,
}

impl Machine {
    pub fn new(spec: SpawnSpec, commands: &[Command]) -> Self {
        let mut machine = Self { state: Rc::new(born(spec)), misfit: false };
        for command in commands {
            assert!(machine.tell(command, at(0)).is_some(), "{command:?}");
        }
        machine
    }

    /// The facts that a command leads to, folded in; `None` when it is refused.
    pub fn tell(&mut self, command: &Command, now: Timestamp) -> Option<Vec<EventKind>> {
        self.tell_with(command, now, &|_, _| {}, &|facts| facts)
    }

    /// The same by a machine that drops a rule: it is blind to something, or forgets some of its facts.
    pub fn tell_with(
        &mut self,
        command: &Command,
        now: Timestamp,
        blind: Blind<'_>,
        forget: &dyn Fn(Vec<EventKind>) -> Vec<EventKind>,
    ) -> Option<Vec<EventKind>> {
        let mut state = (*self.state).clone();
        blind(&mut state, command);
        let facts = forget(decide(&state, command, now).ok()?);
        for fact in &facts {
            if state.apply(now, fact).is_err() {
                self.misfit = true;
                return Some(facts);
            }
        }
        if !facts.is_empty() {
            self.state = Rc::new(state);
        }
        Some(facts)
    }

    pub fn needs(&self, now: Timestamp) -> Vec<Need> {
        needs(&self.state, now)
    }

    pub fn change(&mut self, change: impl FnOnce(&mut Subagent)) {
        let mut state = (*self.state).clone();
        change(&mut state);
        self.state = Rc::new(state);
    }

    /// Everything by which two states can act differently.
    pub fn shape(&self) -> String {
        shape(&self.state)
    }

    /// The same for a world in which times go on for ever: it adds by itself what it makes of them.
    pub fn shape_without_times(&self) -> String {
        let mut state = (*self.state).clone();
        match &mut state.run.phase {
            Phase::Queued { reason, .. } if reason.not_before().is_some() => {
                *reason = QueueReason::Retry { at: at(0) };
            }
            Phase::Waiting { on: ActivityOn::Quota { until }, .. } => *until = at(0),
            _ => {}
        }
        shape(&state)
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Aborted { limit } => format!("aborted {limit:?}"),
        Outcome::Stopped { stop } => format!("stopped {:?}", stop.cause),
        other => other.status().to_string(),
    }
}

fn conclusion(of: Option<&Conclusion>) -> Option<(String, Option<&str>)> {
    of.map(|of| (outcome(&of.outcome), of.result.as_ref().map(|text| text.preview.as_str())))
}

fn hold(hold: &Hold) -> (u32, Option<u32>) {
    (hold.attempt.0, hold.born_in.map(|run| run.0))
}

fn shape(state: &Subagent) -> String {
    let run = &state.run;
    let mut shape = String::with_capacity(160);
    // Writing to a string cannot fail.
    let mut add = |of: std::fmt::Arguments<'_>| {
        let _ = shape.write_fmt(of);
        shape.push('|');
    };
    match &run.phase {
        Phase::Queued { reason, .. } => add(format_args!("q{:?}", reason.not_before())),
        Phase::Starting { hold: of } => add(format_args!("b{:?}", hold(of))),
        Phase::Running { hold: of, .. } => add(format_args!("r{:?}", hold(of))),
        Phase::Waiting { hold: of, on, held, .. } => {
            let on = match on {
                ActivityOn::Quota { until } => format!("quota {until:?}"),
                on => format!("{on:?}"),
            };
            add(format_args!("w{:?}{on}{:?}", of.as_ref().map(hold), conclusion(held.as_deref())));
        }
        Phase::Stopping { hold: of, stop } => add(format_args!("s{:?}{:?}", hold(of), stop.cause)),
        Phase::Ended(ended) => {
            add(format_args!("e{}{:?}", outcome(&ended.outcome), ended.result.as_ref().map(|r| &r.preview)));
        }
    }
    add(format_args!(
        "{} {} {} {} {}",
        run.number,
        run.attempts.len(),
        run.turns,
        run.tool_uses,
        run.usage.map_or(0, |usage| usage.total)
    ));
    add(format_args!("{} {} {:?}", u8::from(run.session_open), u8::from(run.prompted), state.session));
    add(format_args!("{} {}", run.first_prompted, run.last_prompted));
    add(format_args!(
        "{:?} {:?} {} {:?}",
        run.wrap_up.map(|asked| asked.limit),
        run.cut,
        run.interrupting.is_some(),
        conclusion(run.done.as_deref())
    ));
    for request in &run.requests {
        add(format_args!(
            "{} {:?} {:?}",
            request.ask.key,
            request.state,
            request.answered.as_ref().map(|a| &a.answer)
        ));
    }
    if let Some(warm) = &state.warm {
        add(format_args!("warm {:?} {}", hold(&warm.hold), warm.closing.is_some()));
    }
    let mail = &state.mail;
    let numbers = |of: Vec<u64>| of;
    add(format_args!(
        "{:?} {:?} {:?} {}",
        mail.handing().map(|message| message.number.0),
        numbers(mail.waiting().map(|message| message.number.0).collect()),
        numbers(mail.follow_ups().map(|message| message.number.0).collect()),
        mail.is_paused()
    ));
    for posted in mail.list() {
        match posted.receipt {
            Receipt::Accepted => {}
            Receipt::Delivered { run, .. } => add(format_args!("{}d{run}", posted.message.number)),
            Receipt::Returned { reason, .. } => add(format_args!("{}r{reason:?}", posted.message.number)),
        }
    }
    add(format_args!("{} {} {:?}", run.rate_hits, run.nudges.results, run.stalled_since.is_some()));
    for duty in state.duties() {
        let owed = match duty.delivery {
            Delivery::NotYet => "-",
            Delivery::NotOwed => "n",
            Delivery::Owed { .. } => "o",
            Delivery::Consumed { .. } => "c",
        };
        add(format_args!("{owed}"));
    }
    shape
}
