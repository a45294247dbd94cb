//! The providers of a runtime, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use subagent_model::{ErrorCode, Problem};

use crate::Provider;

/// Providers by name.
#[derive(Default, Clone)]
pub struct Registry {
    providers: BTreeMap<String, Arc<dyn Provider>>,
}

impl Registry {
    /// Adds a provider; a later one of the same name takes its place.
    #[must_use]
    pub fn with(mut self, provider: impl Provider) -> Self {
        self.providers.insert(provider.name().to_owned(), Arc::new(provider));
        self
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
