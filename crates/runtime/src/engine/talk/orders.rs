//! What the state owes the child: its prompt, messages, answers, interrupts. Each is given once; whether it was given is
//! known here as long as this daemon lives, and read from the log by the next one.

use std::sync::Arc;

use subagent_core::run::{Command, RUNTIME};
use subagent_model::{ErrorCode, Message, RequestState, Requester, Written};
use subagent_provider::Order;
use tokio::time::Instant;

use super::super::tasks::{NotStopped, StopInner};
use super::super::writer::Act;
use super::Talk;
use super::channel::Untold;

/// What a session is told that goes on after its process was lost, its quota was renewed, or its provider failed.
const GO_ON: &str = "Go on with your task from where you were interrupted.";

impl Talk<'_> {
    /// Carries out what is owed. May be called at any time, with the same result for the same state.
    pub(super) async fn carry_out(&mut self) {
        self.end_what_is_to_end();
        if self.is_closing() {
            return;
        }
        if self.opened && self.is_running() && !self.prompted {
            self.prompt().await;
        }
        if !self.prompted {
            return;
        }
        if self.state.run.interrupting.is_some() && self.interrupt.is_none() {
            self.interrupt_turn().await;
        }
        self.hand_over().await;
        self.tell_answers().await;
        self.tell_results().await;
    }

    /// Gives the prompt of the run, or tells a session that has it to go on. Stored before it is written: a session may
    /// hold it from then on.
    async fn prompt(&mut self) {
        let key = self.attempt.key;
        let run = &self.state.run;
        let first = !run.prompted || run.first_prompted == key.attempt;
        let (text, attached) = if first {
            let files = self.attempt.attached(&self.state.run.attachments).await;
            let text = self.attempt.prompt_text_of(&self.state).await;
            match text.and_then(|text| Ok((text, files?))) {
                Ok(prompt) => prompt,
                Err(problem) => {
                    let failure = self.failed(problem.code, problem.message, false);
                    return self.fail(failure);
                }
            }
        } else {
            (Arc::from(GO_ON), Vec::new())
        };
        let position = self.channel.end_position();
        let act = Act::new(key.subagent, Command::Prompted { attempt: key.attempt, position });
        if self.act(act).await.is_err() {
            // It is being stopped, or the session is not open in the state yet: the next state says so.
            return;
        }
        let said = self.channel.said_by_now();
        self.hear(said).await;
        // A stop that was accepted in the same step goes before.
        if !self.state.has_prompt() || self.state.run.cut.is_some() || !self.is_running() {
            return;
        }
        self.prompted = true;
        let from = if first { self.state.requester.clone() } else { Requester::from(RUNTIME) };
        self.say(Order::Prompt { number: None, from, text: text.to_string(), attached }).await;
    }

    /// Gives a prompt that the run machine knows of.
    pub(super) async fn say(&mut self, order: Order) {
        // What the gates think of the turn before no longer matters.
        self.ruling = None;
        self.news = true;
        match self.channel.tell(&order).await {
            Ok(()) => self.turn_open = true,
            Err(Untold::NoWord(why)) => {
                // What a protocol always has a word for is text.
                let files = matches!(&order, Order::Prompt { attached, .. } if !attached.is_empty());
                let code = if files { ErrorCode::NotCapable } else { ErrorCode::Protocol };
                let failure = self.failed(code, why, false);
                self.fail(failure);
            }
            // Its end comes as an event.
            Err(Untold::Closed | Untold::Unknown(_)) => {}
        }
    }

    async fn interrupt_turn(&mut self) {
        self.interrupt = Some(Instant::now());
        self.ruling = None;
        if self.turn_open {
            if let Err(error) = self.channel.tell(&Order::Interrupt).await {
                tracing::debug!(key = %self.attempt.key, ?error, "an interrupt could not be given");
            }
        } else {
            // Between two turns there is nothing to cancel.
            let attempt = self.attempt.key.attempt;
            let conclusion = Box::new(self.with_text(subagent_model::Outcome::Completed));
            self.act_soon(Command::TurnCancelled { attempt, conclusion, given: self.given() });
        }
    }

    /// Hands the message over whose turn it is: into the open turn, or as the next prompt.
    async fn hand_over(&mut self) {
        let Some(message) = self.state.mail.handing().filter(|message| self.handed != Some(message.number))
        else {
            return;
        };
        let Message { number, from, text, attachments, .. } = message.clone();
        self.handed = Some(number);
        let attached = match self.attempt.attached(&attachments).await {
            Ok(attached) => attached,
            Err(problem) => {
                tracing::warn!(key = %self.attempt.key, %number, %problem, "the files of a message are gone");
                return self.settle_message(number, Written::Refused);
            }
        };
        // What the gates think of the turn before no longer matters.
        self.ruling = None;
        self.news = true;
        let steers = self.turn_open;
        let order = if steers {
            Order::Steer { number, from, text, attached }
        } else {
            Order::Prompt { number: Some(number), from, text, attached }
        };
        match self.channel.tell(&order).await {
            Ok(()) => {
                self.turn_open = true;
                // A prompt is what it works on next; a steer is acknowledged by those that can.
                if !steers || !self.channel.acknowledges() {
                    self.settle_message(number, Written::Yes);
                }
            }
            Err(Untold::NoWord(why)) => {
                tracing::info!(key = %self.attempt.key, %number, why, "the child takes no such message");
                self.settle_message(number, Written::Refused);
            }
            Err(Untold::Closed) => self.settle_message(number, Written::No),
            Err(Untold::Unknown(why)) => {
                tracing::info!(key = %self.attempt.key, %number, why, "a message may or may not have arrived");
                self.settle_message(number, Written::Unknown);
            }
        }
    }

    async fn tell_answers(&mut self) {
        let answered: Vec<_> = self
            .state
            .run
            .requests
            .iter()
            .filter(|request| request.state == RequestState::Answered && !self.told.contains(&request.number))
            .cloned()
            .collect();
        for request in answered {
            let Some(answered) = request.answered else { continue };
            self.told.insert(request.number);
            self.news = true;
            let order = Order::Answer {
                key: request.ask.key.clone(),
                ask: Box::new(request.ask),
                answer: answered.answer,
                reason: answered.reason,
            };
            if let Err(error) = self.channel.tell(&order).await {
                tracing::warn!(key = %self.attempt.key, ?error, "an answer could not be given");
            }
            let command = Command::Told { attempt: self.attempt.key.attempt, number: request.number };
            self.attempt.tell(Act::lazy(self.attempt.key.subagent, command));
        }
    }

    /// Tells the child to stop one of its own. It changes nothing of the run, so nothing is committed.
    pub(super) async fn stop_inner(&mut self, stop: StopInner) {
        let StopInner { key, reply } = stop;
        let told = match self.channel.tell(&Order::StopInner { key }).await {
            Ok(()) => Ok(()),
            Err(Untold::NoWord(why)) => Err(NotStopped::NoWord(why)),
            Err(Untold::Closed) => Err(NotStopped::Over),
            Err(Untold::Unknown(why)) => Err(NotStopped::Unknown(why)),
        };
        self.news = true;
        // Who asked may be gone.
        let _ = reply.send(told);
    }

    /// Results of its own children that it has not read are put before it; having them is reading them.
    async fn tell_results(&mut self) {
        let nudges = self.state.run.nudges.results;
        if nudges <= self.result_nudges || self.turn_open || !self.is_running() {
            return;
        }
        self.result_nudges = nudges;
        let id = self.attempt.key.subagent;
        let (text, runs) = self.attempt.inner.notices_for(id);
        self.say(Order::Prompt { number: None, from: Requester::from(RUNTIME), text, attached: vec![] })
            .await;
        if !self.turn_open {
            // It did not reach the child: they stay unread.
            return;
        }
        for (child, run) in runs {
            let by = Requester::subagent(id);
            self.attempt.inner.send(Act::lazy(child, Command::Acknowledge { run, by }).into());
        }
    }
}
