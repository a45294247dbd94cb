//! JSON as people write it: with comments and a comma too many.

use jsonc_parser::ast::{self, ObjectPropName};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{DEPTH, Key, NODES, Node, Syntax, Value};
use crate::diagnostic::Position;

/// What is accepted beside plain JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a document.
pub(crate) fn read(text: &str) -> Result<Node, Syntax> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| Syntax {
        at: Some(Position::of_byte(text, error.range().start)),
        message: error.kind().to_string(),
    })?;
    let Some(value) = parsed.value else {
        return Err(Syntax { at: Some(Position::START), message: String::from("it is empty") });
    };
    Reader { text, left: NODES, seen: (0, Position::START) }.node(&value, DEPTH)
}

struct Reader<'a> {
    text: &'a str,
    left: usize,
    /// The last place that was looked up: places come in the order of the text.
    seen: (usize, Position),
}

impl Reader<'_> {
    fn node(&mut self, value: &ast::Value<'_>, depth: usize) -> Result<Node, Syntax> {
        let at = self.at(value.start());
        if self.left == 0 || depth == 0 {
            let what = if depth == 0 { "it is nested too deeply" } else { "it has too many values" };
            return Err(Syntax { at: Some(at), message: what.to_owned() });
        }
        self.left -= 1;
        let value = match value {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(it) => Value::Bool(it.value),
            ast::Value::StringLit(it) => Value::Text(it.value.to_string()),
            ast::Value::NumberLit(it) => number(it.value),
            ast::Value::Array(array) => {
                let mut list = Vec::new();
                for item in &array.elements {
                    list.push(self.node(item, depth - 1)?);
                }
                Value::List(list)
            }
            ast::Value::Object(object) => self.map(object, depth)?,
        };
        Ok(Node { at, value })
    }

    fn map(&mut self, object: &ast::Object<'_>, depth: usize) -> Result<Value, Syntax> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        for property in &object.properties {
            let at = self.at(property.start());
            let text = match &property.name {
                ObjectPropName::String(it) => it.value.to_string(),
                ObjectPropName::Word(it) => it.value.to_owned(),
            };
            if !names.insert(text.clone()) {
                return Err(Syntax { at: Some(at), message: format!("duplicate key {text:?}") });
            }
            entries.push((Key { text, at }, self.node(&property.value, depth - 1)?));
        }
        Ok(Value::Map(entries))
    }

    fn at(&mut self, byte: usize) -> Position {
        let (from, base) = if byte >= self.seen.0 { self.seen } else { (0, Position::START) };
        let step = Position::of_byte(self.text.get(from..).unwrap_or_default(), byte - from);
        let at = if step.line == 1 {
            Position { line: base.line, column: base.column.saturating_add(step.column - 1) }
        } else {
            step.down(base.line - 1)
        };
        self.seen = (byte, at);
        at
    }
}

fn number(text: &str) -> Value {
    if let Ok(number) = text.parse() {
        return Value::Int(number);
    }
    text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Float)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::diagnostic::Position;
    use crate::raw::Value;

    #[test]
    fn values_keep_their_kind_and_place() {
        let root = read("{ // agents\n  \"a\": [1, 2.5, null,],\n  \"b\": {\"é\": \"x\"}\n}").unwrap();
        let Value::Map(entries) = root.value else { panic!() };
        assert_eq!(entries[0].0.at, Position { line: 2, column: 3 });
        let Value::List(items) = &entries[0].1.value else { panic!() };
        assert_eq!(items[1].at, Position { line: 2, column: 12 });
        assert_eq!((&items[0].value, &items[2].value), (&Value::Int(1), &Value::Null));
        let Value::Map(inner) = &entries[1].1.value else { panic!() };
        assert_eq!(inner[0].1.at, Position { line: 3, column: 14 });
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let error = read("{\n  \"a\": 1,\n  \"a\": 2\n}").unwrap_err();
        assert_eq!((error.at.map(|at| at.line), error.message.as_str()), (Some(3), "duplicate key \"a\""));
        let error = read("{\n  \"a\": }\n").unwrap_err();
        assert_eq!(error.at.map(|at| at.line), Some(2), "{error:?}");
        for wrong in ["", "{a: 1}", "{'a': 1}", &"[".repeat(50_000), &"{\"a\":".repeat(300)] {
            read(wrong).unwrap_err();
        }
    }
}
