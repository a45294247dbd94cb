//! Which model a name means, among those that there are. Exact names come first; what fits several, or none, or one that
//! cannot be used is an error, never another model.

use std::fmt;

use subagent_model::ErrorCode;

use crate::fields::{join, nearest};
use crate::name::escape;

/// A model that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Provider of the model.
    pub provider: String,
    /// Its id there.
    pub id: String,
    /// Other names that it has there.
    pub aliases: Vec<String>,
    /// Why it cannot be used, such as missing credentials. Absent when it can.
    pub unusable: Option<String>,
}

impl Model {
    /// A model that can be used.
    pub fn new(provider: impl Into<String>, id: impl Into<String>) -> Self {
        Self { provider: provider.into(), id: id.into(), aliases: Vec::new(), unusable: None }
    }

    /// Provider and id: a name that nothing else has.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

/// Who named the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The call.
    Call,
    /// The definition.
    Definition,
    /// A default.
    Default,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Call => "the call",
            Self::Definition => "the definition",
            Self::Default => "the default",
        })
    }
}

/// How many models an error names.
const SHOWN: usize = 30;

/// Why a name means no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Nothing fits.
    #[error("{by} names the model {:?}, which does not exist{}; {}", escape(.name), meant(.nearest.as_deref()), list(.usable))]
    Unknown {
        /// The name.
        name: String,
        /// Who gave it.
        by: NamedBy,
        /// What was probably meant.
        nearest: Option<String>,
        /// Models that can be used.
        usable: Vec<String>,
    },
    /// Several fit.
    #[error("{by} names the model {:?}, which fits several: {}", escape(.name), shown(.fitting))]
    Several {
        /// The name.
        name: String,
        /// Who gave it.
        by: NamedBy,
        /// Those that it fits.
        fitting: Vec<String>,
    },
    /// It fits, and cannot be used.
    #[error("{by} names the model {model}, which cannot be used: {reason}; {}", list(.usable))]
    Unusable {
        /// The model.
        model: String,
        /// Who named it.
        by: NamedBy,
        /// Why.
        reason: String,
        /// Models that can be used.
        usable: Vec<String>,
    },
}

impl ModelError {
    /// The stable code that doors tell it with.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::UnknownModel
    }

    /// Those that can be named instead.
    pub fn usable(&self) -> &[String] {
        match self {
            Self::Unknown { usable, .. } | Self::Unusable { usable, .. } => usable,
            Self::Several { fitting, .. } => fitting,
        }
    }
}

/// How much is known of the models of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// A few names; there are others. Only such a name itself means one of them, whatever its case.
    #[default]
    Some,
    /// What it offered when it was last asked. A part of a name is enough; a name that fits nothing may be a newer one.
    Offered,
    /// All that may be used. What fits nothing does not exist.
    All,
}

/// The models of a provider, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Models {
    /// Those that are known.
    pub list: Vec<Model>,
    /// What that says about others.
    pub extent: Extent,
}

impl Models {
    /// The model that a name means; none where it may be one that is not known here: then the name is passed as it is.
    pub fn choose(&self, name: &str, by: NamedBy) -> Result<Option<&Model>, ModelError> {
        match (self.extent, resolve_in(&STEPS[..EXACT], name, by, &self.list)) {
            (_, Ok(model)) => Ok(Some(model)),
            (Extent::Some, Err(_)) => Ok(None),
            (Extent::All, Err(_)) => resolve(name, by, &self.list).map(Some),
            (Extent::Offered, Err(_)) => match resolve(name, by, &self.list) {
                Err(ModelError::Unknown { .. }) => Ok(None),
                found => found.map(Some),
            },
        }
    }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

fn list(usable: &[String]) -> String {
    if usable.is_empty() { String::from("none can be used") } else { format!("usable: {}", shown(usable)) }
}

fn shown(names: &[String]) -> String {
    let rest = names.len().saturating_sub(SHOWN);
    let shown = join(names.iter().take(SHOWN).map(|name| escape(name)));
    if rest == 0 { shown } else { format!("{shown} and {rest} more") }
}

/// The model that a name means. It is looked for in steps, and the first step that finds anything decides: provider and
/// id, id, alias, each exactly and then without regard to case; then an id that differs only by what stands between its words;
/// then models that have every word of the name as a word; then models that have the letters of the name in one piece.
///
/// Where a step finds models that can be used and others that cannot, the latter do not count.
pub fn resolve<'a>(name: &str, by: NamedBy, models: &'a [Model]) -> Result<&'a Model, ModelError> {
    resolve_in(&STEPS, name, by, models)
}

fn resolve_in<'a>(
    steps: &[Step],
    name: &str,
    by: NamedBy,
    models: &'a [Model],
) -> Result<&'a Model, ModelError> {
    let usable = || {
        let mut names: Vec<_> =
            models.iter().filter(|it| it.unusable.is_none()).map(Model::full_name).collect();
        names.sort();
        names
    };
    let wanted = Wanted::of(name);
    for step in steps {
        let fitting: Vec<&Model> = models.iter().filter(|model| step(&wanted, model)).collect();
        let good: Vec<&Model> = fitting.iter().copied().filter(|it| it.unusable.is_none()).collect();
        let among = if good.is_empty() { &fitting } else { &good };
        match among.as_slice() {
            [] => {}
            [only] => {
                return match &only.unusable {
                    None => Ok(only),
                    Some(reason) => Err(ModelError::Unusable {
                        model: only.full_name(),
                        by,
                        reason: reason.clone(),
                        usable: usable(),
                    }),
                };
            }
            several => {
                let mut fitting: Vec<_> = several.iter().map(|it| it.full_name()).collect();
                fitting.sort();
                fitting.dedup();
                return Err(ModelError::Several { name: name.to_owned(), by, fitting });
            }
        }
    }
    let usable = usable();
    let ids = models.iter().filter(|it| it.unusable.is_none()).map(|it| it.id.as_str());
    let near = nearest(name, ids.chain(usable.iter().map(String::as_str))).map(str::to_owned);
    Err(ModelError::Unknown { name: name.to_owned(), by, nearest: near, usable })
}

/// A name, prepared for all steps.
struct Wanted<'a> {
    exact: &'a str,
    lower: String,
    words: Vec<String>,
    letters: String,
}

impl<'a> Wanted<'a> {
    fn of(name: &'a str) -> Self {
        let exact = name.trim();
        Self { exact, lower: exact.to_lowercase(), words: words(exact), letters: letters(exact) }
    }
}

/// So many of the steps find the name itself; the others find a part of it.
const EXACT: usize = 6;

type Step = fn(&Wanted<'_>, &Model) -> bool;

const STEPS: [Step; 9] = [
    |wanted, model| {
        let (provider, id) = (model.provider.as_str(), model.id.as_str());
        wanted.exact.strip_prefix(provider).and_then(|rest| rest.strip_prefix('/')) == Some(id)
    },
    |wanted, model| model.id == wanted.exact,
    |wanted, model| model.aliases.iter().any(|alias| alias == wanted.exact),
    |wanted, model| model.full_name().to_lowercase() == wanted.lower,
    |wanted, model| model.id.to_lowercase() == wanted.lower,
    |wanted, model| model.aliases.iter().any(|alias| alias.to_lowercase() == wanted.lower),
    |wanted, model| !wanted.letters.is_empty() && letters(&model.id) == wanted.letters,
    |wanted, model| {
        let has = words(&model.full_name());
        !wanted.words.is_empty() && wanted.words.iter().all(|word| has.contains(word))
    },
    |wanted, model| {
        // Fewer letters than three are in too many names to mean anything.
        wanted.letters.chars().count() >= 3 && letters(&model.full_name()).contains(&wanted.letters)
    },
];

/// The words of a name: `claude-sonnet-4.5` has four.
fn words(name: &str) -> Vec<String> {
    name.split(|char: char| !char.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// A name without what stands between its words.
fn letters(name: &str) -> String {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use proptest::{collection, prop_assert};

    use super::{Extent, Model, ModelError, Models, NamedBy, resolve};

    fn models() -> Vec<Model> {
        let mut locked = Model::new("azure", "gpt-6-mini");
        locked.unusable = Some(String::from("no credentials"));
        let mut old = Model::new("anthropic", "claude-haiku-3");
        old.unusable = Some(String::from("no credentials"));
        let mut opus = Model::new("anthropic", "claude-opus-5");
        opus.aliases = vec![String::from("opus")];
        vec![
            opus,
            Model::new("anthropic", "claude-sonnet-5"),
            Model::new("anthropic", "claude-sonnet-5-long"),
            Model::new("openai", "gpt-6"),
            Model::new("openai", "gpt-6-mini"),
            locked,
            old,
        ]
    }

    fn found(name: &str) -> Result<String, ModelError> {
        resolve(name, NamedBy::Call, &models()).map(Model::full_name)
    }

    #[test]
    fn def_11_exact_names_come_first() {
        for (name, model) in [
            ("anthropic/claude-sonnet-5", "anthropic/claude-sonnet-5"),
            ("claude-sonnet-5", "anthropic/claude-sonnet-5"),
            ("Claude-Sonnet-5", "anthropic/claude-sonnet-5"),
            ("opus", "anthropic/claude-opus-5"),
            ("OPUS", "anthropic/claude-opus-5"),
            ("gpt-6", "openai/gpt-6"),
            // The other one of this name has no credentials.
            ("gpt-6-mini", "openai/gpt-6-mini"),
            ("sonnet long", "anthropic/claude-sonnet-5-long"),
            ("gpt 6 mini", "openai/gpt-6-mini"),
            ("gpt6", "openai/gpt-6"),
            ("gpt6mini", "openai/gpt-6-mini"),
        ] {
            assert_eq!(found(name).as_deref(), Ok(model), "{name}");
        }
    }

    #[test]
    fn def_11_what_fits_several_or_none_is_an_error_with_the_usable_ones() {
        let several = found("sonnet").unwrap_err();
        assert_eq!(
            several.to_string(),
            "the call names the model \"sonnet\", which fits several: anthropic/claude-sonnet-5, \
             anthropic/claude-sonnet-5-long"
        );
        let none = found("claude-sonet-5").unwrap_err();
        assert_eq!(
            none.to_string(),
            "the call names the model \"claude-sonet-5\", which does not exist (did you mean claude-sonnet-5?); usable: \
             anthropic/claude-opus-5, anthropic/claude-sonnet-5, anthropic/claude-sonnet-5-long, openai/gpt-6, \
             openai/gpt-6-mini"
        );
        for name in ["", " ", "-", "5", "x", "inherit"] {
            found(name).unwrap_err();
        }
    }

    #[test]
    fn def_11_a_model_without_credentials_is_an_error_and_no_other_one() {
        for name in ["azure/gpt-6-mini", "claude-haiku-3", "haiku"] {
            let error = resolve(name, NamedBy::Definition, &models()).unwrap_err();
            assert!(
                matches!(&error, ModelError::Unusable { reason, .. } if reason == "no credentials"),
                "{error}"
            );
            assert!(error.to_string().starts_with("the definition names"), "{error}");
        }
        let error = resolve("gpt", NamedBy::Default, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the default names the model \"gpt\", which does not exist; none can be used"
        );
    }

    #[test]
    fn def_11_how_much_is_known_decides_what_a_name_can_mean() {
        let chosen = |extent, name| {
            let models = Models { list: models(), extent };
            let chosen = models.choose(name, NamedBy::Call).map(|it| it.map(|it| it.id.clone()));
            chosen.map_err(|error| (error.code().as_str(), error.usable().len()))
        };
        let is = |id: &str| Ok(Some(id.to_owned()));
        for extent in [Extent::Some, Extent::Offered, Extent::All] {
            assert_eq!(chosen(extent, "OPUS"), is("claude-opus-5"));
            assert_eq!(chosen(extent, "gpt-6"), is("gpt-6"), "exact names come first");
        }
        assert_eq!(chosen(Extent::Some, "gpt 6 mini"), Ok(None), "it may be another one");
        assert_eq!(chosen(Extent::Offered, "gpt 6 mini"), is("gpt-6-mini"));
        assert_eq!(chosen(Extent::Some, "sonnet"), Ok(None));
        assert_eq!(chosen(Extent::Offered, "sonnet"), Err(("unknown_model", 2)));
        assert_eq!(chosen(Extent::Offered, "brand-new"), Ok(None));
        assert_eq!(chosen(Extent::All, "brand-new"), Err(("unknown_model", 5)));
    }

    #[test]
    fn def_11_models_that_were_registered_later_count() {
        let mut all = models();
        all.push(Model::new("local", "tiny-1"));
        assert_eq!(resolve("tiny", NamedBy::Call, &all).map(Model::full_name).as_deref(), Ok("local/tiny-1"));
    }

    proptest! {
        #[test]
        fn any_name_is_survived(name in any::<String>(), ids in collection::vec(any::<String>(), 0..5)) {
            let models: Vec<_> = ids.iter().map(|id| Model::new("p", id.clone())).collect();
            if let Ok(model) = resolve(&name, NamedBy::Call, &models) {
                prop_assert!(models.contains(model));
            }
        }

        #[test]
        fn a_full_name_means_its_model(index in 0_usize..5) {
            let models = models();
            let wanted = &models[index];
            let name = wanted.full_name();
            prop_assert!(resolve(&name, NamedBy::Call, &models).is_ok_and(|it| it == wanted));
        }
    }
}
