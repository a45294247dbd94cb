//! The named facts of a subagent, one a row.

use subagent_model::request::{Activity, QueuePlace, UsageReport};
use subagent_model::{InnerSubagent, Quality, Receipt, RequestState, SubagentRecord};

use super::words;
use crate::commands::{asked, budget, follow, inner, outcome, receipt};
use crate::console::Console;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::{text, time};

/// What is known beside the record.
pub(super) struct Around {
    /// Its place in the queue.
    pub(super) place: QueuePlace,
    /// Its children.
    pub(super) children: Vec<SubagentRecord>,
    /// What it is doing.
    pub(super) activity: Option<Activity>,
    /// What it and everything below it used.
    pub(super) usage: Option<UsageReport>,
    /// What runs inside of it.
    pub(super) inner: Vec<InnerSubagent>,
}

/// Facts by name, in the order in which they are read.
#[derive(Default)]
struct Facts(Vec<(String, String)>);

impl Facts {
    fn say(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
    }

    fn maybe(&mut self, name: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.say(name, value);
        }
    }
}

/// All of them as rows.
pub(super) fn card(record: &SubagentRecord, around: &Around, console: &Console) -> Vec<Vec<Cell>> {
    let mut facts = Facts::default();
    identity(record, &around.children, &mut facts);
    standing(record, around, &mut facts);
    inside(record, &around.inner, &mut facts);
    life(record, &mut facts);
    use_of(record, around.usage.as_ref(), &mut facts);
    mail(record, &mut facts);
    end(record, &mut facts);
    let head =
        vec![Cell::painted(record.handle.as_str(), Paint::Bold), outcome::standing_cell(record, console)];
    let rows = facts.0.iter().map(|(name, value)| vec![Cell::painted(name, Paint::Dim), Cell::plain(value)]);
    std::iter::once(head).chain(rows).collect()
}

fn identity(record: &SubagentRecord, children: &[SubagentRecord], facts: &mut Facts) {
    facts.say("id", record.id.to_string());
    facts.say("description", record.description.clone());
    facts.say("type", format!("{}, driven by {}", record.agent_type, record.provider));
    let mode = words::mode(record.mode);
    facts.say("mode", if record.durable { mode.to_owned() } else { format!("{mode}; ends with the daemon") });
    facts.say("requested by", record.requested_by.to_string());
    facts.maybe("parent", record.parent.map(|parent| parent.to_string()));
    if record.root != record.id {
        facts.say("root", format!("{}, {} above", record.root, record.depth));
    }
    let young: Vec<_> = children
        .iter()
        .map(|child| format!("{} {}", child.handle, outcome::standing(child, false)))
        .collect();
    facts.say("children", young.join(", "));
    let labels: Vec<_> = record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    facts.say("labels", labels.join(" "));
    facts.say("directory", record.cwd.to_string());
}

/// What it waits for, what would release it, and what it is doing.
fn standing(record: &SubagentRecord, around: &Around, facts: &mut Facts) {
    facts.maybe("queued for", record.queued_for.as_ref().map(|why| words::queued_for(why, &around.place)));
    if let Some(on) = &record.waiting_on {
        let since = record.waiting_since.map(time::moment).map(|since| format!(", since {since}"));
        facts.say("waiting for", format!("{}{}", words::waiting_on(on), since.unwrap_or_default()));
    }
    for request in &record.requests {
        let name = format!("asks q{}", request.number);
        let what = asked::what(request);
        if request.state == RequestState::Open {
            let how = asked::how_to_answer(&record.handle, request);
            facts.say(&name, format!("{what}; {}; {how}", asked::state(request)));
        } else {
            facts.say(&name, format!("{what}; {}", asked::state(request)));
        }
    }
    for grant in &record.grants {
        facts.say("standing answer", asked::grant(&record.handle, grant));
    }
    if let Some(activity) = around.activity.as_ref().filter(|_| !record.status.is_final()) {
        let doing = follow::words(activity);
        let ago = time::human(time::now().since(activity.last_seen_at));
        let doing = if doing.is_empty() { doing } else { format!("{doing}; ") };
        facts.say("doing", format!("{doing}last sign of life {ago} ago"));
    }
    facts.maybe(
        "idle until",
        record.retire_at.map(|at| format!("closed {} unless it gets a message", time::ahead(at))),
    );
}

/// The agents that run inside of it, each below the one that it belongs to.
fn inside(record: &SubagentRecord, all: &[InnerSubagent], facts: &mut Facts) {
    let (shown, left) = inner::shown(all);
    for one in shown {
        let of = one.parent.as_ref().map(|parent| format!(", of {parent}")).unwrap_or_default();
        facts.say(&format!("inner {}{of}", one.key), inner::words(one, record.handle.as_str()));
    }
    if left > 0 {
        facts.say("inner", format!("{left} more; `subagent show --json {}` has them all", record.handle));
    }
}

/// Times, runs, attempts.
fn life(record: &SubagentRecord, facts: &mut Facts) {
    facts.say("created", time::moment(record.created_at));
    if record.run.0 > 1 {
        facts.say("accepted", time::moment(record.accepted_at));
    }
    facts.maybe("started", record.started_at.map(time::moment));
    facts.maybe("completed", record.completed_at.map(time::moment));
    let exited = record.exited_at.filter(|at| Some(*at) != record.completed_at);
    facts.maybe("exited", exited.map(time::moment));
    facts.maybe("took", outcome::took(record).map(time::human));
    if record.run.0 > 1 {
        facts.say("run", record.run.to_string());
    }
    for earlier in &record.earlier_runs {
        facts.say(&format!("run {}", earlier.run), outcome::told(&earlier.outcome));
    }
    for attempt in &record.attempts {
        facts.say(&format!("attempt {}", attempt.attempt), words::attempt(attempt));
    }
    facts.maybe("session", record.session.clone());
}

/// What it used of what it may use.
fn use_of(record: &SubagentRecord, tree: Option<&UsageReport>, facts: &mut Facts) {
    let idle = record.budget.is_unlimited() && record.turn_count == 0 && record.tool_uses == 0;
    if !idle {
        for (name, value) in budget::lines(record) {
            facts.say(name, value);
        }
    }
    facts.maybe("tokens of all runs", record.usage.as_ref().map(words::tokens));
    if let Some((report, below)) = tree.and_then(|report| Some((report, report.below.as_ref()?))) {
        facts.say("tokens below it", format!("{}; {} below it", words::tokens(below), report.members));
    }
}

/// Messages that it does not have.
fn mail(record: &SubagentRecord, facts: &mut Facts) {
    for message in &record.pending_messages {
        let what =
            format!("{}, from {}: {}", receipt::mode(message.mode), message.from, text::line(&message.text));
        facts.say(&format!("message {} waits", message.number), what);
    }
    for posted in &record.returned_messages {
        if let Receipt::Returned { reason, .. } = posted.receipt {
            let what = format!("{}: {}", reason.as_str(), text::line(&posted.message.text));
            facts.say(&format!("message {} came back", posted.message.number), what);
        }
    }
}

/// How it ended, and how to go on.
fn end(record: &SubagentRecord, facts: &mut Facts) {
    facts.maybe(
        "stop",
        record.stop.as_ref().map(|stop| {
            format!("by {} ({}), {}", stop.actor, words::word(&stop.cause), time::moment(stop.at))
        }),
    );
    facts.maybe("end", record.end_reason.clone());
    let quality = record.quality.filter(|quality| *quality != Quality::Ok);
    facts.maybe("quality", quality.map(|quality| words::word(&quality)));
    facts.say("notes", outcome::marks(record));
    facts.maybe("raw logs", record.transcript.clone());
    let over = record.status.is_final() || record.retire_at.is_some();
    if over && record.mode.is_delivered() {
        facts.say("delivery", if record.consumed { "consumed" } else { "not consumed yet" });
    }
    if record.resumable {
        facts.say("go on", format!("subagent resume {} PROMPT", record.handle));
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, end, standing, use_of};
    use crate::commands::sample;
    use crate::commands::show::card::Around;
    use subagent_model::Usage;
    use subagent_model::request::{QueuePlace, UsageReport};

    fn around() -> Around {
        Around {
            place: QueuePlace::default(),
            children: Vec::new(),
            activity: None,
            usage: None,
            inner: Vec::new(),
        }
    }

    #[test]
    fn perm_01_what_is_asked_is_shown_with_the_command_that_answers_it() {
        let record = sample(&serde_json::json!({
            "status": "waiting", "waiting_on": {"for": "approval"}, "waiting_since": "2026-11-30T00:00:00Z",
            "requests": [{"number": 1, "run": 1, "key": "k", "kind": "approval", "action": "execute", "title": "git push",
                "opened_at": "2026-11-30T00:00:00Z", "expires_at": "9999-01-01T00:00:00Z", "state": "open"}],
        }));
        let mut facts = Facts::default();
        standing(&record, &around(), &mut facts);
        let told: Vec<_> = facts.0.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert!(told[0].starts_with("waiting for: an approval, since 2026-11-30T00:00:00Z"), "{told:?}");
        assert!(told[1].contains("git push") && told[1].contains("`subagent approve k7q2mx.q1`"), "{told:?}");
    }

    #[test]
    fn rec_14_what_is_used_below_it_has_a_line_where_anything_was_reported() {
        let record = sample(&serde_json::json!({"status": "completed"}));
        let below = Usage { input: 5, output: 2, total: 7, cost_usd: Some(0.5), ..Usage::default() };
        let told = |below| {
            let report = UsageReport { id: record.id, own: None, below, total: below, members: 3 };
            let mut facts = Facts::default();
            use_of(&record, Some(&report), &mut facts);
            facts.0.into_iter().find(|(name, _)| name == "tokens below it").map(|(_, value)| value)
        };
        assert_eq!(told(Some(below)).unwrap(), "7 (5 in, 2 out), 0.5000 USD; 3 below it");
        assert_eq!(told(None), None, "unknown is not 0");
    }

    #[test]
    fn res_06_a_resume_is_offered_only_where_it_would_be_accepted() {
        for (resumable, count) in [(true, 1), (false, 0)] {
            let record = sample(&serde_json::json!({"status": "stopped", "resumable": resumable}));
            let mut facts = Facts::default();
            end(&record, &mut facts);
            assert_eq!(facts.0.iter().filter(|(name, _)| name == "go on").count(), count);
        }
    }
}
