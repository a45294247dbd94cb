//! JSON Schema as a grammar. Holds which part of JSON Schema is understood; what is not is refused by name, never ignored.
//!
//! Understood: `type` (one or a list), `properties`, `required`, `additionalProperties`, `items`, `minItems`, `maxItems`, `enum`,
//! `const`, `anyOf`, `oneOf`, `minLength`, `maxLength`, `minimum` 0 or 1 of integers, and `$ref` to `$defs` or `definitions` of the
//! same schema. Annotations (`title`, `description`, `default`, `examples`, `format` ...) change nothing.
//! Objects with named properties get those only, required ones first.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::grammar::{Builder, Id, Machine};

/// Why a schema cannot be followed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{what} at `{place}`; supported are type, properties, required, items, minItems, maxItems, enum, const, anyOf, oneOf, minLength, maxLength, minimum 0 or 1 of integers and local $ref"
)]
pub struct Unsupported {
    place: String,
    what: String,
}

const ANNOTATIONS: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "additionalProperties",
    "strict",
];
/// A schema is data of a stranger: larger ones are refused, not worked on for minutes.
const MOST_NODES: usize = 50_000;
const DEEPEST: usize = 64;
const LONGEST: u64 = 100_000;

/// The machine of all JSON texts that fit `schema`.
pub fn machine(schema: &Value) -> Result<Machine, Unsupported> {
    let mut it = Compiler::new(schema);
    let root = it.schema(schema, "#", 0)?;
    Ok(it.out.finish(root))
}

struct Compiler<'a> {
    out: Builder,
    root: &'a Value,
    known: BTreeMap<String, Id>,
    string_character: Id,
    any: Option<Id>,
    colon: Id,
    comma: Id,
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value) -> Self {
        let mut out = Builder::default();
        let space = out.bytes(" ");
        let maybe = out.repeat(space, 0, Some(1));
        let (colon, comma) = (out.bytes(":"), out.bytes(","));
        let colon = out.sequence(vec![colon, maybe]);
        let comma = out.sequence(vec![comma, maybe]);
        let string_character = character(&mut out);
        Self { out, root, known: BTreeMap::new(), string_character, any: None, colon, comma }
    }

    fn schema(&mut self, schema: &Value, place: &str, depth: usize) -> Result<Id, Unsupported> {
        let refuse = |what: String| Unsupported { place: place.to_owned(), what };
        if depth > DEEPEST || self.out.len() > MOST_NODES {
            return Err(refuse("the schema is too large".to_owned()));
        }
        let map = match schema {
            Value::Bool(true) => return Ok(self.any()),
            Value::Object(map) => map,
            _ => return Err(refuse("a schema is an object or `true`".to_owned())),
        };
        if let Some(target) = map.get("$ref") {
            return self.reference(target.as_str().unwrap_or_default(), map, place, depth);
        }
        let kinds: Vec<&str> = match map.get("type") {
            None => Vec::new(),
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(refuse("`type` is no name and no list of names".to_owned())),
        };
        let takes = |names: &[&str]| kinds.is_empty() || kinds.iter().any(|kind| names.contains(kind));
        for key in map.keys().map(String::as_str) {
            let fine = match key {
                "type" | "enum" | "const" | "anyOf" | "oneOf" => true,
                "properties" | "required" => takes(&["object"]),
                "items" | "minItems" | "maxItems" => takes(&["array"]),
                "minLength" | "maxLength" => takes(&["string"]),
                "minimum" => {
                    kinds.contains(&"integer")
                        && matches!(map[key].as_f64(), Some(least) if least == 0.0 || (least - 1.0).abs() < f64::EPSILON)
                }
                _ => ANNOTATIONS.contains(&key),
            };
            if !fine {
                return Err(refuse(format!("`{key}` is not supported")));
            }
        }
        if let Some(only) = map.get("const") {
            return Ok(self.out.bytes(only.to_string()));
        }
        if let Some(values) = map.get("enum") {
            let values = values.as_array().filter(|values| !values.is_empty());
            let values = values.ok_or_else(|| refuse("`enum` is no list of values".to_owned()))?;
            let ids = values.iter().map(|value| self.out.bytes(value.to_string())).collect();
            return Ok(self.out.choice(ids));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(branches) = map.get(key) {
                if ["properties", "items", "required"].iter().any(|other| map.contains_key(*other)) {
                    return Err(refuse(format!("`{key}` beside other rules is not supported")));
                }
                let branches = branches.as_array().filter(|branches| !branches.is_empty());
                let branches = branches.ok_or_else(|| refuse(format!("`{key}` is no list of schemas")))?;
                let mut ids = Vec::new();
                for (at, branch) in branches.iter().enumerate() {
                    ids.push(self.schema(branch, &format!("{place}/{key}/{at}"), depth + 1)?);
                }
                return Ok(self.out.choice(ids));
            }
        }
        let implied: &[&str] = if map.contains_key("properties") {
            &["object"]
        } else if map.contains_key("items") {
            &["array"]
        } else {
            &[]
        };
        let kinds = if kinds.is_empty() { implied } else { &kinds };
        if kinds.is_empty() {
            return Ok(self.any());
        }
        let mut ids = Vec::new();
        for kind in kinds {
            ids.push(match *kind {
                "string" => self.string(map, place)?,
                "integer" => self.integer(map.get("minimum").and_then(Value::as_f64)),
                "number" => self.number(),
                "boolean" => {
                    let both = vec![self.out.bytes("true"), self.out.bytes("false")];
                    self.out.choice(both)
                }
                "null" => self.out.bytes("null"),
                "array" => self.array(map, place, depth)?,
                "object" => self.object(map, place, depth)?,
                other => return Err(refuse(format!("the type `{other}` is not known"))),
            });
        }
        Ok(self.out.choice(ids))
    }

    fn reference(
        &mut self,
        target: &str,
        map: &Map<String, Value>,
        place: &str,
        depth: usize,
    ) -> Result<Id, Unsupported> {
        let refuse = |what: String| Unsupported { place: place.to_owned(), what };
        if let Some(key) = map.keys().find(|key| *key != "$ref" && !ANNOTATIONS.contains(&key.as_str())) {
            return Err(refuse(format!("`{key}` beside `$ref` is not supported")));
        }
        if let Some(known) = self.known.get(target) {
            return Ok(*known);
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let found =
            found.ok_or_else(|| refuse(format!("`$ref` to `{target}` leads nowhere in this schema")))?;
        let reserved = self.out.reserve();
        self.known.insert(target.to_owned(), reserved);
        let meant = self.schema(found, target, depth + 1)?;
        self.out.set(reserved, meant);
        Ok(reserved)
    }

    fn string(&mut self, map: &Map<String, Value>, place: &str) -> Result<Id, Unsupported> {
        let (least, most) = bounds(map, "minLength", "maxLength", place)?;
        Ok(self.quoted(least, most))
    }

    fn quoted(&mut self, least: u32, most: Option<u32>) -> Id {
        let quote = self.out.bytes("\"");
        let text = self.out.repeat(self.string_character, least, most);
        self.out.sequence(vec![quote, text, quote])
    }

    /// Digits are bounded: a number that never ends helps nobody.
    fn integer(&mut self, least: Option<f64>) -> Id {
        let (first, digit) = (self.out.class(&[(b'1', b'9')]), self.out.class(&[(b'0', b'9')]));
        let rest = self.out.repeat(digit, 0, Some(14));
        let positive = self.out.sequence(vec![first, rest]);
        let (zero, minus) = (self.out.bytes("0"), self.out.bytes("-"));
        let mut ids = vec![positive];
        if least.is_none_or(|least| least < 1.0) {
            ids.push(zero);
        }
        if least.is_none() {
            ids.push(self.out.sequence(vec![minus, positive]));
        }
        self.out.choice(ids)
    }

    fn number(&mut self) -> Id {
        let whole = self.integer(None);
        let digit = self.out.class(&[(b'0', b'9')]);
        let digits = self.out.repeat(digit, 1, Some(15));
        let dot = self.out.bytes(".");
        let fraction = self.out.sequence(vec![dot, digits]);
        let fraction = self.out.repeat(fraction, 0, Some(1));
        self.out.sequence(vec![whole, fraction])
    }

    fn array(&mut self, map: &Map<String, Value>, place: &str, depth: usize) -> Result<Id, Unsupported> {
        let (least, most) = bounds(map, "minItems", "maxItems", place)?;
        let item = match map.get("items") {
            Some(items) => self.schema(items, &format!("{place}/items"), depth + 1)?,
            None => self.any(),
        };
        Ok(self.list("[", item, "]", least, most))
    }

    fn list(&mut self, open: &str, item: Id, close: &str, least: u32, most: Option<u32>) -> Id {
        let (open, close) = (self.out.bytes(open), self.out.bytes(close));
        let further = self.out.sequence(vec![self.comma, item]);
        let rest = self.out.repeat(further, least.saturating_sub(1), most.map(|most| most.saturating_sub(1)));
        let some = self.out.sequence(vec![open, item, rest, close]);
        let none = self.out.sequence(vec![open, close]);
        let mut ids = Vec::new();
        if most != Some(0) {
            ids.push(some);
        }
        if least == 0 {
            ids.push(none);
        }
        self.out.choice(ids)
    }

    fn object(&mut self, map: &Map<String, Value>, place: &str, depth: usize) -> Result<Id, Unsupported> {
        let refuse = |what: String| Unsupported { place: place.to_owned(), what };
        let none = Map::new();
        let properties = match map.get("properties") {
            None => &none,
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err(refuse("`properties` is no object".to_owned())),
        };
        let required: Vec<&str> = match map.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(refuse("`required` is no list".to_owned())),
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(refuse(format!("`{name}` is required and not described in `properties`")));
        }
        if properties.is_empty() && map.get("additionalProperties") != Some(&Value::Bool(false)) {
            let value = match map.get("additionalProperties") {
                Some(schema @ Value::Object(_)) => {
                    self.schema(schema, &format!("{place}/additionalProperties"), depth + 1)?
                }
                _ => self.any(),
            };
            let member = self.member(value);
            return Ok(self.list("{", member, "}", 0, None));
        }
        // Required ones in the order of their list, which says what the author thought of first; then the optional ones.
        let mut names: Vec<(&str, bool)> = Vec::new();
        for name in &required {
            if !names.iter().any(|(known, _)| known == name) {
                names.push((name, true));
            }
        }
        names.extend(
            properties
                .keys()
                .filter(|name| !required.contains(&name.as_str()))
                .map(|name| (name.as_str(), false)),
        );
        let close = self.out.bytes("}");
        // What may follow, from the end: after a member, and before any.
        let (mut after_some, mut after_none) = (close, close);
        for (name, must) in names.into_iter().rev() {
            let value = self.schema(&properties[name], &format!("{place}/properties/{name}"), depth + 1)?;
            let key = self.out.bytes(Value::from(name).to_string());
            let member = self.out.sequence(vec![key, self.colon, value]);
            let with_comma = self.out.sequence(vec![self.comma, member, after_some]);
            let without = self.out.sequence(vec![member, after_some]);
            if must {
                (after_some, after_none) = (with_comma, without);
            } else {
                after_none = self.out.choice(vec![without, after_none]);
                after_some = self.out.choice(vec![with_comma, after_some]);
            }
        }
        let open = self.out.bytes("{");
        Ok(self.out.sequence(vec![open, after_none]))
    }

    fn member(&mut self, value: Id) -> Id {
        let key = self.quoted(0, None);
        self.out.sequence(vec![key, self.colon, value])
    }

    /// Any JSON value.
    fn any(&mut self) -> Id {
        if let Some(any) = self.any {
            return any;
        }
        let any = self.out.reserve();
        self.any = Some(any);
        let string = self.quoted(0, None);
        let number = self.number();
        let words = ["true", "false", "null"].map(|word| self.out.bytes(word));
        let array = self.list("[", any, "]", 0, None);
        let member = self.member(any);
        let object = self.list("{", member, "}", 0, None);
        let mut ids = vec![string, number, array, object];
        ids.extend(words);
        let meant = self.out.choice(ids);
        self.out.set(any, meant);
        any
    }
}

fn bounds(
    map: &Map<String, Value>,
    least: &str,
    most: &str,
    place: &str,
) -> Result<(u32, Option<u32>), Unsupported> {
    let read = |key: &str| match map.get(key) {
        None => Ok(None),
        Some(value) => match value.as_u64().filter(|number| *number <= LONGEST) {
            Some(number) => Ok(u32::try_from(number).ok()),
            None => Err(Unsupported {
                place: place.to_owned(),
                what: format!("`{key}` is no number up to {LONGEST}"),
            }),
        },
    };
    let (low, high) = (read(least)?.unwrap_or(0), read(most)?);
    if high.is_some_and(|high| high < low) {
        return Err(Unsupported { place: place.to_owned(), what: format!("`{most}` is below `{least}`") });
    }
    Ok((low, high))
}

/// One character inside a JSON string: well-formed UTF-8 (Unicode 17, table 3-7) or an escape (RFC 8259, section 7), without halves
/// of surrogate pairs.
fn character(out: &mut Builder) -> Id {
    let tail = out.class(&[(0x80, 0xBF)]);
    let plain = out.class(&[(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E)]);
    let mut ids = vec![plain];
    let mut long = |lead: (u8, u8), second: (u8, u8), more: usize| {
        let mut items = vec![out.class(&[lead]), out.class(&[second])];
        items.extend(std::iter::repeat_n(tail, more));
        ids.push(out.sequence(items));
    };
    long((0xC2, 0xDF), (0x80, 0xBF), 0);
    long((0xE0, 0xE0), (0xA0, 0xBF), 1);
    long((0xE1, 0xEC), (0x80, 0xBF), 1);
    long((0xED, 0xED), (0x80, 0x9F), 1);
    long((0xEE, 0xEF), (0x80, 0xBF), 1);
    long((0xF0, 0xF0), (0x90, 0xBF), 2);
    long((0xF1, 0xF3), (0x80, 0xBF), 2);
    long((0xF4, 0xF4), (0x80, 0x8F), 2);
    let escape = out.bytes("\\");
    let one = out.class(&[b'"', b'\\', b'/', b'b', b'f', b'n', b'r', b't'].map(|byte| (byte, byte)));
    ids.push(out.sequence(vec![escape, one]));
    let (u, hex) = (out.bytes("u"), out.class(&[(b'0', b'9'), (b'a', b'f'), (b'A', b'F')]));
    let first = out.class(&[(b'0', b'9'), (b'a', b'c'), (b'A', b'C'), (b'e', b'f'), (b'E', b'F')]);
    ids.push(out.sequence(vec![escape, u, first, hex, hex, hex]));
    out.choice(ids)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fits(schema: &Value, text: &str) -> bool {
        machine(schema).unwrap().after(text.as_bytes()).is_some_and(|after| after.may_end())
    }

    #[test]
    fn required_properties_are_there_and_strange_ones_are_not() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "limit": {"type": "integer", "minimum": 1}, "path": {"type": "string"}}});
        for (text, good) in [
            (r#"{"path":"a"}"#, true),
            (r#"{"path": "ä\n", "limit": 3}"#, true),
            (r#"{"path":"a","limit":0}"#, false),
            (r#"{"limit":3}"#, false),
            (r#"{"path":"a","more":1}"#, false),
            (r#"{"path":"a"}}"#, false),
        ] {
            assert_eq!(fits(&schema, text), good, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (schema, word) in [
            (json!({"type": "string", "pattern": "a+"}), "`pattern`"),
            (json!({"type": "object", "properties": {"a": {"allOf": []}}}), "#/properties/a"),
            (json!({"type": "integer", "minimum": 7}), "`minimum`"),
            (json!({"$ref": "#/$defs/none"}), "leads nowhere"),
            (json!({"type": "thing"}), "`thing`"),
            (json!({"minLength": 3, "maxLength": 2, "type": "string"}), "below"),
            (json!({"required": ["x"], "type": "object"}), "`x`"),
        ] {
            let said = machine(&schema).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn a_schema_may_point_to_itself() {
        let schema = json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "required": ["children"],
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}}});
        assert!(fits(&schema, r#"{"children":[{"children":[]}]}"#));
        assert!(!fits(&schema, r#"{"children":[{}]}"#));
    }

    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (0..3_u32, 0..4_u32)
                .prop_map(|(low, more)| json!({"type": "string", "minLength": low, "maxLength": low + more})),
            Just(json!({"type": "integer"})),
            Just(json!({"type": "integer", "minimum": 1})),
            Just(json!({"type": ["number", "null"]})),
            Just(json!({"type": "boolean"})),
            Just(json!({"enum": ["a", "ab", 3, null]})),
            Just(json!({"const": {"k": ["v"]}})),
            Just(json!(true)),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                (inner.clone(), 0..2_u32, 0..3_u32)
                    .prop_map(|(items, low, more)| json!({"type": "array", "items": items, "minItems": low, "maxItems": low + more})),
                proptest::collection::vec(inner.clone(), 1..3).prop_map(|branches| json!({"anyOf": branches})),
                proptest::collection::btree_map("[a-d\"é]{1,2}", (inner, any::<bool>()), 0..4).prop_map(|members| {
                    let required: Vec<_> = members.iter().filter(|(_, (_, must))| *must).map(|(name, _)| name.clone()).collect();
                    let properties: Map<_, _> = members.into_iter().map(|(name, (schema, _))| (name, schema)).collect();
                    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
                }),
            ]
        })
    }

    proptest! {
        /// Whatever bytes are drawn under the mask, the whole parses and the validator agrees.
        #[test]
        fn every_text_under_the_mask_is_valid(schema in schemas(), draws in proptest::collection::vec(any::<u16>(), 600)) {
            let mut machine = machine(&schema).unwrap();
            let mut text = Vec::new();
            let mut draws = draws.into_iter();
            while !machine.is_over() {
                let Some(draw) = draws.next() else { break };
                if machine.may_end() && draw % 2 == 0 {
                    break;
                }
                let allowed: Vec<u8> = (0..=255).filter(|byte| machine.allows(*byte)).collect();
                prop_assert!(!allowed.is_empty());
                // Towards an end, or the free values never come to one.
                let closing: Vec<u8> = allowed.iter().copied().filter(|byte| b"\"]}".contains(byte)).collect();
                let from = if closing.is_empty() || draw % 3 == 0 { &allowed } else { &closing };
                let byte = from[usize::from(draw / 3) % from.len()];
                text.push(byte);
                machine = machine.after(&[byte]).unwrap();
            }
            prop_assume!(machine.may_end());
            let value: Value = serde_json::from_slice(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text:?}")))?;
            prop_assert!(jsonschema::is_valid(&schema, &value), "{value} against {schema}");
        }
    }
}
