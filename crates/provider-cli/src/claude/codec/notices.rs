//! What it tells people beside its work: retries, quotas, and what was denied.

use subagent_model::text::cut_at_boundary;
use subagent_provider::Said;

use super::super::asks;
use super::super::ends::{self, Quota};
use super::super::frames::{Denial, RateLimit, Retry};
use super::{Claude, EXCERPT_BYTES, MOST, NAME_BYTES};

/// Most bytes of a notice.
const NOTICE_BYTES: usize = 4 * 1024;

impl Claude {
    pub(super) fn limited(&mut self, limit: &RateLimit, said: &mut Vec<Said>) {
        let until = ends::resets_at(limit);
        let kind = cut_at_boundary(limit.kind.as_deref().unwrap_or("limit"), EXCERPT_BYTES);
        let reset = until.map(|until| format!("; it is renewed at {until}")).unwrap_or_default();
        self.fault.quota = Quota::used_up(limit);
        if self.fault.quota.is_some() {
            said.push(notice(&format!("the {kind} of the account is used up{reset}")));
            said.push(Said::HeldUp { until });
        } else if limit.status == "allowed_warning" {
            said.push(notice(&format!("the {kind} of the account is nearly used up{reset}")));
        }
    }

    /// A denial is told once, however often it is told of.
    pub(super) fn denial(&mut self, denial: &Denial) -> Option<Said> {
        if denial.tool_use_id.len() > NAME_BYTES || self.denied.contains(&denial.tool_use_id) {
            return None;
        }
        self.denied.push_back(denial.tool_use_id.clone());
        if self.denied.len() > MOST {
            self.denied.pop_front();
        }
        let input = denial.tool_input.as_ref().map_or("", |input| input.get());
        let why = denial.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let title = match input {
            "" => denial.tool_name.clone(),
            input => format!("{} {}", denial.tool_name, asks::title(&denial.tool_name, input)),
        };
        let text = format!("{}{why}", cut_at_boundary(&title, NOTICE_BYTES / 2));
        Some(Said::Denied(cut_at_boundary(&text, NOTICE_BYTES).to_owned()))
    }
}

/// It tries a request again by itself.
pub(super) fn retries(retry: &Retry, said: &mut Vec<Said>) {
    let why = retry.error.as_deref().unwrap_or("unknown");
    let status = retry.error_status.map(|status| format!(", status {status}")).unwrap_or_default();
    let (attempt, most, delay) = (retry.attempt, retry.max_retries, retry.delay_ms / 1000.0);
    said.push(notice(&format!(
        "a request failed ({why}{status}): retry {attempt} of {most} in {delay:.1} s"
    )));
    if matches!(why, "rate_limit" | "overloaded") || matches!(retry.error_status, Some(429 | 529)) {
        said.push(Said::HeldUp { until: None });
    }
}

pub(super) fn notice(text: &str) -> Said {
    Said::Notice(cut_at_boundary(text, NOTICE_BYTES).to_owned())
}
