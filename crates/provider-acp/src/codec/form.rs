//! Forms that the agent wants filled in, as questions that a text answers. A form of one field takes the answer as it is;
//! one of several takes a JSON object. What does not fit is declined and not bent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::bounds::{NAME_BYTES, TITLE_BYTES, cut, list};
use super::words::Filled;

/// Most fields of a form, and most values of a field.
const MOST: usize = 32;

/// A form.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Form {
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    title: Option<String>,
    kind: Kind,
    /// What may be chosen: the value, and its name for people.
    choices: Vec<(String, String)>,
    required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Whole,
    YesNo,
    Several,
}

impl Form {
    /// The form of a schema; none where a field that must be there cannot be told in a text.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Some(Self::default());
        };
        let required =
            |name: &str| list(schema.get("required")).iter().any(|field| field.as_str() == Some(name));
        if properties.len() > MOST || properties.keys().any(|name| name.len() > NAME_BYTES) {
            return None;
        }
        let mut fields = Vec::new();
        for (name, property) in properties {
            let required = required(name);
            match Field::of(name, property, required) {
                Some(field) => fields.push(field),
                None if required => return None,
                None => {}
            }
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Some(Self { fields })
    }

    /// What is to be filled in, where that is more than one thing.
    pub(super) fn in_words(&self) -> String {
        let [_, _, ..] = &self.fields[..] else {
            return self.fields.iter().find_map(|field| field.title.clone()).unwrap_or_default();
        };
        let mut words = String::from("Answer with a JSON object of these fields:");
        for field in &self.fields {
            let kind = match field.kind {
                Kind::Text => "text",
                Kind::Number => "number",
                Kind::Whole => "whole number",
                Kind::YesNo => "true or false",
                Kind::Several => "list of texts",
            };
            // Writing to a string cannot fail.
            let _ = write!(words, "\n- {}: {kind}", field.name);
            if let Some(title) = &field.title {
                let _ = write!(words, ", {title}");
            }
            if !field.choices.is_empty() {
                let values: Vec<_> = field.choices.iter().map(|(value, _)| value.as_str()).collect();
                let _ = write!(words, ", one of {}", values.join(" | "));
            }
            if !field.required {
                words.push_str(", may be left out");
            }
        }
        words
    }

    /// What is proposed as an answer.
    pub(super) fn choices(&self) -> Vec<String> {
        match &self.fields[..] {
            [] => vec![String::from("yes"), String::from("no")],
            [field] if field.kind == Kind::YesNo => vec![String::from("yes"), String::from("no")],
            [field] if field.kind == Kind::Several => vec![],
            [field] => field.choices.iter().map(|(_, name)| name.clone()).collect(),
            _ => vec![],
        }
    }

    /// The answer that a text is.
    pub(super) fn filled(&self, text: &str) -> Filled {
        let content = match &self.fields[..] {
            [] => yes_or_no(text).filter(|yes| *yes).map(|_| BTreeMap::new()),
            [field] => field.value(text).map(|value| BTreeMap::from([(field.name.clone(), value)])),
            _ => self.object(text),
        };
        content.map_or(Filled::Decline, |content| Filled::Accept { content })
    }

    fn object(&self, text: &str) -> Option<BTreeMap<String, Value>> {
        let given: BTreeMap<String, Value> = serde_json::from_str(text).ok()?;
        let fits = |field: &Field| match given.get(&field.name) {
            Some(value) => field.takes(value),
            None => !field.required,
        };
        let known = |name: &String| self.fields.iter().any(|field| field.name == *name);
        (self.fields.iter().all(fits) && given.keys().all(known)).then_some(given)
    }
}

impl Field {
    fn of(name: &str, property: &Value, required: bool) -> Option<Self> {
        let kind = match property.get("type").and_then(Value::as_str)? {
            "string" => Kind::Text,
            "number" => Kind::Number,
            "integer" => Kind::Whole,
            "boolean" => Kind::YesNo,
            "array" => Kind::Several,
            _ => return None,
        };
        let of = if kind == Kind::Several { property.get("items").unwrap_or(&Value::Null) } else { property };
        let plain = list(of.get("enum")).iter().filter_map(|value| Some((value.as_str()?, value.as_str()?)));
        let titled = list(of.get("oneOf").or_else(|| of.get("anyOf"))).iter().filter_map(|value| {
            let constant = value.get("const")?.as_str()?;
            Some((constant, value.get("title").and_then(Value::as_str).unwrap_or(constant)))
        });
        let choices = plain.chain(titled).take(MOST);
        let short = |text: &str| cut(text, TITLE_BYTES);
        let title = property.get("title").or_else(|| property.get("description")).and_then(Value::as_str);
        Some(Self {
            name: name.to_owned(),
            title: title.map(short),
            kind,
            choices: choices.map(|(value, name)| (short(value), short(name))).collect(),
            required,
        })
    }

    /// The value that a text is.
    fn value(&self, text: &str) -> Option<Value> {
        let trimmed = text.trim();
        let value = match self.kind {
            Kind::Text if self.choices.is_empty() => Value::from(text),
            Kind::Text => Value::from(self.choice(trimmed)?),
            Kind::Number | Kind::Whole => serde_json::from_str(trimmed).ok()?,
            Kind::YesNo => Value::from(yes_or_no(trimmed)?),
            Kind::Several => {
                let several: Vec<String> = serde_json::from_str(trimmed)
                    .unwrap_or_else(|_| trimmed.split(',').map(|one| one.trim().to_owned()).collect());
                let several = several.iter().map(|one| match &self.choices[..] {
                    [] => Some(one.as_str()),
                    _ => self.choice(one),
                });
                Value::from(several.collect::<Option<Vec<_>>>()?)
            }
        };
        self.takes(&value).then_some(value)
    }

    /// The value of the choice that is named, by itself or by its name for people.
    fn choice(&self, named: &str) -> Option<&str> {
        let is_it = |(value, name): &&(String, String)| value == named || name == named;
        self.choices.iter().find(is_it).map(|(value, _)| value.as_str())
    }

    fn takes(&self, value: &Value) -> bool {
        let chosen =
            |text: &str| self.choices.is_empty() || self.choices.iter().any(|(value, _)| value == text);
        match self.kind {
            Kind::Text => value.as_str().is_some_and(chosen),
            Kind::Number => value.is_number(),
            Kind::Whole => value.is_i64() || value.is_u64(),
            Kind::YesNo => value.is_boolean(),
            Kind::Several => {
                value.as_array().is_some_and(|all| all.iter().all(|one| one.as_str().is_some_and(chosen)))
            }
        }
    }
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" | "ok" => Some(true),
        "no" | "n" | "false" => Some(false),
        _ => None,
    }
}
