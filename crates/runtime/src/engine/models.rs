//! Which models each provider has, as far as that is known: what the person set, what an agent offered when it was last
//! asked in a directory, and the names that a provider has always. Nothing is asked for it: it is heard on the way.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use subagent_config::models::{Extent, Model, Models};
use subagent_provider::{ModelOffer, Provider};

/// Most lists of offered models that are remembered, and most models of one.
const MOST_LISTS: usize = 256;
const MOST_MODELS: usize = 512;

/// The models that are known.
#[derive(Debug, Default)]
pub(crate) struct KnownModels {
    set: BTreeMap<String, Vec<String>>,
    /// By provider and directory: an agent's settings differ from project to project.
    offered: Mutex<HashMap<(String, Utf8PathBuf), Vec<Model>>>,
}

impl KnownModels {
    pub(crate) fn new(set: BTreeMap<String, Vec<String>>) -> Self {
        Self { set, offered: Mutex::default() }
    }

    /// An agent told what it offers.
    pub(crate) fn heard(&self, provider: &str, cwd: &Utf8Path, offers: Vec<ModelOffer>) {
        let model = |offer: ModelOffer| {
            let aliases = if offer.name == offer.id { vec![] } else { vec![offer.name] };
            Model { aliases, ..Model::new(provider, offer.id) }
        };
        let models = offers.into_iter().take(MOST_MODELS).map(model).collect();
        let mut all = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (provider.to_owned(), cwd.to_owned());
        if all.len() >= MOST_LISTS && !all.contains_key(&key) {
            all.clear();
        }
        all.insert(key, models);
    }

    /// What is known of a provider's models in a directory.
    pub(crate) fn of(&self, provider: &dyn Provider, cwd: Option<&Utf8Path>) -> Models {
        let name = provider.name();
        let named = |id: &str| Model::new(name, id);
        if let Some(set) = self.set.get(name) {
            return Models { list: set.iter().map(|id| named(id)).collect(), extent: Extent::All };
        }
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offered) = cwd.and_then(|cwd| offered.get(&(name.to_owned(), cwd.to_owned()))) {
            return Models { list: offered.clone(), extent: Extent::Offered };
        }
        Models { list: provider.models().iter().map(|id| named(id)).collect(), extent: Extent::Some }
    }
}

#[cfg(test)]
mod tests {
    use super::KnownModels;
    use subagent_config::models::Extent;
    use subagent_provider::{ModelOffer, Scripted};

    #[test]
    fn def_11_what_is_set_counts_before_what_was_offered_here() {
        let fake = Scripted::default();
        let ids = |known: &KnownModels, cwd: &str| {
            let models = known.of(&fake, Some(cwd.into()));
            (models.list.into_iter().map(|model| model.id).collect::<Vec<_>>(), models.extent)
        };
        let offer = |id: &str| ModelOffer { id: id.to_owned(), name: String::from("A name") };
        let known = KnownModels::default();
        assert_eq!(ids(&known, "/a"), (vec![], Extent::Some));
        known.heard("scripted", "/a".into(), vec![offer("one")]);
        assert_eq!(ids(&known, "/a"), (vec![String::from("one")], Extent::Offered));
        assert_eq!(ids(&known, "/b"), (vec![], Extent::Some), "another project has its own");
        known.heard("scripted", "/a".into(), vec![offer("two")]);
        assert_eq!(ids(&known, "/a").0, ["two"], "the newest counts");
        let set = KnownModels::new([(String::from("scripted"), vec![String::from("three")])].into());
        set.heard("scripted", "/a".into(), vec![offer("one")]);
        assert_eq!(ids(&set, "/a"), (vec![String::from("three")], Extent::All));
        for n in 0..1_000 {
            known.heard("scripted", format!("/{n}").as_str().into(), vec![offer("one")]);
        }
        assert!(known.offered.lock().is_ok_and(|all| all.len() <= super::MOST_LISTS));
    }
}
