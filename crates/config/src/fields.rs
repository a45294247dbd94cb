//! The entries of one table, taken one by one. Each is checked for its kind; what is wrong is told with its place and
//! nothing is guessed; what nobody took is left over.

use std::collections::BTreeMap;
use std::fmt::Display;

use camino::Utf8Path;

use crate::diagnostic::{Diagnostic, Position, Severity};
use crate::given::Given;
use crate::raw::{Key, Node, Value};

/// The most remarks about one file.
const REMARKS: usize = 40;
/// The most items of one list.
const ITEMS: usize = 1_000;
/// The longest item of a list, in bytes.
const ITEM_BYTES: usize = 500;

/// One entry that was taken.
#[derive(Debug)]
pub(crate) struct Entry {
    key: Key,
    pub(crate) node: Node,
}

/// The entries of a table that nobody has taken yet, and what was found out about the others.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: &'a Utf8Path,
    /// Before the names of keys in remarks.
    prefix: String,
    entries: Vec<(String, Entry)>,
    /// Every key that was there, for remarks that come later.
    places: Vec<(String, Key)>,
    remarks: Vec<Diagnostic>,
    failed: bool,
}

impl<'a> Fields<'a> {
    /// The entries of `node`, which has to be a table.
    pub(crate) fn of(path: &'a Utf8Path, prefix: &str, node: Node) -> Self {
        let mut fields = Self {
            path,
            prefix: prefix.to_owned(),
            entries: Vec::new(),
            places: Vec::new(),
            remarks: Vec::new(),
            failed: false,
        };
        let kind = node.kind();
        let Value::Map(map) = node.value else {
            fields.failed = true;
            let message = format!("it must be a table of fields (key: value), and is {kind}");
            let remark = Diagnostic::error(path, message).at(node.at);
            let field = prefix.trim_end_matches('.');
            fields.remarks.push(if field.is_empty() { remark } else { remark.field(field) });
            return fields;
        };
        let mut spelled: BTreeMap<String, String> = BTreeMap::new();
        for (key, node) in map {
            let canonical = canonical(&key.text);
            if let Some(twin) = spelled.insert(canonical.clone(), key.text.clone()) {
                fields.refuse_at(key.at, &key.text, format!("it is the same field as `{twin}`"));
                continue;
            }
            fields.places.push((canonical.clone(), key.clone()));
            fields.entries.push((canonical, Entry { key, node }));
        }
        fields
    }

    /// The file.
    pub(crate) fn path(&self) -> &'a Utf8Path {
        self.path
    }

    /// True when something was refused.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// The first thing that was refused.
    pub(crate) fn first_error(&self) -> Option<&Diagnostic> {
        self.remarks.iter().find(|remark| remark.is_error())
    }

    /// Takes the entry with one of these names, written in lower case with `_` between words. Two of them are one too
    /// many.
    pub(crate) fn take(&mut self, names: &[&str]) -> Option<Entry> {
        let mut found: Option<Entry> = None;
        while let Some(at) = self.entries.iter().position(|(key, _)| names.contains(&key.as_str())) {
            let (_, entry) = self.entries.remove(at);
            match &found {
                Some(first) => {
                    let message = format!("it says the same as `{}`", first.key.text);
                    self.refuse(&entry, message);
                }
                None => found = Some(entry),
            }
        }
        found
    }

    /// Takes everything: the names as the file spells them.
    pub(crate) fn take_all(&mut self) -> Vec<(String, Entry)> {
        let all = std::mem::take(&mut self.entries);
        all.into_iter().map(|(_, entry)| (entry.key.text.clone(), entry)).collect()
    }

    /// Looks at an entry without taking it.
    pub(crate) fn peek(&self, name: &str) -> Option<&Node> {
        self.entries.iter().find(|(key, _)| key == name).map(|(_, entry)| &entry.node)
    }

    /// Refuses the definition because of an entry.
    pub(crate) fn refuse(&mut self, entry: &Entry, message: impl Into<String>) {
        self.refuse_at(entry.node.at, &entry.key.text.clone(), message);
    }

    /// Refuses the definition because of a field at a place.
    pub(crate) fn refuse_at(&mut self, at: Position, field: &str, message: impl Into<String>) {
        self.failed = true;
        let field = format!("{}{field}", self.prefix);
        self.remark(Diagnostic::error(self.path, message).at(at).field(&field));
    }

    /// Refuses the definition because of a field that is not there.
    pub(crate) fn refuse_missing(&mut self, field: &str, why: &str) {
        self.failed = true;
        let message =
            if why.is_empty() { String::from("it is missing") } else { format!("it is missing: {why}") };
        self.remark(Diagnostic::error(self.path, message).field(&format!("{}{field}", self.prefix)));
    }

    /// Tells that something of an entry is left aside.
    pub(crate) fn warn(&mut self, at: Position, field: &str, message: impl Into<String>) {
        let field = format!("{}{field}", self.prefix);
        self.remark(Diagnostic::new(Severity::Warning, self.path, message).at(at).field(&field));
    }

    /// Tells that a field which was taken before is left aside; it goes by any of these names.
    pub(crate) fn warn_about(&mut self, names: &[&str], message: impl Into<String>) {
        let remark = self.about(Severity::Warning, names, message.into());
        self.remark(remark);
    }

    /// Refuses the definition because of a field that was taken before.
    pub(crate) fn refuse_about(&mut self, names: &[&str], message: impl Into<String>) {
        self.failed = true;
        let remark = self.about(Severity::Error, names, message.into());
        self.remark(remark);
    }

    fn about(&self, severity: Severity, names: &[&str], message: String) -> Diagnostic {
        let place = self.places.iter().find(|(canonical, _)| names.contains(&canonical.as_str()));
        let remark = Diagnostic::new(severity, self.path, message);
        let name = place.map_or_else(|| names.first().copied().unwrap_or_default(), |(_, key)| &key.text);
        let remark = remark.field(&format!("{}{name}", self.prefix));
        match place {
            Some((_, key)) => remark.at(key.at),
            None => remark,
        }
    }

    /// Tells why the file is not read, though nothing is wrong with it.
    pub(crate) fn note(&mut self, message: &str) {
        self.remark(Diagnostic::new(Severity::Note, self.path, message));
    }

    fn remark(&mut self, remark: Diagnostic) {
        // The reason for a refusal is never what is left out.
        if self.remarks.len() < REMARKS || (remark.is_error() && self.first_error().is_none()) {
            self.remarks.push(remark);
        }
    }

    /// Takes in what was found out about a table within this one.
    pub(crate) fn absorb(&mut self, inner: Fields<'_>) {
        self.failed |= inner.failed;
        for remark in inner.remarks {
            self.remark(remark);
        }
    }

    /// The table that an entry holds. Null is none.
    pub(crate) fn table(&mut self, names: &[&str]) -> Option<Fields<'a>> {
        let entry = self.take(names)?;
        if entry.node.value == Value::Null {
            return None;
        }
        Some(Fields::of(self.path, &format!("{}{}.", self.prefix, entry.key.text), entry.node))
    }

    /// A text that cannot be empty.
    pub(crate) fn text(&mut self, names: &[&str]) -> Option<String> {
        let entry = self.take(names)?;
        match &entry.node.value {
            Value::Text(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            Value::Text(_) | Value::Null => {
                self.refuse(&entry, "it has no value");
                None
            }
            _ => {
                self.wrong_kind(&entry, "a text");
                None
            }
        }
    }

    /// A text, or none.
    pub(crate) fn given_text(&mut self, names: &[&str]) -> Given<String> {
        let Some(entry) = self.take(names) else { return Given::Omitted };
        match &entry.node.value {
            value if is_none(value) => Given::Nothing,
            Value::Text(text) => Given::Value(text.trim().to_owned()),
            _ => {
                self.wrong_kind(&entry, "a text");
                Given::Omitted
            }
        }
    }

    /// A switch: true or false, and no text that looks like it.
    pub(crate) fn switch(&mut self, names: &[&str]) -> Option<bool> {
        let entry = self.take(names)?;
        match &entry.node.value {
            Value::Bool(it) => Some(*it),
            Value::Text(text) => {
                let message = format!("it must be true or false, and is the text {text:?}");
                self.refuse(&entry, message);
                None
            }
            _ => {
                self.wrong_kind(&entry, "true or false");
                None
            }
        }
    }

    /// A whole number from 1, or none: 0, `none` and an empty field mean without limit.
    pub(crate) fn count(&mut self, names: &[&str], most: u64) -> Given<u64> {
        let Some(entry) = self.take(names) else { return Given::Omitted };
        match whole(&entry.node.value, most) {
            Ok(count) => count,
            Err(message) => {
                self.refuse(&entry, message);
                Given::Omitted
            }
        }
    }

    /// The same, of 32 bits.
    pub(crate) fn count32(&mut self, names: &[&str]) -> Given<u32> {
        self.count(names, MAX_COUNT).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// An amount of money or the like: a number above 0, or none.
    pub(crate) fn amount(&mut self, names: &[&str], most: f64) -> Given<f64> {
        let Some(entry) = self.take(names) else { return Given::Omitted };
        let number = match &entry.node.value {
            value if is_none(value) => return Given::Nothing,
            #[expect(clippy::cast_precision_loss, reason = "the bound is far below where it begins")]
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            _ => {
                self.wrong_kind(&entry, "a number");
                return Given::Omitted;
            }
        };
        if number == 0.0 {
            return Given::Nothing;
        }
        if number > 0.0 && number <= most {
            return Given::Value(number);
        }
        self.refuse(&entry, format!("it must be above 0 and at most {most}, and is {number}"));
        Given::Omitted
    }

    /// One of these words.
    pub(crate) fn word<T: Copy>(&mut self, names: &[&str], words: &[(&str, T)]) -> Option<T> {
        let entry = self.take(names)?;
        self.word_of(&entry, words)
    }

    /// One of these words, or none.
    pub(crate) fn given_word<T: Copy>(&mut self, names: &[&str], words: &[(&str, T)]) -> Given<T> {
        let Some(entry) = self.take(names) else { return Given::Omitted };
        if is_none(&entry.node.value) {
            return Given::Nothing;
        }
        self.word_of(&entry, words).map_or(Given::Omitted, Given::Value)
    }

    /// One of these words, from an entry that was taken.
    pub(crate) fn word_of<T: Copy>(&mut self, entry: &Entry, words: &[(&str, T)]) -> Option<T> {
        let known = || join(words.iter().map(|(word, _)| *word));
        match &entry.node.value {
            Value::Text(text) => {
                let wanted = canonical(text.trim());
                let found = words.iter().find(|(word, _)| canonical(word) == wanted).map(|(_, it)| *it);
                if found.is_none() {
                    self.refuse(entry, format!("{text:?} is not one of {}", known()));
                }
                found
            }
            Value::Null => {
                self.refuse(entry, format!("it has no value: leave it out, or choose one of {}", known()));
                None
            }
            _ => {
                self.wrong_kind(entry, &format!("one of {}", known()));
                None
            }
        }
    }

    /// A list of words: a list, or a text with commas between them. Empty and `none` are none.
    pub(crate) fn words(&mut self, names: &[&str]) -> Given<Vec<String>> {
        let Some(entry) = self.take(names) else { return Given::Omitted };
        self.words_of(&entry)
    }

    /// The same, from an entry that was taken.
    pub(crate) fn words_of(&mut self, entry: &Entry) -> Given<Vec<String>> {
        let mut words: Vec<String> = Vec::new();
        match &entry.node.value {
            value if is_none(value) => return Given::Nothing,
            Value::Text(text) => {
                for word in commas(text).into_iter().filter(|word| !word.is_empty()) {
                    if words.len() <= ITEMS {
                        add(&mut words, word);
                    }
                }
            }
            Value::List(items) => {
                for item in items.iter().take(ITEMS + 1) {
                    match &item.value {
                        Value::Text(text) if !text.trim().is_empty() => add(&mut words, text.trim()),
                        Value::Text(_) | Value::Null => {
                            self.refuse_at(item.at, &entry.key.text, "an item of the list is empty");
                        }
                        _ => {
                            let message =
                                format!("an item of the list must be a text, and is {}", item.kind());
                            self.refuse_at(item.at, &entry.key.text, message);
                        }
                    }
                }
            }
            _ => {
                self.wrong_kind(entry, "a list, or a text with commas");
                return Given::Omitted;
            }
        }
        if words.len() > ITEMS {
            self.refuse(entry, format!("it has more than {ITEMS} items"));
        } else if let Some(long) = words.iter().find(|word| word.len() > ITEM_BYTES) {
            self.refuse(
                entry,
                format!("an item has {} bytes, and at most {ITEM_BYTES} are allowed", long.len()),
            );
        } else if let Some(control) = words.iter().find(|word| word.contains(char::is_control)) {
            self.refuse(entry, format!("the item {control:?} has a control character in it"));
        } else if words.len() > 1 && words.iter().any(|word| is_none_word(word)) {
            self.refuse(entry, "`none` cannot stand beside others");
        }
        match words.as_slice() {
            [] => Given::Nothing,
            [only] if is_none_word(only) => Given::Nothing,
            _ => Given::Value(words),
        }
    }

    /// Says that an entry is of the wrong kind.
    pub(crate) fn wrong_kind(&mut self, entry: &Entry, wanted: &str) {
        let message = match &entry.node.value {
            Value::Bool(it) => format!("it must be {wanted}, and is {it}"),
            Value::Int(it) => format!("it must be {wanted}, and is the number {it}"),
            Value::Float(it) => format!("it must be {wanted}, and is the number {it}"),
            Value::Text(it) => format!("it must be {wanted}, and is the text {it:?}"),
            Value::Null => format!("it has no value; it must be {wanted}"),
            Value::List(_) | Value::Map(_) => format!("it must be {wanted}, and is {}", entry.node.kind()),
        };
        self.refuse(entry, message);
    }

    /// Everything that nobody took, as JSON, and all remarks. What `quiet` names is known and merely has no meaning
    /// here; of the rest it is told that it has none.
    pub(crate) fn rest(&mut self, quiet: &[&str], known: &[&str]) -> BTreeMap<String, serde_json::Value> {
        let mut extra = BTreeMap::new();
        for (canonical, entry) in std::mem::take(&mut self.entries) {
            if !quiet.contains(&canonical.as_str()) {
                let mut message = String::from("this key has no meaning here; it is kept as it is");
                if let Some(meant) = nearest(&canonical, known.iter().copied()) {
                    message = format!("{message} (did you mean `{meant}`?)");
                }
                self.warn(entry.key.at, &entry.key.text.clone(), message);
            }
            extra.insert(entry.key.text, entry.node.to_json());
        }
        extra
    }

    /// The names of what nobody took, in lower case with `_` between words, as the file spells them, with their places.
    pub(crate) fn left(&self) -> Vec<(String, String, Position)> {
        let left = self.entries.iter();
        left.map(|(name, entry)| (name.clone(), entry.key.text.clone(), entry.key.at)).collect()
    }

    /// The remarks, in the order of the file.
    pub(crate) fn into_remarks(self) -> Vec<Diagnostic> {
        self.remarks
    }
}

impl Entry {
    /// Its key, as the file spells it.
    pub(crate) fn name(&self) -> &str {
        &self.key.text
    }

    /// An entry made by the program.
    pub(crate) fn made(name: &str, node: Node) -> Self {
        Self { key: Key { text: name.to_owned(), at: node.at }, node }
    }
}

/// The largest count of turns, calls and the like.
pub(crate) const MAX_COUNT: u64 = 1_000_000;

/// A whole number from 1, or none.
pub(crate) fn whole(value: &Value, most: u64) -> Result<Given<u64>, String> {
    let number = match value {
        value if is_none(value) => return Ok(Given::Nothing),
        Value::Int(number) => *number,
        Value::Float(number) => return Err(format!("it must be a whole number, and is {number}")),
        Value::Text(text) => return Err(format!("it must be a whole number, and is the text {text:?}")),
        Value::Bool(it) => return Err(format!("it must be a whole number, and is {it}")),
        _ => return Err(String::from("it must be a whole number")),
    };
    match u64::try_from(number) {
        Ok(0) => Ok(Given::Nothing),
        Ok(number) if number <= most => Ok(Given::Value(number)),
        _ => Err(format!("it must be from 0 to {most}, and is {number}")),
    }
}

/// True for an empty field and for the word `none`.
pub(crate) fn is_none(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Text(text) => text.trim().is_empty() || is_none_word(text.trim()),
        _ => false,
    }
}

fn is_none_word(text: &str) -> bool {
    text.eq_ignore_ascii_case("none")
}

fn add(words: &mut Vec<String>, word: &str) {
    if !words.iter().any(|other| other == word) {
        words.push(word.to_owned());
    }
}

/// The parts of a text with commas, where commas within parentheses belong to a part: `Agent(a, b), Read`.
pub(crate) fn commas(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default().trim());
    parts
}

/// A key in lower case with `_` between words: `maxTurns`, `max-turns` and `max_turns` are one.
pub(crate) fn canonical(key: &str) -> String {
    let mut canonical = String::with_capacity(key.len() + 4);
    let mut before: Option<char> = None;
    let mut chars = key.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '-' || char == '_' || char == ' ' {
            canonical.push('_');
        } else if char.is_uppercase() {
            // `MCPServers` is two words, and so is `maxTurns`.
            let begins = before.is_some_and(|before| before.is_lowercase() || before.is_numeric())
                || (before.is_some_and(char::is_uppercase)
                    && chars.peek().is_some_and(|next| next.is_lowercase()));
            if begins {
                canonical.push('_');
            }
            canonical.extend(char.to_lowercase());
        } else {
            canonical.push(char);
        }
        before = Some(char);
    }
    canonical
}

/// Words for a message.
pub(crate) fn join(words: impl IntoIterator<Item = impl Display>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    words.join(", ")
}

/// The word that a misspelt one probably is.
pub(crate) fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = match wrong.chars().count() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    words
        .into_iter()
        .map(|word| (distance(wrong, word, most), word))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, word)| word)
}

/// How many letters have to be changed, put in, taken out or exchanged with their neighbour; more than `most` is told
/// as `most + 1`.
fn distance(left: &str, right: &str, most: usize) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > most || left.len() > 200 {
        return most + 1;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (row, a) in left.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, b) in right.iter().enumerate() {
            let above = &rows[row];
            let mut least =
                (above[column] + usize::from(a != b)).min(above[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *a == right[column - 1] && left[row - 1] == *b {
                least = least.min(rows[row - 1][column - 1] + 1);
            }
            next.push(least);
        }
        rows.push(next);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(most + 1)
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::{Fields, canonical, commas, nearest};
    use crate::given::Given;
    use crate::raw;

    fn fields(yaml: &str) -> Fields<'static> {
        Fields::of(Utf8Path::new("a.md"), "", raw::yaml(yaml).unwrap())
    }

    fn errors(fields: Fields<'_>) -> Vec<String> {
        fields.into_remarks().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_are_the_same_in_every_case() {
        for key in ["max_turns", "maxTurns", "max-turns", "MaxTurns", "MAX_TURNS", "Max Turns"] {
            assert_eq!(canonical(key), "max_turns", "{key}");
        }
        assert_eq!(canonical("MCPServers"), "mcp_servers");
        assert_eq!(canonical("omitClaudeMd"), "omit_claude_md");
    }

    #[test]
    fn two_spellings_of_a_field_are_one_too_many() {
        let mut both = fields("maxTurns: 1\nmax_turns: 2\n");
        assert_eq!(both.count32(&["max_turns"]), Given::Value(1));
        assert_eq!(errors(both), ["a.md:2:1: error: `max_turns`: it is the same field as `maxTurns`"]);
        let mut both = fields("effort: low\nthinking: high\n");
        both.take(&["effort", "thinking"]).unwrap();
        assert_eq!(errors(both), ["a.md:2:11: error: `thinking`: it says the same as `effort`"]);
    }

    #[test]
    fn lists_are_lists_or_texts_with_commas() {
        let mut all =
            fields("a: x, y ,x,\nb: [x, y]\nc:\nd: []\ne: none\nf: \"\"\ng: Agent(p, q), R\nh: [none]\n");
        let mut of = |name: &str| all.words(&[name]);
        let xy = Given::Value(vec![String::from("x"), String::from("y")]);
        assert_eq!((of("a"), of("b")), (xy.clone(), xy));
        assert_eq!([of("c"), of("d"), of("e"), of("f"), of("h")], [const { Given::Nothing }; 5]);
        assert_eq!(of("g"), Given::Value(vec!["Agent(p, q)".into(), "R".into()]));
        assert_eq!(of("missing"), Given::Omitted);
        assert!(!all.failed());
    }

    #[test]
    fn what_is_no_list_of_texts_is_refused() {
        for wrong in [
            "a: 1",
            "a: true",
            "a: [1]",
            "a: [[x]]",
            "a: {x: y}",
            "a: [x, '']",
            "a: [none, x]",
            "a: [\"x\\u0007\"]",
        ] {
            let mut fields = fields(wrong);
            fields.words(&["a"]);
            assert!(fields.failed(), "{wrong}");
        }
        let mut long = fields(&format!("a: {}", "x".repeat(600)));
        long.words(&["a"]);
        assert!(long.failed());
    }

    #[test]
    fn commas_in_parentheses_do_not_separate() {
        assert_eq!(commas("a(b, c), d"), ["a(b, c)", "d"]);
        assert_eq!(commas("a(b, c"), ["a(b, c"]);
        assert_eq!(commas("a), b"), ["a)", "b"]);
        assert_eq!(commas(""), [""]);
    }

    #[test]
    fn what_is_left_over_is_kept_and_told() {
        let mut some = fields("color: red\nefort: low\nx: [1, {y: z}]\n");
        let extra = some.rest(&["color"], &["effort", "model"]);
        assert_eq!(extra["x"], serde_json::json!([1, {"y": "z"}]));
        assert_eq!(
            errors(some),
            [
                "a.md:2:1: warning: `efort`: this key has no meaning here; it is kept as it is (did you mean `effort`?)",
                "a.md:3:1: warning: `x`: this key has no meaning here; it is kept as it is",
            ]
        );
    }

    #[test]
    fn a_misspelt_word_is_found() {
        let words = ["tools", "model", "max_turns"];
        assert_eq!(nearest("tool", words), Some("tools"));
        assert_eq!(nearest("mdoel", words), Some("model"));
        assert_eq!(nearest("max_trun", words), Some("max_turns"));
        assert_eq!(nearest("color", words), None);
        assert_eq!(nearest("", words), None);
    }
}
