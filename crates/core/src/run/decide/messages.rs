//! Messages: what is accepted when, what is handed over when, and what comes back.

use subagent_model::{
    ActivityOn, Attachment, AttemptNumber, Cause, EventKind, MessageMode, MessageNumber, Requester,
    ReturnReason, Steering, Written,
};

use super::super::command::{NotResumable, Refusal};
use super::super::state::Phase;
use super::runs::resumable;
use super::{Decision, Table};

impl Table<'_> {
    /// The same message again is the message that is there.
    pub(super) fn post_once(
        &self,
        from: &Requester,
        mode: MessageMode,
        (text, attachments): (&str, &[Attachment]),
        or_follow_up: bool,
        key: Option<&str>,
    ) -> Decision {
        if key.is_some_and(|key| self.state.mail.find_by_key(from, key).is_some()) {
            return Ok(vec![]);
        }
        let mut facts = self.post(from, mode, text, or_follow_up)?;
        for fact in &mut facts {
            if let EventKind::MessagePosted { message } = fact {
                message.key = key.map(str::to_owned);
                message.attachments = attachments.to_vec();
            }
        }
        Ok(facts)
    }

    fn post(&self, from: &Requester, mode: MessageMode, text: &str, or_follow_up: bool) -> Decision {
        match mode {
            MessageMode::FollowUp => self.post_follow_up(from, text),
            MessageMode::Interrupt => self.interrupt(from, Some(text)),
            MessageMode::Steer => {
                let steered = self.post_steer(from, text);
                match steered {
                    Err(Refusal::NoOpenTurn { .. } | Refusal::NotCapable { .. }) if or_follow_up => {
                        self.post_follow_up(from, text)
                    }
                    steered => steered,
                }
            }
        }
    }

    fn post_steer(&self, from: &Requester, text: &str) -> Decision {
        let (state, run) = (self.state, &self.state.run);
        match &run.phase {
            // Between runs it is the next one. A process that was idle for too long is waited for: nobody wanted it to end.
            Phase::Ended(_) if state.is_idle() || self.is_retiring() => self.post_follow_up(from, text),
            Phase::Ended(_) | Phase::Stopping { .. } => Err(self.no_open_turn()),
            _ if run.cut.is_some() => Err(self.no_open_turn()),
            // Its turn is over, only its process is not gone yet: the next run is meant.
            _ if run.done.is_some() => self.post_follow_up(from, text),
            Phase::Waiting { hold: None, held: Some(_), .. } => Err(self.no_open_turn()),
            _ if state.spec.can.steering == Steering::None => Err(Refusal::NotCapable {
                provider: state.spec.provider.clone(),
                cannot: "takes no message during a turn; send it as a follow-up",
            }),
            _ => {
                state.mail.admit(text)?;
                let message = state.mail.compose(from.clone(), MessageMode::Steer, text.to_owned(), self.now);
                let number = message.number;
                let mut facts = vec![EventKind::MessagePosted { message }];
                if state.mail.next().is_none() && self.may_hand_over() {
                    facts.push(EventKind::MessageBegun { number });
                }
                Ok(facts)
            }
        }
    }

    fn is_retiring(&self) -> bool {
        let closing = self.state.warm.as_ref().and_then(|warm| warm.closing.as_ref());
        closing.is_some_and(|stop| stop.cause == Cause::IdleTooLong)
    }

    fn post_follow_up(&self, from: &Requester, text: &str) -> Decision {
        let (state, mail) = (self.state, &self.state.mail);
        if state.is_ended() {
            resumable(state)?;
        } else if !state.spec.can.resume && !state.spec.is_warm() {
            return Err(Refusal::NotResumable { why: NotResumable::ProviderCannot });
        }
        mail.admit(text)?;
        let message = mail.compose(from.clone(), MessageMode::FollowUp, text.to_owned(), self.now);
        Ok(vec![EventKind::MessagePosted { message }])
    }

    /// A message of the runtime itself. It is not bound by what senders may have waiting.
    pub(super) fn post_by_runtime(&self, text: &str) -> Vec<EventKind> {
        let (state, run) = (self.state, &self.state.run);
        let open = matches!(
            run.phase,
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Waiting { hold: Some(_), .. }
        );
        if state.spec.can.steering == Steering::None || !open || run.done.is_some() || run.cut.is_some() {
            return vec![];
        }
        let from = Requester::from(super::super::RUNTIME);
        let message = state.mail.compose(from, MessageMode::Steer, text.to_owned(), self.now);
        let number = message.number;
        let mut facts = vec![EventKind::MessagePosted { message }];
        if state.mail.next().is_none() && self.may_hand_over() {
            facts.push(EventKind::MessageBegun { number });
        }
        facts
    }

    pub(super) fn interrupt(&self, by: &Requester, text: Option<&str>) -> Decision {
        let (state, run) = (self.state, &self.state.run);
        let in_turn = run.is_conversing()
            && state.has_prompt()
            && match &run.phase {
                Phase::Running { .. } => true,
                Phase::Waiting { on, .. } => matches!(on, ActivityOn::Approval | ActivityOn::Question),
                _ => false,
            };
        if !in_turn {
            // Without an open turn there is nothing to cancel; what it was to be told is a message like any other.
            return text.map_or_else(|| Ok(vec![]), |text| self.post_steer(by, text));
        }
        if !state.spec.can.interrupt {
            return Err(Refusal::NotCapable {
                provider: state.spec.provider.clone(),
                cannot: "cannot cancel a turn and keep the session; stop it instead",
            });
        }
        let mut facts = vec![];
        if run.interrupting.is_none() {
            facts.push(EventKind::InterruptAsked { by: by.clone() });
            facts.extend(run.open_requests().map(|request| EventKind::RequestWithdrawn {
                number: request.number,
                reason: String::from("the turn was interrupted"),
            }));
        }
        if let Some(text) = text {
            state.mail.admit(text)?;
            let message = state.mail.compose(by.clone(), MessageMode::Interrupt, text.to_owned(), self.now);
            facts.push(EventKind::MessagePosted { message });
        }
        Ok(facts)
    }

    /// True when a message can be given into the current turn right now.
    fn may_hand_over(&self) -> bool {
        self.may_hand_over_when(self.state.has_prompt())
    }

    fn may_hand_over_when(&self, prompted: bool) -> bool {
        let (state, run) = (self.state, &self.state.run);
        let may = match &run.phase {
            Phase::Running { .. } => state.spec.can.steering == Steering::Live,
            // Its turn is over, and it takes the next one.
            Phase::Waiting { hold: Some(_), held: Some(_), .. } => state.spec.can.steering != Steering::None,
            _ => false,
        };
        may && prompted && run.is_conversing() && run.interrupting.is_none() && state.mail.handing().is_none()
    }

    /// The message that waits first, once the child can take one.
    pub(super) fn hand_over_when(&self, prompted: bool) -> Option<EventKind> {
        let next = self.state.mail.next().filter(|_| self.may_hand_over_when(prompted))?;
        Some(EventKind::MessageBegun { number: next.number })
    }

    /// The same, for a run that an answer lets go on.
    pub(super) fn hand_over_after_wait(&self) -> Option<EventKind> {
        let (state, run) = (self.state, &self.state.run);
        let waits = matches!(run.phase, Phase::Waiting { hold: Some(_), held: None, .. });
        let may = waits
            && state.spec.can.steering == Steering::Live
            && state.has_prompt()
            && run.is_conversing()
            && run.interrupting.is_none()
            && state.mail.handing().is_none();
        let next = state.mail.next().filter(|_| may)?;
        Some(EventKind::MessageBegun { number: next.number })
    }

    pub(super) fn settle(&self, attempt: AttemptNumber, number: MessageNumber, written: Written) -> Decision {
        let mail = &self.state.mail;
        let Some(handing) = mail.handing().filter(|message| message.number == number) else {
            return Err(Refusal::NoSuchMessage { number });
        };
        self.fenced(attempt)?;
        let run = &self.state.run;
        let settled = match written {
            Written::Yes => EventKind::MessageDelivered { number: handing.number },
            Written::Refused => EventKind::MessageReturned { number, reason: ReturnReason::Refused },
            Written::Unknown => EventKind::MessageReturned { number, reason: ReturnReason::Unknown },
            Written::No if matches!(run.phase, Phase::Stopping { .. }) => {
                EventKind::MessageReturned { number, reason: ReturnReason::Stopped }
            }
            Written::No => EventKind::MessagePutBack { number },
        };
        let mut facts = vec![settled];
        // The next one follows at once: the hand is free again.
        if written != Written::No
            && let Some(next) = mail.next()
            && self.state.spec.can.steering == Steering::Live
            && self.state.has_prompt()
            && run.is_conversing()
            && matches!(run.phase, Phase::Running { .. })
            && run.interrupting.is_none()
        {
            facts.push(EventKind::MessageBegun { number: next.number });
        }
        Ok(facts)
    }

    /// One that is being handed over may have arrived: it goes its way.
    pub(super) fn withdraw(&self, number: MessageNumber) -> Vec<EventKind> {
        let mail = &self.state.mail;
        let waits = mail.waiting().chain(mail.follow_ups()).any(|message| message.number == number);
        let reason = ReturnReason::AlreadyRead;
        if waits { vec![EventKind::MessageReturned { number, reason }] } else { vec![] }
    }

    pub(super) fn set_aside(&self, number: MessageNumber) -> Decision {
        let waits = self.state.mail.pending().any(|message| message.number == number);
        if !waits {
            return Err(Refusal::NoSuchMessage { number });
        }
        Ok(vec![EventKind::MessageReturned { number, reason: ReturnReason::Malformed }])
    }

    /// Everything that waits for the current run, on its way back.
    pub(super) fn return_messages(&self, reason: ReturnReason) -> Vec<EventKind> {
        let mail = &self.state.mail;
        let handing = mail.handing().map(|message| (message.number, ReturnReason::Unknown));
        let waiting = mail.waiting().map(|message| (message.number, reason));
        let all = handing.into_iter().chain(waiting);
        all.map(|(number, reason)| EventKind::MessageReturned { number, reason }).collect()
    }

    fn no_open_turn(&self) -> Refusal {
        Refusal::NoOpenTurn { run: self.state.run.number, status: self.state.status() }
    }
}
