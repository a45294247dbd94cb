//! The duty to tell: claims of carriers, escalation, receipts.

use subagent_model::{EventKind, Requester, RunNumber, Timestamp};

use super::super::command::Refusal;
use super::super::state::{Delivery, Duty};
use super::{Decision, Table};

impl Table<'_> {
    fn duty(&self, run: RunNumber) -> Result<Duty<'_>, Refusal> {
        self.state.duty(run).ok_or(Refusal::NoSuchRun { given: run, latest: self.state.run.number })
    }

    pub(super) fn claim_delivery(&self, run: RunNumber, carrier: &str, until: Timestamp) -> Decision {
        match self.duty(run)?.delivery {
            Delivery::Owed { claim: Some(claim), .. }
                if claim.holds(self.now) && claim.carrier != carrier =>
            {
                Err(Refusal::Claimed { carrier: claim.carrier.clone() })
            }
            Delivery::Owed { .. } => {
                Ok(vec![EventKind::DeliveryClaimed { of_run: run, carrier: carrier.to_owned(), until }])
            }
            Delivery::NotYet | Delivery::NotOwed | Delivery::Consumed { .. } => Err(self.illegal()),
        }
    }

    pub(super) fn return_delivery(&self, run: RunNumber, carrier: &str, reason: &str) -> Decision {
        match self.duty(run)?.delivery {
            Delivery::Owed { claim: Some(claim), .. } if claim.carrier == carrier => {
                Ok(vec![EventKind::DeliveryReturned { of_run: run, reason: reason.to_owned() }])
            }
            // The claim is someone else's, or there is none: nothing to give back.
            _ => Ok(vec![]),
        }
    }

    pub(super) fn escalate(&self, run: RunNumber, to: &Requester) -> Decision {
        let duty = self.duty(run)?;
        match duty.delivery {
            Delivery::Owed { .. } if duty.told() != to => {
                Ok(vec![EventKind::DeliveryEscalated { of_run: run, to: to.clone() }])
            }
            Delivery::Owed { .. } | Delivery::NotOwed | Delivery::Consumed { .. } => Ok(vec![]),
            Delivery::NotYet => Err(self.illegal()),
        }
    }

    pub(super) fn acknowledge(&self, run: RunNumber, by: &Requester) -> Decision {
        let duty = self.duty(run)?;
        match duty.delivery {
            Delivery::Owed { .. } if duty.is_for(by) => {
                Ok(vec![EventKind::Acknowledged { of_run: run, by: by.clone() }])
            }
            Delivery::Owed { .. } => Err(Refusal::NotYours { owner: duty.told().clone() }),
            Delivery::Consumed { .. } | Delivery::NotOwed => Ok(vec![]),
            Delivery::NotYet => Err(self.illegal()),
        }
    }
}
