//! What can be set of a session: its model, how hard it thinks, its mode. Agents offer these as configuration options, and
//! older ones modes and models in lists of their own.

use serde_json::Value;
use subagent_provider::ModelOffer;

use super::bounds::{NAME_BYTES, cut, list, name};

/// Most options of a session, and most values of one, that are remembered.
const MOST: usize = 256;
/// Most values that are named where the one that was asked for is not among them.
const MOST_NAMED: usize = 20;

/// What is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// The model.
    Model,
    /// How hard it thinks.
    Effort,
    /// Its mode of permissions.
    Mode,
}

impl Setting {
    /// In the order in which they are set: a model decides which efforts there are, and the mode counts last.
    pub(super) const ALL: [Self; 3] = [Self::Model, Self::Effort, Self::Mode];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Effort => "effort",
            Self::Mode => "mode",
        }
    }

    fn category(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Effort => "thought_level",
            Self::Mode => "mode",
        }
    }
}

/// How something is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Via {
    /// By the configuration option of this id.
    Option(String),
    /// By the list of modes.
    Modes,
    /// By the list of models.
    Models,
}

/// What a wish comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// It is so already.
    Fulfilled,
    /// To be set, to this value.
    Set(Via, String),
    /// It is not offered; what is, in words.
    NotOffered(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Selector {
    via: Via,
    category: String,
    current: Option<String>,
    values: Vec<Offered>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Offered {
    id: String,
    name: String,
}

/// All that can be set, as the agent last told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    options: Vec<Selector>,
    lists: Vec<Selector>,
}

impl Settings {
    /// Takes in the answer that opened a session, or one that set an option, or the news of a change.
    pub(super) fn learn(&mut self, value: &Value) {
        if value.get("configOptions").is_some_and(Value::is_array) {
            let options = list(value.get("configOptions")).iter().take(MOST);
            self.options = options.filter_map(Selector::of_option).collect();
        }
        let lists = [
            Selector::of_list(&value["modes"], Via::Modes, "mode", ["availableModes", "currentModeId", "id"]),
            Selector::of_list(
                &value["models"],
                Via::Models,
                "model",
                ["availableModels", "currentModelId", "modelId"],
            ),
        ];
        for found in lists.into_iter().flatten() {
            self.lists.retain(|old| old.via != found.via);
            self.lists.push(found);
        }
    }

    /// What is set now.
    pub(super) fn current(&self, setting: Setting) -> Option<&str> {
        self.selectors(setting).find_map(|selector| selector.current.as_deref())
    }

    /// The models that can be chosen.
    pub(super) fn models(&self) -> Vec<ModelOffer> {
        let values = self.selectors(Setting::Model).next().map(|selector| &selector.values[..]);
        let offer = |value: &Offered| ModelOffer { id: value.id.clone(), name: value.name.clone() };
        values.unwrap_or_default().iter().map(offer).collect()
    }

    /// How a wish is fulfilled.
    pub(super) fn wish(&self, setting: Setting, wanted: &str) -> Wish {
        let mut offered = Vec::new();
        for selector in self.selectors(setting) {
            if let Some(value) = selector.value(wanted) {
                if selector.current.as_deref() == Some(value) {
                    return Wish::Fulfilled;
                }
                return Wish::Set(selector.via.clone(), value.to_owned());
            }
            // The older lists name the same once more.
            if offered.is_empty() {
                offered.extend(selector.values.iter().map(|value| value.id.as_str()));
            }
        }
        let word = setting.word();
        Wish::NotOffered(match &offered[..] {
            [] => format!("it offers no choice of {word}"),
            few if few.len() <= MOST_NAMED => format!("it offers {}", few.join(", ")),
            many => {
                format!("it offers {}, and {} more", many[..MOST_NAMED].join(", "), many.len() - MOST_NAMED)
            }
        })
    }

    /// A mode that the agent has changed by itself.
    pub(super) fn mode_is(&mut self, mode: &str) {
        if let Some(modes) = self.lists.iter_mut().find(|list| list.via == Via::Modes) {
            modes.current = Some(cut(mode, NAME_BYTES));
        }
    }

    fn selectors(&self, setting: Setting) -> impl Iterator<Item = &Selector> {
        let is_it = move |selector: &&Selector| selector.category == setting.category();
        let (options, lists) = (self.options.iter().filter(is_it), self.lists.iter().filter(is_it));
        // Modes have a method of their own, which every agent with modes has; the list of models is the older way.
        let lists_first = setting == Setting::Mode;
        let (before, after) = if lists_first { (Some(lists), None) } else { (None, Some(lists)) };
        before.into_iter().flatten().chain(options).chain(after.into_iter().flatten())
    }
}

impl Selector {
    fn of_option(option: &Value) -> Option<Self> {
        let id = name(option.get("id"))?;
        let category = match (option.get("category").and_then(Value::as_str), id.as_str()) {
            (Some(category), _) => cut(category, NAME_BYTES),
            (None, "effort" | "reasoning_effort") => String::from("thought_level"),
            (None, id) => id.to_owned(),
        };
        // Options may stand in groups.
        let entries = list(option.get("options")).iter().flat_map(|entry| match list(entry.get("options")) {
            [] => std::slice::from_ref(entry),
            group => group,
        });
        let values: Vec<_> = entries.take(MOST).filter_map(|entry| Offered::of(entry, "value")).collect();
        let current = name(option.get("currentValue"));
        (!values.is_empty()).then_some(Self { via: Via::Option(id), category, current, values })
    }

    fn of_list(list_of: &Value, via: Via, category: &str, [all, current, id]: [&str; 3]) -> Option<Self> {
        let entries = list(list_of.get(all)).iter().take(MOST);
        let values: Vec<_> = entries.filter_map(|entry| Offered::of(entry, id)).collect();
        let current = name(list_of.get(current));
        (!values.is_empty()).then(|| Self { via, category: category.to_owned(), current, values })
    }

    /// By its id, else by its name where only one has it.
    fn value(&self, wanted: &str) -> Option<&str> {
        if let Some(exact) = self.values.iter().find(|value| value.id == wanted) {
            return Some(&exact.id);
        }
        let mut named = self.values.iter().filter(|value| value.name.eq_ignore_ascii_case(wanted));
        named.next().filter(|_| named.next().is_none()).map(|value| value.id.as_str())
    }
}

impl Offered {
    fn of(entry: &Value, id: &str) -> Option<Self> {
        let id = name(entry.get(id))?;
        let name = entry.get("name").and_then(Value::as_str).unwrap_or(&id);
        Some(Self { name: cut(name, NAME_BYTES), id })
    }
}
