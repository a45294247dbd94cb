//! The end of a turn: whether the answer counts, whether somebody wants more of it, and what the run makes of that.

use std::future::Future;
use std::pin::Pin;

use subagent_core::quality;
use subagent_core::run::{Command, Given, Left, Phase, RUNTIME};
use subagent_hooks::{EndAsk, EndRuling};
use subagent_model::{Cause, Conclusion, ErrorCode, Mark, Nudge, Outcome, Quality, Requester, StopInfo};
use subagent_provider::{Order, TurnEnd, bound};
use subagent_store::{Content, ContentKind};

use super::super::writer::Act;
use super::Talk;

/// What a child is told whose answer is blank.
const FINAL_ANSWER: &str = "Give your final answer now, as text.";

/// A question to the gates that is under way.
pub(super) struct Ruling {
    conclusion: Conclusion,
    answer: Pin<Box<dyn Future<Output = EndRuling> + Send>>,
}

impl Ruling {
    /// Waits for the gates; for ever when nothing was asked.
    pub(super) async fn ready(asked: &mut Option<Self>) -> (Conclusion, EndRuling) {
        match asked {
            None => std::future::pending().await,
            Some(ruling) => {
                let answer = ruling.answer.as_mut().await;
                let conclusion = ruling.conclusion.clone();
                *asked = None;
                (conclusion, answer)
            }
        }
    }
}

impl Talk<'_> {
    pub(super) async fn turn_ended(&mut self, end: TurnEnd) {
        self.turn_open = false;
        self.ear.turn_over();
        self.hurry();
        match end {
            TurnEnd::Cancelled => {
                let stop = StopInfo {
                    actor: String::from("the child"),
                    cause: Cause::Requested,
                    at: super::super::clock::now(),
                };
                let conclusion = self.with_text(Outcome::Stopped { stop });
                self.turn_over_by(conclusion, true).await;
            }
            TurnEnd::CutOff(limit) => {
                // The session is as good as before, and what it has is a part of an answer.
                let conclusion = self.with_text(Outcome::Aborted { limit });
                self.turn_over_by(conclusion, false).await;
            }
            TurnEnd::Failed(error) => {
                let lasting = matches!(error.code, ErrorCode::Refused | ErrorCode::ContextOverflow);
                let conclusion = self.with_text(Outcome::Error { error });
                if self.state.spec.is_warm() && lasting {
                    // The session is as good as before.
                    self.turn_over_by(conclusion, false).await;
                } else {
                    self.fail(conclusion);
                }
            }
            TurnEnd::Finished { answer, truncated } => {
                if let Some(answer) = answer {
                    self.ear.hear(&subagent_provider::Said::Message(answer), true);
                }
                self.finished(truncated).await;
            }
        }
    }

    async fn finished(&mut self, truncated: bool) {
        let run = &self.state.run;
        let nudges = run.nudges;
        let may_go_on = run.cut.is_none() && run.interrupting.is_none() && self.state.mail.next().is_none();
        let ask_again = self.ear.text().is_none() && may_go_on && nudges.final_answer == 0;
        if ask_again && self.nudge(Nudge::FinalAnswer, FINAL_ANSWER).await {
            return;
        }
        let misfit = match &self.state.spec.output_schema {
            Some(schema) if may_go_on => super::super::schema::check(schema, self.ear.text()).err(),
            _ => None,
        };
        if let Some(problem) = misfit {
            if nudges.schema == 0 {
                let text = format!(
                    "Your answer does not fit the required JSON Schema: {problem}. Answer again, with nothing but a JSON \
                     value that fits."
                );
                if self.nudge(Nudge::Schema { problem: problem.clone() }, &text).await {
                    return;
                }
            }
            let failure = self.failed(ErrorCode::SchemaMismatch, problem, false);
            self.turn_over_by(failure, false).await;
            return;
        }
        let conclusion = self.completed(truncated);
        self.ask_gates(conclusion).await;
    }

    /// A good end, as far as the turn goes.
    fn completed(&self, truncated: bool) -> Conclusion {
        let lived = self.state.run.attempts.iter().find_map(|facts| facts.started_at);
        let lived = lived.map(|at| super::super::clock::now().since(at)).unwrap_or_default();
        let facts = quality::Facts {
            conversational: true,
            tool_uses: self.ear.tool_uses.max(self.state.run.tool_uses),
            lived,
            truncated,
        };
        let text = self.ear.text();
        let (mut quality, mut marks) = quality::judge(text, &facts);
        if self.ear.missed {
            marks.push(Mark::OutputIncomplete);
            if quality == Quality::Ok {
                quality = Quality::Partial;
            }
        }
        if self.ear.denied {
            marks.push(Mark::PermissionDenied);
        }
        if text.is_none() && !marks.contains(&Mark::NoOutput) {
            marks.push(Mark::NoOutput);
        }
        let result = text.map(|text| bound(text.to_owned()).0);
        Conclusion { outcome: Outcome::Completed, result, marks, quality, exit: None }
    }

    /// Gates may want more of it. Asked only for an end that would count.
    async fn ask_gates(&mut self, conclusion: Conclusion) {
        let gates = self.attempt.inner.hooks.gates().clone();
        let run = &self.state.run;
        let settled = !run.is_conversing() || run.interrupting.is_some() || self.state.mail.next().is_some();
        if gates.is_empty() || settled || matches!(run.phase, Phase::Stopping { .. }) {
            return self.turn_over_by(conclusion, false).await;
        }
        let record = subagent_core::snapshot::record(&self.state);
        let ask = EndAsk {
            facts: subagent_hooks::RunFacts::of(&record, &self.attempt.inner.config.data_dir),
            conclusion: std::sync::Arc::new(conclusion.clone()),
            stopping: false,
            last_assistant_message: self.ear.text().map(std::sync::Arc::from),
            continuations: run.nudges.gates,
        };
        let answer = Box::pin(async move { gates.at_end(&ask).await });
        self.ruling = Some(Ruling { conclusion, answer });
    }

    /// What the gates said.
    pub(super) async fn ruled(&mut self, (mut conclusion, ruling): (Conclusion, EndRuling)) {
        match ruling {
            EndRuling::Ends => {}
            EndRuling::Exhausted => {
                tracing::info!(key = %self.attempt.key, "gates made it go on as often as they may");
                conclusion.marks.push(Mark::GateUnheard);
            }
            EndRuling::Continues { gate, reason } => {
                let nudge = Nudge::Gate { gate: gate.to_string(), reason: reason.clone() };
                if self.nudge(nudge, &reason).await {
                    return;
                }
                conclusion.marks.push(Mark::GateUnheard);
            }
        }
        self.turn_over_by(conclusion, false).await;
    }

    /// The message that it was given and has not said that it has.
    pub(super) fn given(&self) -> Given {
        self.handed.map_or(Given::Nothing, Given::Message)
    }

    /// Asks the child to go on. False when the run takes no more of it.
    async fn nudge(&mut self, nudge: Nudge, text: &str) -> bool {
        let key = self.attempt.key;
        let act = Act::new(key.subagent, Command::Nudge { attempt: key.attempt, nudge, given: self.given() });
        if self.act(act).await.is_err() {
            return false;
        }
        let from = Requester::from(RUNTIME);
        self.say(Order::Prompt { number: None, from, text: text.to_owned(), attached: vec![] }).await;
        true
    }

    /// Tells the run machine that the turn is over; the next state says what follows.
    async fn turn_over_by(&mut self, conclusion: Conclusion, cancelled: bool) {
        let key = self.attempt.key;
        let attempt = key.attempt;
        let whole = self.ear.text().and_then(|text| bound(text.to_owned()).1);
        self.channel.scribe().settle().await;
        let conclusion = Box::new(conclusion);
        let command = if cancelled {
            Command::TurnCancelled { attempt, conclusion, given: self.given() }
        } else {
            let left = Left { background: self.ear.background > 0, given: self.given(), ..Left::default() };
            Command::TurnDone { attempt, conclusion, left }
        };
        let content = whole.map(|text| Content { run: self.run, kind: ContentKind::Result, text });
        // Nothing is lost if the engine halts now: the log tells the next one.
        if let Err(error) = self.act(Act { content, ..Act::new(key.subagent, command) }).await {
            tracing::debug!(%key, %error, "the end of a turn changed nothing");
        }
    }
}
