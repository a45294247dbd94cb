//! TOML, for the files of Codex.

use toml::de::{DeTable, DeValue};

use super::{Key, NODES, Node, Syntax, Value};
use crate::diagnostic::Position;

/// A line so long that columns are counted in bytes.
const LONG_LINE: usize = 2_000;

/// Reads a document.
pub(crate) fn read(text: &str) -> Result<Node, Syntax> {
    let table = DeTable::parse(text).map_err(|error| Syntax {
        at: error.span().map(|span| Position::of_byte(text, span.start)),
        message: error.message().to_owned(),
    })?;
    let mut left = NODES;
    let places = Places::of(text);
    Ok(Node { at: Position::START, value: map(table.get_ref(), &places, &mut left)? })
}

fn map(table: &DeTable<'_>, places: &Places<'_>, left: &mut usize) -> Result<Value, Syntax> {
    let mut entries = Vec::new();
    for (key, value) in table {
        let at = places.at(key.span().start);
        let key = Key { text: key.get_ref().to_string(), at };
        // A table that is written out by its keys has no place of its own.
        let here = if value.span().is_empty() { at } else { places.at(value.span().start) };
        entries.push((key, Node { at: here, value: convert(value.get_ref(), here, places, left)? }));
    }
    // The parser sorts them; the file's own order is what people see.
    entries.sort_by_key(|(key, _)| key.at);
    Ok(Value::Map(entries))
}

fn convert(
    value: &DeValue<'_>,
    at: Position,
    places: &Places<'_>,
    left: &mut usize,
) -> Result<Value, Syntax> {
    if *left == 0 {
        return Err(Syntax { at: Some(at), message: String::from("it has too many values") });
    }
    *left -= 1;
    Ok(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Text(number.as_str().to_owned()),
        },
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::Text(number.as_str().to_owned()), Value::Float)
        }
        DeValue::Boolean(it) => Value::Bool(*it),
        DeValue::Datetime(it) => Value::Text(it.to_string()),
        DeValue::Array(items) => {
            let mut list = Vec::new();
            for item in items {
                let here = places.at(item.span().start);
                list.push(Node { at: here, value: convert(item.get_ref(), here, places, left)? });
            }
            Value::List(list)
        }
        DeValue::Table(table) => map(table, places, left)?,
    })
}

/// The beginnings of lines, so that many places are found without reading the text for each.
struct Places<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, lines }
    }

    fn at(&self, byte: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= byte);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..byte).unwrap_or_default();
        // Nobody counts the characters of such a line, and doing so for each value would take long.
        let column = if before.len() > LONG_LINE { before.len() } else { before.chars().count() };
        Position::counted(line.max(1), column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::diagnostic::Position;
    use crate::raw::Value;

    #[test]
    fn values_keep_their_kind_and_place() {
        let root = read("name = 'é'\nn = 0x10\nf = 1.5\nd = 2026-01-01\n[t]\nl = [true, \"x\"]\n").unwrap();
        let Value::Map(entries) = root.value else { panic!() };
        let keys: Vec<_> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
        assert_eq!(keys, ["name", "n", "f", "d", "t"]);
        assert_eq!(entries[1].1.value, Value::Int(16));
        assert_eq!(entries[3].1.value, Value::Text("2026-01-01".into()));
        let Value::Map(inner) = &entries[4].1.value else { panic!() };
        let Value::List(items) = &inner[0].1.value else { panic!() };
        assert_eq!((&items[0].value, items[1].at), (&Value::Bool(true), Position { line: 6, column: 12 }));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let error = read("a = 1\nb = \n").unwrap_err();
        assert_eq!(error.at.map(|at| at.line), Some(2), "{error:?}");
        let error = read("a = 1\na = 2\n").unwrap_err();
        assert_eq!(error.at.map(|at| at.line), Some(2), "{error:?}");
        read(&format!("a = {}", "[".repeat(50_000))).unwrap_err();
    }
}
