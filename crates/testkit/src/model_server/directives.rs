//! Directives inside a prompt: `[[name]]`, `[[name*count]]` or `[[name:value]]`. The list of them is in the documentation of
//! [`model_server`](super).

use serde_json::Value;

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) value: String,
}

/// All directives of a text, in order.
pub(super) fn directives(text: &str) -> Vec<Directive> {
    split(text).1
}

/// The text without its directives.
pub(super) fn without(text: &str) -> String {
    split(text).0
}

fn split(mut text: &str) -> (String, Vec<Directive>) {
    let (mut kept, mut found) = (String::new(), Vec::new());
    while let Some(start) = text.find("[[") {
        let (before, after) = (&text[..start], &text[start + 2..]);
        kept += before;
        if let Some((directive, length)) = read(after) {
            found.push(directive);
            text = &after[length..];
        } else {
            kept += "[[";
            text = after;
        }
    }
    (kept + text, found)
}

/// Reads what follows `[[`: the directive, and how much of the text it is.
fn read(text: &str) -> Option<(Directive, usize)> {
    let letter = |c: char| c.is_ascii_lowercase() || c == '-';
    let length = text.find(|c| !letter(c)).filter(|length| *length > 0)?;
    let (name, rest) = text.split_at(length);
    if rest.starts_with("]]") {
        return Some((Directive { name: name.to_owned(), value: String::new() }, length + 2));
    }
    // A count may follow the name at once.
    let colon = usize::from(rest.starts_with(':'));
    let value = if rest.starts_with('*') { rest } else { rest.strip_prefix(':')? };
    let end = end(name, value)?;
    Some((Directive { name: name.to_owned(), value: value[..end].to_owned() }, length + colon + end + 2))
}

/// Where the value ends: at the first `]]` that leaves it whole, since JSON and shells have such brackets too.
fn end(name: &str, value: &str) -> Option<usize> {
    let mut ends = value.match_indices("]]").flat_map(|(at, _)| {
        // Of `]]]` the last two may be the ones that are meant.
        let three = value[at..].starts_with("]]]");
        [Some(at), three.then_some(at + 1)].into_iter().flatten()
    });
    let whole = |value: &str| match name {
        "call" => value.split_once('|').is_none_or(|(_, json)| serde_json::from_str::<Value>(json).is_ok()),
        _ => value.matches('[').count() <= value.matches(']').count(),
    };
    ends.clone().find(|end| whole(&value[..*end])).or_else(|| ends.next())
}

/// A value with a count behind it: `429*2` is 429, twice.
pub(super) fn counted(value: &str) -> (&str, Option<u64>) {
    match value.split_once('*') {
        Some((what, count)) => (what, count.parse().ok()),
        None => (value, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, directives, without};

    fn read(text: &str) -> Vec<(String, String)> {
        directives(text).into_iter().map(|it| (it.name, it.value)).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn names_and_values() {
        let text = "please [[say:a: b]] and [[hang]], then\n[[write:x|1\n2]][[drop*2]]";
        let expected = [pair("say", "a: b"), pair("hang", ""), pair("write", "x|1\n2"), pair("drop", "*2")];
        assert_eq!(read(text), expected);
        assert_eq!(without(text), "please  and , then\n");
    }

    #[test]
    fn brackets_inside_a_value() {
        let text =
            r#"[[call:T|{"a":[[1]]}]] [[call:T|{"a":[1,[2]]}]] [[sh:if [[ -f x ]]; then y; fi]] [[say:[x]]]"#;
        assert_eq!(
            read(text),
            [
                pair("call", r#"T|{"a":[[1]]}"#),
                pair("call", r#"T|{"a":[1,[2]]}"#),
                pair("sh", "if [[ -f x ]]; then y; fi"),
                pair("say", "[x]"),
            ]
        );
    }

    #[test]
    fn what_only_looks_like_one() {
        assert!(read("if [[ -f x ]]; then").is_empty());
        assert!(read("[[say:never closed").is_empty());
        assert_eq!(without("if [[ -f x ]]"), "if [[ -f x ]]");
    }

    #[test]
    fn counts() {
        assert_eq!(counted("429*2"), ("429", Some(2)));
        assert_eq!(counted("429"), ("429", None));
        assert_eq!(counted("*1"), ("", Some(1)));
    }
}
