//! The providers of a runtime, by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use subagent_model::{ErrorCode, Problem};

use crate::Provider;

/// Providers by name.
#[derive(Default, Clone)]
pub struct Registry {
    providers: BTreeMap<String, Arc<dyn Provider>>,
    /// The first name that was given twice.
    twice: Option<String>,
}

impl Registry {
    /// Adds a provider. Of two with the same name the first stays, and an engine does not start with them.
    #[must_use]
    pub fn with(mut self, provider: impl Provider) -> Self {
        match self.providers.entry(provider.name().to_owned()) {
            Entry::Occupied(taken) => {
                self.twice.get_or_insert_with(|| taken.key().clone());
            }
            Entry::Vacant(free) => {
                free.insert(Arc::new(provider));
            }
        }
        self
    }

    /// A name that two providers have, if there is one.
    pub fn given_twice(&self) -> Option<&str> {
        self.twice.as_deref()
    }

    /// The provider of this name, or a refusal that lists those there are.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Provider>, Problem> {
        self.providers.get(name).ok_or_else(|| {
            let known = self.providers.keys().cloned().collect::<Vec<_>>().join(", ");
            Problem::new(
                ErrorCode::UnknownProvider,
                format!("no provider is named {name:?}; there are: {known}"),
            )
        })
    }

    /// All providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.providers.values()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.providers.keys()).finish()
    }
}
