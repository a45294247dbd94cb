//! Permissions and questions: what is asked, who answers, and that nothing waits for ever.

use subagent_model::{
    Answer, Answered, Ask, AttemptNumber, Choice, EventKind, PolicyWord, RequestItem, RequestNumber,
    RequestState, Requester, Subject, Timestamp,
};

use super::super::command::Refusal;
use super::super::state::Phase;
use super::{Decision, Table};

/// Most requests of one run that wait for an answer.
const MOST_OPEN: usize = 32;

impl Table<'_> {
    /// A standing answer counts first, then the policy, then somebody is asked.
    pub(super) fn ask(
        &self,
        attempt: AttemptNumber,
        ask: &Ask,
        policy: PolicyWord,
        reason: Option<&String>,
        expires_at: Timestamp,
    ) -> Decision {
        self.fenced(attempt)?;
        let run = &self.state.run;
        if !matches!(run.phase, Phase::Running { .. } | Phase::Waiting { .. })
            || run.done.is_some()
            || run.cut.is_some()
        {
            return Ok(vec![]);
        }
        let asked_before = |request: &&RequestItem| {
            request.ask.key == ask.key && matches!(request.state, RequestState::Open | RequestState::Answered)
        };
        if run.requests.iter().any(|request| asked_before(&request)) {
            // Adoption hears it again.
            return Ok(vec![]);
        }
        let number = self.next_request();
        let request = RequestItem {
            number,
            run: run.number,
            ask: ask.clone(),
            opened_at: self.now,
            expires_at,
            state: RequestState::Open,
            answered: None,
        };
        let mut facts = vec![EventKind::RequestOpened { attempt, request }];
        if let Some(answered) = self.without_asking(ask, policy, reason) {
            facts.push(EventKind::RequestAnswered { number, answered });
        }
        Ok(facts)
    }

    fn without_asking(&self, ask: &Ask, policy: PolicyWord, reason: Option<&String>) -> Option<Answered> {
        let word = |by: Requester, answer: Answer, reason: String| {
            Some(Answered { answer, by, at: self.now, reason: Some(reason) })
        };
        let by_policy = || Requester::from(super::super::POLICY);
        let why = |otherwise: &str| reason.cloned().unwrap_or_else(|| otherwise.to_owned());
        let choice =
            |allow| Answer::Choice { choice: if allow { Choice::AllowOnce } else { Choice::DenyOnce } };
        let full = self.state.run.open_requests().count() >= MOST_OPEN;
        match &ask.subject {
            Subject::Approval { action, title, .. } => {
                let grant =
                    self.state.grants.iter().find(|grant| grant.action == *action && grant.title == *title);
                match (grant, policy) {
                    (_, PolicyWord::Deny) => word(by_policy(), choice(false), why("the policy denies it")),
                    (Some(grant), _) => word(
                        grant.by.clone(),
                        choice(grant.allow),
                        format!("the standing answer of request q{}", grant.number),
                    ),
                    (None, PolicyWord::Allow) => word(by_policy(), choice(true), why("the policy allows it")),
                    (None, PolicyWord::Ask) if full => {
                        word(by_policy(), choice(false), format!("{MOST_OPEN} requests are open already"))
                    }
                    (None, PolicyWord::Ask) => None,
                }
            }
            Subject::Question { .. } if policy == PolicyWord::Deny => {
                word(by_policy(), Answer::None, why("nobody can answer"))
            }
            Subject::Question { .. } if full => {
                word(by_policy(), Answer::None, format!("{MOST_OPEN} requests are open already"))
            }
            Subject::Question { .. } => None,
        }
    }

    pub(super) fn answer(
        &self,
        number: RequestNumber,
        by: &Requester,
        answer: &Answer,
        reason: Option<&String>,
    ) -> Decision {
        let request = self.open_request(number)?;
        let takes = match (&request.ask.subject, answer) {
            (Subject::Approval { .. }, Answer::Choice { .. })
            | (Subject::Question { .. }, Answer::Text { .. } | Answer::None) => None,
            (Subject::Approval { .. }, _) => Some("a yes or a no: approve or deny it"),
            (Subject::Question { .. }, _) => Some("a text: answer it"),
        };
        if let Some(takes) = takes {
            return Err(Refusal::WrongAnswer { number, takes });
        }
        let answered =
            Answered { answer: answer.clone(), by: by.clone(), at: self.now, reason: reason.cloned() };
        Ok(self.go_on_after(number, EventKind::RequestAnswered { number, answered }))
    }

    /// What follows on the answer to a request, or on its withdrawal: a message that waited for it goes to the child.
    fn go_on_after(&self, number: RequestNumber, over: EventKind) -> Vec<EventKind> {
        let mut facts = vec![over];
        let others = self.state.run.open_requests().any(|request| request.number != number);
        if !others {
            facts.extend(self.hand_over_after_wait());
        }
        facts
    }

    pub(super) fn expire(&self, number: RequestNumber) -> Decision {
        let request = self.open_request(number)?;
        if request.expires_at > self.now {
            return Err(self.illegal());
        }
        let waited = request.expires_at.since(request.opened_at).as_secs();
        let answer = match request.ask.subject {
            Subject::Approval { .. } => Answer::Choice { choice: Choice::DenyOnce },
            Subject::Question { .. } => Answer::None,
        };
        let answered = Answered {
            answer,
            by: Requester::from(super::super::POLICY),
            at: self.now,
            reason: Some(format!("nobody answered within {waited} s")),
        };
        Ok(self.go_on_after(number, EventKind::RequestAnswered { number, answered }))
    }

    pub(super) fn told(&self, attempt: AttemptNumber, number: RequestNumber) -> Decision {
        self.fenced(attempt)?;
        let request = self.state.run.requests.iter().find(|request| request.number == number);
        match request.map(|request| request.state) {
            Some(RequestState::Answered) => Ok(vec![EventKind::RequestSettled { number }]),
            Some(RequestState::Settled | RequestState::Withdrawn) => Ok(vec![]),
            Some(RequestState::Open) => Err(self.illegal()),
            None => Err(Refusal::NoSuchRequest { number }),
        }
    }

    pub(super) fn take_back(&self, attempt: AttemptNumber, key: &str) -> Decision {
        self.fenced(attempt)?;
        let open = self.state.run.open_requests().find(|request| request.ask.key == key);
        let withdrawn = open.map(|request| {
            let reason = String::from("the child took it back");
            let number = request.number;
            self.go_on_after(number, EventKind::RequestWithdrawn { number, reason })
        });
        Ok(withdrawn.unwrap_or_default())
    }

    pub(super) fn revoke(&self, number: RequestNumber, by: &Requester) -> Decision {
        if !self.state.grants.iter().any(|grant| grant.number == number) {
            return Err(Refusal::NoSuchGrant { number });
        }
        Ok(vec![EventKind::GrantRevoked { number, by: by.clone() }])
    }

    fn open_request(&self, number: RequestNumber) -> Result<&RequestItem, Refusal> {
        let request = self.state.run.requests.iter().find(|request| request.number == number);
        match request {
            Some(request) if request.state == RequestState::Open => Ok(request),
            Some(request) => {
                Err(Refusal::AlreadyAnswered { number, by: request.answered.clone().map(Box::new) })
            }
            None if number <= self.state.last_request && number.0 > 0 => {
                Err(Refusal::AlreadyAnswered { number, by: None })
            }
            None => Err(Refusal::NoSuchRequest { number }),
        }
    }
}
