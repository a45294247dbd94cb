//! Taking a conversation over in its middle. The log tells what went both ways; what the state does not know of it yet is
//! told now, and what the state owes the child and the log does not have is given by the usual way.

use std::sync::Arc;

use subagent_core::run::{Command, RUNTIME, Subagent};
use subagent_model::{Answer, MessageNumber, RequestState, Requester, Timestamp, What, Written};
use subagent_process::log::LogError;
use subagent_provider::{Job, Said, TurnEnd, WasTold};
use tokio::runtime::RuntimeFlavor;

use super::wire::Was;
use super::{Act, Talk};

/// What the log of a conversation comes to.
#[derive(Default)]
struct Recalled {
    opened: bool,
    session: Option<String>,
    open_asks: Vec<subagent_model::Ask>,
    answered: Vec<String>,
    written: Vec<MessageNumber>,
    took: Vec<(MessageNumber, Written)>,
    last_end: Option<TurnEnd>,
    /// The turn that is open, or ended last, was to be cancelled.
    interrupted: bool,
    broken: Option<String>,
    hole_in_input: bool,
}

/// How the turn before ended, where it did.
pub(super) struct EndBefore(pub(super) Option<TurnEnd>);

impl Talk<'_> {
    /// Rebuilds what is known of the conversation, and makes state and log agree.
    pub(super) async fn take_over(&mut self, job: &Job) -> Result<(), LogError> {
        // A long log is read without holding up everybody else on this thread.
        let state = Arc::clone(&self.state);
        let words = move |told: &WasTold| words_of(&state, told);
        let many = tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let all = if many {
            tokio::task::block_in_place(|| self.channel.recall(job, words))?
        } else {
            self.channel.recall(job, words)?
        };
        let recalled = self.recall(all);
        self.count();
        self.reconcile(recalled).await;
        Ok(())
    }

    fn recall(&mut self, all: Vec<(u64, Was)>) -> Recalled {
        let mut recalled = Recalled::default();
        let run = &self.state.run;
        let here = run.last_prompted == self.attempt.key.attempt;
        let (prompted_at, counted) = (run.prompted_at, run.counted.max(run.prompted_at));
        for (position, was) in all {
            match was {
                Was::Told(told) => match told {
                    WasTold::Prompt | WasTold::Message(_) if position <= prompted_at || !here => {
                        self.begins_turn(&mut recalled);
                    }
                    WasTold::Prompt => {
                        self.prompted = true;
                        self.begins_turn(&mut recalled);
                    }
                    WasTold::Message(number) => {
                        recalled.written.push(number);
                        if !self.turn_open {
                            // It may have crossed the end of the turn before: then the child declines it.
                            self.crossed = Some((number, recalled.last_end.take()));
                            self.begins_turn(&mut recalled);
                        }
                    }
                    WasTold::Answer(key) => {
                        recalled.open_asks.retain(|ask| ask.key != key);
                        recalled.answered.push(key);
                    }
                    WasTold::Interrupt => recalled.interrupted = true,
                    // What came of it the child says itself.
                    WasTold::StopInner(_) => {}
                },
                Was::Hole { stdin } => {
                    recalled.hole_in_input |= stdin;
                    self.ear.missed |= here && position > prompted_at;
                }
                Was::Said(said) => {
                    let current = here && position > prompted_at;
                    if current {
                        self.ear.hear(&said, position <= counted);
                    }
                    self.recall_said(&mut recalled, said);
                }
            }
        }
        recalled
    }

    /// A message was declined: if it alone had seemed to open a turn, none is open, and the end of the one before stands.
    pub(super) fn declined(&mut self, number: MessageNumber) -> Option<EndBefore> {
        let (_, end) = self.crossed.take_if(|(crossed, _)| *crossed == number)?;
        self.turn_open = false;
        Some(EndBefore(end))
    }

    fn begins_turn(&mut self, recalled: &mut Recalled) {
        self.turn_open = true;
        recalled.last_end = None;
        recalled.interrupted = false;
    }

    fn recall_said(&mut self, recalled: &mut Recalled, said: Said) {
        match said {
            Said::Opened { session } => {
                self.opened = true;
                recalled.opened = true;
                recalled.session = session.or(recalled.session.take());
            }
            Said::Asked(ask) => recalled.open_asks.push(ask),
            Said::TookBack { key } => recalled.open_asks.retain(|ask| ask.key != key),
            Said::Took(number) => {
                self.crossed = None;
                recalled.took.push((number, Written::Yes));
            }
            Said::Declined(number) => {
                recalled.took.push((number, Written::Refused));
                if let Some(EndBefore(end)) = self.declined(number) {
                    recalled.last_end = end;
                }
            }
            Said::Done(end) => {
                self.turn_open = false;
                self.crossed = None;
                self.ear.turn_over();
                recalled.open_asks.clear();
                recalled.last_end = Some(end);
            }
            Said::Broken(why) => recalled.broken = Some(why),
            _ => {}
        }
    }

    async fn reconcile(&mut self, recalled: Recalled) {
        let key = self.attempt.key;
        let attempt = key.attempt;
        if recalled.opened {
            self.act_soon(Command::Opened { attempt, session: recalled.session });
        }
        let interrupting = self.state.run.interrupting.is_some();
        if recalled.interrupted && interrupting {
            self.interrupt = Some(tokio::time::Instant::now());
        }
        // The end of a turn that was cancelled is known by what it left: nobody is waiting for it any more.
        let told_of = recalled.interrupted && !interrupting;
        let last_end = recalled.last_end.filter(|_| !told_of && self.state.run.done.is_none());
        if let Some(handing) = self.state.mail.handing() {
            let number = handing.number;
            let settled = recalled.took.iter().find(|(took, _)| *took == number).map(|(_, written)| *written);
            let written = recalled.written.contains(&number);
            match settled {
                Some(settled) => self.settle_message(number, settled),
                None if written => self.handed = Some(number),
                // Whether it is among what the log has lost cannot be known.
                None if recalled.hole_in_input => self.settle_message(number, Written::Unknown),
                // What the end of the turn comes to includes this: it waits again, and is not in between.
                None if last_end.is_some() => {
                    let command = Command::Settle { attempt, number, written: Written::No };
                    let _ = self.act(Act::new(key.subagent, command)).await;
                }
                None => {}
            }
        }
        for request in &self.state.run.requests {
            if request.state == RequestState::Answered && recalled.answered.contains(&request.ask.key) {
                self.told.insert(request.number);
                let command = Command::Told { attempt, number: request.number };
                self.attempt.tell(Act::lazy(key.subagent, command));
            }
        }
        for ask in recalled.open_asks {
            let command = Command::Ask {
                attempt,
                ask,
                policy: subagent_model::PolicyWord::Ask,
                reason: None,
                expires_at: Timestamp::default(),
            };
            self.act_soon(command);
        }
        if let Some(why) = recalled.broken {
            self.hear(vec![Said::Broken(why)]).await;
        } else if let (Some(end), true) = (last_end, self.prompted && !self.state.is_ended()) {
            // It ended its turn while nobody listened, or while nobody could write it down.
            self.turn_ended(end).await;
        }
    }
}

/// What was told, in the words that the state has for it.
fn words_of(state: &Subagent, told: &WasTold) -> What {
    match told {
        WasTold::Prompt => {
            // Whether it was the task or a nudge is not in the log.
            let text = state.run.prompt.preview.clone();
            let attached = state.run.attachments.clone();
            What::Prompt { number: None, from: state.requester.clone(), text, attached }
        }
        WasTold::Message(number) => {
            let posted = state.mail.find(*number).map(|posted| posted.message);
            let (from, text, attached) = posted.map_or_else(
                || (Requester::from(RUNTIME), String::new(), Vec::new()),
                |message| (message.from, message.text, message.attachments),
            );
            What::Steer { number: *number, from, text, attached }
        }
        WasTold::Answer(key) => {
            let answered = state.run.requests.iter().find(|request| request.ask.key == *key);
            let answered = answered.and_then(|request| request.answered.clone());
            let (answer, reason) =
                answered.map_or((Answer::None, None), |answered| (answered.answer, answered.reason));
            What::Answer { key: key.clone(), answer, reason }
        }
        WasTold::Interrupt => What::Interrupt,
        WasTold::StopInner(id) => What::StopInner { id: id.clone() },
    }
}
