//! YAML, for headers. Anchors, merges and long texts are bounded, and a key that stands twice is an error.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Spanned};

use super::{DEPTH, Key, NODES, Node, Syntax, Value};
use crate::diagnostic::Position;

/// The most text of a header once its anchors are expanded.
const MAX_TEXT_BYTES: usize = 4 * crate::front::MAX_HEADER_BYTES;

/// Reads a header. An empty one is a table without entries.
pub(crate) fn read(text: &str) -> Result<Node, Syntax> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            flow_nesting_limit: DEPTH,
            max_nodes: NODES,
            max_events: 4 * NODES,
            max_documents: 2,
            max_aliases: 200,
            max_anchors: 200,
            max_merge_keys: 50,
            max_total_scalar_bytes: crate::front::MAX_HEADER_BYTES,
            max_recorded_anchor_events: NODES,
            max_recorded_anchor_bytes: crate::front::MAX_HEADER_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES,
            max_replay_stack_depth: DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    let root: Spanned<Raw> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| syntax(text, &error))?;
    let node = node(root);
    if node.text_bytes() > MAX_TEXT_BYTES {
        let message = String::from("its anchors make it too large");
        return Err(Syntax { at: Some(Position::START), message });
    }
    Ok(match node.value {
        Value::Null => Node { value: Value::Map(Vec::new()), ..node },
        _ => node,
    })
}

fn syntax(text: &str, error: &serde_saphyr::Error) -> Syntax {
    let at = error.location().and_then(position);
    let mut message = error.without_snippet().to_string();
    // The parser ends its message with the place, which is told apart, and counts from the header, not the file.
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    let line = at.and_then(|at| text.lines().nth(at.line as usize - 1)).unwrap_or_default();
    if let Some((_, rest)) = line.split_once(": ")
        && rest.contains(": ")
        && !rest.trim_start().starts_with(['"', '\'', '[', '{'])
    {
        message.push_str(" (a text with a colon in it needs quotes)");
    }
    Syntax { at, message }
}

fn position(location: serde_saphyr::Location) -> Option<Position> {
    let (line, column) = (location.line(), location.column());
    // Zero is the parser's word for a place that it does not know.
    (line > 0).then(|| Position {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column.max(1)).unwrap_or(u32::MAX),
    })
}

fn node(spanned: Spanned<Raw>) -> Node {
    Node { at: position(spanned.referenced).unwrap_or(Position::START), value: spanned.value.0 }
}

/// A value on its way from the parser.
struct Raw(Value);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any).map(Raw)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(Value::Int(it))
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(i64::try_from(it).map_or_else(|_| Value::Text(it.to_string()), Value::Int))
    }

    fn visit_i128<E>(self, it: i128) -> Result<Value, E> {
        Ok(Value::Text(it.to_string()))
    }

    fn visit_u128<E>(self, it: u128) -> Result<Value, E> {
        Ok(Value::Text(it.to_string()))
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(Value::Float(it))
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(Value::Text(it.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Raw>>()? {
            list.push(node(item));
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let at = position(key.referenced).unwrap_or(Position::START);
            let value = entries.next_value::<Spanned<Raw>>()?;
            map.push((Key { text: key.value, at }, node(value)));
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::read;
    use crate::diagnostic::Position;
    use crate::raw::Value;

    #[test]
    fn values_keep_their_kind_and_place() {
        let root = read("a: true\nb: \"true\"\nc: [1, 2.5]\nd:\ne: yes\nf: 007\n").unwrap();
        let Value::Map(entries) = root.value else { panic!() };
        let values: Vec<_> = entries.iter().map(|(_, node)| node.value.clone()).collect();
        assert_eq!(values[0], Value::Bool(true));
        assert_eq!(values[1], Value::Text("true".into()));
        let Value::List(items) = &values[2] else { panic!() };
        assert_eq!((&items[0].value, &items[1].value), (&Value::Int(1), &Value::Float(2.5)));
        assert_eq!(items[1].at, Position { line: 3, column: 8 });
        assert_eq!(values[3], Value::Null);
        assert_eq!(values[4], Value::Text("yes".into()));
        assert_eq!(values[5], Value::Text("007".into()));
        assert_eq!(entries[2].0.at, Position { line: 3, column: 1 });
        assert_eq!(entries[2].1.at, Position { line: 3, column: 4 });
    }

    #[test]
    fn a_key_that_stands_twice_is_an_error_with_its_place() {
        let error = read("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(error.at.map(|at| at.line), Some(3), "{error:?}");
        assert!(error.message.contains("duplicate"), "{error:?}");
    }

    #[test]
    fn anchors_are_expanded_within_bounds() {
        let root = read("a: &x [1, 2]\nb: *x\n").unwrap();
        let Value::Map(entries) = root.value else { panic!() };
        let values = |index: usize| match &entries[index].1.value {
            Value::List(items) => items.iter().map(|item| item.value.clone()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(values(0), values(1));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            let _ = writeln!(bomb, "a{level}: &a{level} [{}]", before.trim_end_matches(", "));
        }
        read(&bomb).unwrap_err();
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let error = read("a: fine\nb: Use this when: things fail\n").unwrap_err();
        assert_eq!(error.at.map(|at| at.line), Some(2), "{error:?}");
        assert!(error.message.contains("needs quotes"), "{error:?}");
        for wrong in ["a: [1", "? [a]\n: 1\n", "a: *nobody", &"[".repeat(5_000), "a: 1\n---\nb: 2\n"] {
            read(wrong).unwrap_err();
        }
        assert_eq!(read("").unwrap().value, Value::Map(Vec::new()));
    }
}
