//! From directives to an answer. What there is to know beside the request is how often something failed already, and
//! which gates there are.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::answer::{Answer, Call, Failure, Hold, Piece, Reply, Stop, Usage};
use super::conversation::Conversation;
use super::directives::{self, Directive, counted, directives};
use super::gate::Gate;
use super::tools;

/// What the server remembers from one request to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    counts: Mutex<HashMap<(String, String), u64>>,
    gates: Mutex<HashMap<String, Gate>>,
}

impl Memory {
    /// The gate of this name.
    pub(super) fn gate(&self, name: &str) -> Gate {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone()
    }

    /// How many wait at each gate.
    pub(super) fn gates(&self) -> Vec<(String, usize)> {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.iter().map(|(name, gate)| (name.clone(), gate.waiting())).collect()
    }

    /// Forgets how often what happened, and opens all gates, for whoever waits there.
    pub(super) fn reset(&self) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.drain().for_each(|(_, gate)| gate.open());
    }

    /// Counts, and tells whether it is still one of the first `limit` times.
    fn due(&self, what: &str, prompt: &str, limit: Option<u64>) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((what.to_owned(), prompt.to_owned())).or_default();
        *count += 1;
        limit.is_none_or(|limit| *count <= limit)
    }
}

/// Directives that carry something out, with what they wait for.
struct Act<'a> {
    holds: Vec<Hold>,
    directive: &'a Directive,
}

/// Everything that may stand in a script.
const KNOWN: &[&str] = &[
    "call",
    "delay",
    "drip",
    "drop",
    "echo",
    "empty",
    "error",
    "exactly",
    "garbage",
    "gate",
    "hang",
    "mute",
    "quota",
    "retry-after",
    "say",
    "sh",
    "slow",
    "status",
    "stop",
    "think",
    "together",
    "usage",
    "write",
];

struct Script<'a> {
    conversation: &'a Conversation,
    memory: &'a Memory,
    directives: &'a [Directive],
}

/// The answer that a script asks for. `say` is what is said where the script says nothing.
pub(super) fn answer(conversation: &Conversation, script: &str, say: &str, memory: &Memory) -> Answer {
    let directives = directives(script);
    let script = Script { conversation, memory, directives: &directives };
    if is_aside(conversation) {
        return Reply::text(&script.document().unwrap_or_else(|| say.to_owned())).into();
    }
    if let Some(answer) = script.fails() {
        return answer;
    }
    let (acts, last) = script.acts();
    let mut reply = script.acted(acts).unwrap_or_else(|| Reply { first: last, ..script.says(say) });
    if let Some(usage) = script.value("usage") {
        reply.usage = usage_of(usage);
    }
    reply.into()
}

/// Whether an agent asks for something of its own: a title, or a decision in a fixed shape. Scripts are not for these.
fn is_aside(conversation: &Conversation) -> bool {
    let title = || conversation.system.chars().take(400).collect::<String>().to_lowercase().contains("title");
    conversation.tools.is_empty() && (conversation.schema.is_some() || title())
}

impl Script<'_> {
    /// The value of a directive that counts once; the last one holds.
    fn value(&self, name: &str) -> Option<&str> {
        let mut named = self.directives.iter().rev().filter(|it| it.name == name);
        named.next().map(|it| it.value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// What a directive says, while it is still its turn.
    fn due(&self, name: &str) -> Option<&str> {
        let (what, limit) = counted(self.value(name)?);
        self.memory.due(name, self.conversation.prompt(), limit).then_some(what)
    }

    /// Failures come before all else.
    fn fails(&self) -> Option<Answer> {
        let retry_after = self.value("retry-after").map(|value| value.parse().unwrap_or(1));
        if self.due("mute").is_some() {
            return Some(Answer::Silence);
        }
        if let Some(seconds) = self.due("quota") {
            let seconds = seconds.parse().unwrap_or(60);
            let message = format!("scripted quota, renewed in {seconds} seconds");
            let retry_after = retry_after.or(Some(seconds));
            return Some(Failure { retry_after, quota: Some(seconds), ..Failure::new(429, &message) }.into());
        }
        let status = self.due("status")?;
        let failure = Failure::new(status.parse().unwrap_or(500), &format!("scripted {status}"));
        Some(Failure { retry_after: retry_after.or(Some(1)), ..failure }.into())
    }

    /// What is carried out, one after the other, and what is waited for at the end.
    fn acts(&self) -> (Vec<Act<'_>>, Vec<Hold>) {
        let (mut acts, mut holds) = (Vec::new(), Vec::new());
        for directive in self.directives {
            match directive.name.as_str() {
                "gate" => holds.push(Hold::Gate(self.memory.gate(&directive.value))),
                "delay" => {
                    holds.push(Hold::Wait(Duration::from_millis(directive.value.parse().unwrap_or(1_000))));
                }
                "write" | "sh" | "call" => acts.push(Act { holds: std::mem::take(&mut holds), directive }),
                _ => {}
            }
        }
        (acts, holds)
    }

    /// The reply that carries out what is next.
    fn acted(&self, acts: Vec<Act<'_>>) -> Option<Reply> {
        if self.conversation.tools.is_empty() {
            return None;
        }
        let done = self.conversation.results.len();
        let together = self.has("together");
        if together && done > 0 {
            return None;
        }
        let now = if together { acts.len() } else { 1 };
        let mut reply = Reply::default();
        for act in acts.into_iter().skip(done).take(now) {
            reply.calls.push(self.call(act.directive)?);
            reply.first.extend(act.holds);
        }
        (!reply.calls.is_empty()).then_some(reply)
    }

    /// A value with `{{FIELD}}` in it has what the last result says that is a document with such a field.
    fn filled(&self, value: &str) -> String {
        let mut filled = value.to_owned();
        for result in self.conversation.results.iter().rev() {
            let Ok(Value::Object(fields)) = serde_json::from_str(result) else { continue };
            for (name, field) in fields {
                let field = field.as_str().map_or_else(|| field.to_string(), str::to_owned);
                filled = filled.replace(&["{{", &name, "}}"].concat(), &field);
            }
        }
        filled
    }

    fn call(&self, directive: &Directive) -> Option<Call> {
        let value = self.filled(&directive.value);
        let (head, tail) = value.split_once('|').unwrap_or((&value, ""));
        match directive.name.as_str() {
            "sh" => tools::shell(self.conversation, &value),
            "write" => tools::write(self.conversation, head, tail),
            _ => {
                let arguments = match tail {
                    "" => Value::Object(serde_json::Map::new()),
                    tail => serde_json::from_str(tail).unwrap_or_else(|_| tail.into()),
                };
                Some(tools::named_call(self.conversation, head, arguments))
            }
        }
    }

    /// A JSON document, where one is asked for.
    fn document(&self) -> Option<String> {
        let schema = self.conversation.schema.as_ref()?;
        Some(self.value("exactly").map_or_else(|| tools::smallest(schema).to_string(), str::to_owned))
    }

    /// The last reply to a prompt.
    fn says(&self, say: &str) -> Reply {
        let text = if self.has("empty") { String::new() } else { self.text(say) };
        let mut reply = Reply { thinking: self.value("think").map(str::to_owned), ..Reply::default() };
        if let Some(words) = self.value("slow") {
            let (words, gap) = counted(words);
            let gap = Duration::from_millis(gap.unwrap_or(200));
            for word in 0..words.parse().unwrap_or(50) {
                reply = reply.and_text(&format!("w{word} ")).then_wait(gap);
            }
        }
        let interruption = self.interruption();
        if interruption.is_none() || reply.pieces.is_empty() {
            let (letters, gap) = match self.value("drip").map(counted) {
                Some((letters, gap)) => (letters.parse().unwrap_or(4), Some(gap.unwrap_or(50))),
                None => (text.chars().count().div_ceil(3), None),
            };
            let mut pieces = pieces(&text, letters);
            if interruption.is_some() {
                pieces.truncate(1);
            }
            for piece in pieces {
                reply = reply.and(Piece::Text(piece));
                if let Some(gap) = gap {
                    reply = reply.then_wait(Duration::from_millis(gap));
                }
            }
        }
        reply.pieces.extend(interruption);
        reply.stop = self.value("stop").map(|stop| match stop {
            "refusal" => Stop::Refusal,
            _ => Stop::Length,
        });
        reply
    }

    fn text(&self, say: &str) -> String {
        if let Some(document) = self.document() {
            return document;
        }
        if let Some(text) = self.value("exactly") {
            return text.to_owned();
        }
        let conversation = self.conversation;
        let first =
            conversation.prompts.first().map(|prompt| directives::without(prompt)).unwrap_or_default();
        let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
        let first: String = first.chars().take(40).collect();
        let say = self.value("say").unwrap_or(say);
        let (prompts, results) = (conversation.prompts.len(), conversation.results.len());
        let mut text = format!("{say} users={prompts} results={results} first='{}'", first.trim_end());
        if self.has("echo")
            && let Some(result) = conversation.results.last()
        {
            let result: String = result.chars().take(2_000).collect();
            text.extend([" last='", &result, "'"]);
        }
        for act in self.acts().0.iter().filter(|act| self.call(act.directive).is_none()) {
            if !conversation.tools.is_empty() {
                text.extend([" no-tool-for=", &act.directive.name]);
            }
        }
        for unknown in self.directives.iter().filter(|it| !KNOWN.contains(&it.name.as_str())) {
            text.extend([" unknown-directive=", &unknown.name]);
        }
        text
    }

    fn interruption(&self) -> Option<Piece> {
        let error = || self.due("error").map(|what| Piece::Error(what.to_owned()));
        let named = |name: &str, piece: Piece| self.due(name).map(|_| piece);
        named("hang", Piece::Hang)
            .or_else(|| named("drop", Piece::Cut))
            .or_else(|| named("garbage", Piece::Garbage))
            .or_else(error)
    }
}

/// A text in pieces of so many letters.
fn pieces(text: &str, letters: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(letters.max(1)).map(|piece| piece.iter().collect()).collect()
}

fn usage_of(value: &str) -> Usage {
    let mut numbers = value.split(',').map(|number| number.trim().parse().ok());
    let mut next = |otherwise| numbers.next().flatten().unwrap_or(otherwise);
    Usage { input: next(100), output: next(20), cached: next(0), stored: next(0), reasoning: next(0) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::conversation::Format;
    use super::*;

    fn asked(prompt: &str) -> Conversation {
        let mut conversation = Conversation::new(Format::Chat, "m", true);
        conversation.offer("bash", false, &json!({"properties": {"command": {"type": "string"}}}));
        conversation.said([prompt]);
        conversation
    }

    #[track_caller]
    fn reply(conversation: &Conversation, memory: &Memory) -> Reply {
        match answer(conversation, conversation.prompt(), "FAKE-OK", memory) {
            Answer::Reply(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_text_tells_what_was_seen() {
        let mut conversation = asked("one thing [[say:x]]\nand more than forty letters of further talk");
        conversation.said(["two"]);
        conversation.gave("r".into());
        let text = reply(&conversation, &Memory::default()).whole_text();
        assert_eq!(text, "FAKE-OK users=2 results=1 first='one thing and more than forty letters of'");
    }

    #[test]
    fn acts_one_a_request_and_holds_before_them() {
        let memory = Memory::default();
        let mut conversation = asked("[[sh:one]] [[delay:7]] [[sh:two]] [[delay:8]] [[echo]]");
        let wait = |time| vec![Hold::Wait(Duration::from_millis(time))];
        let first = reply(&conversation, &memory);
        assert_eq!((first.first, first.calls[0].arguments["command"].as_str()), (vec![], Some("one")));
        conversation.gave("1".into());
        let second = reply(&conversation, &memory);
        assert_eq!((second.first, second.calls[0].arguments["command"].as_str()), (wait(7), Some("two")));
        conversation.gave("2".into());
        let last = reply(&conversation, &memory);
        assert_eq!((last.first.clone(), last.calls.len()), (wait(8), 0));
        assert!(last.whole_text().ends_with("results=2 first='' last='2'"), "{}", last.whole_text());
    }

    #[test]
    fn a_call_with_what_came_before() {
        let mut conversation = asked(r#"[[sh:one]] [[call:wait|{"ids":["{{id}}"]}]]"#);
        conversation.gave(r#"{"id":"a7","n":1}"#.into());
        let reply = reply(&conversation, &Memory::default());
        assert_eq!(reply.calls[0].arguments, json!({"ids": ["a7"]}));
    }

    #[test]
    fn all_acts_together() {
        let memory = Memory::default();
        let mut conversation = asked("[[together]] [[sh:one]] [[sh:two]]");
        assert_eq!(reply(&conversation, &memory).calls.len(), 2);
        conversation.gave("1".into());
        conversation.gave("2".into());
        assert_eq!(reply(&conversation, &memory).calls.len(), 0);
    }

    #[test]
    fn failures_are_counted_by_prompt() {
        let memory = Memory::default();
        let conversation = asked("[[status:429*2]] [[retry-after:9]]");
        for _ in 0..2 {
            let failure = answer(&conversation, conversation.prompt(), "", &memory);
            let Answer::Failure(failure) = failure else { panic!("{failure:?}") };
            assert_eq!((failure.status, failure.retry_after, failure.quota), (429, Some(9), None));
        }
        reply(&conversation, &memory);
        let other = asked("another [[quota:30*1]]");
        let failure = answer(&other, other.prompt(), "", &memory);
        let Answer::Failure(failure) = failure else { panic!("{failure:?}") };
        assert_eq!((failure.status, failure.retry_after, failure.quota), (429, Some(30), Some(30)));
        reply(&other, &memory);
    }

    #[test]
    fn interruptions_leave_a_beginning() {
        let memory = Memory::default();
        let cut = reply(&asked("[[exactly:abcdef]] [[drop*1]]"), &memory);
        assert_eq!(cut.pieces, [Piece::Text("ab".into()), Piece::Cut]);
        let whole = reply(&asked("[[exactly:abcdef]] [[drop*1]]"), &memory);
        assert_eq!(whole.whole_text(), "abcdef");
        let slow = reply(&asked("[[slow:1*5]] [[error:overloaded]]"), &memory);
        let wait = Piece::Hold(Hold::Wait(Duration::from_millis(5)));
        assert_eq!(slow.pieces, [Piece::Text("w0 ".into()), wait, Piece::Error("overloaded".into())]);
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let text = reply(&asked("[[foo]] [[sh:x]]"), &Memory::default());
        assert_eq!(text.calls.len(), 1);
        let mut conversation = asked("[[foo]] [[sh:x]]");
        conversation.tools[0].name = "read".into();
        let text = reply(&conversation, &Memory::default()).whole_text();
        assert!(text.ends_with("no-tool-for=sh unknown-directive=foo"), "{text}");
    }

    #[test]
    fn asides_are_not_scripted() {
        let mut conversation = asked("[[status:500]] [[hang]]");
        conversation.tools.clear();
        conversation.schema = Some(json!({"type": "object", "properties": {"model": {"enum": ["a", "b"]}}}));
        assert_eq!(reply(&conversation, &Memory::default()).whole_text(), r#"{"model":"a"}"#);
        conversation.schema = None;
        conversation.system = "You are a Title generator.".into();
        assert_eq!(reply(&conversation, &Memory::default()).whole_text(), "FAKE-OK");
    }

    #[test]
    fn usage_and_stop() {
        let reply = reply(&asked("[[usage:1,2,3]] [[stop:length]] [[empty]]"), &Memory::default());
        assert_eq!(reply.usage, Usage { input: 1, output: 2, cached: 3, stored: 0, reasoning: 0 });
        assert_eq!((reply.stop(), reply.pieces.len()), (Stop::Length, 0));
    }
}
