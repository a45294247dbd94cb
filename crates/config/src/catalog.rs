//! All types at one moment. A catalog never changes: a newer one takes its place as a whole, and whoever holds the old
//! one goes on with it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slotted;
use std::sync::{Arc, PoisonError, RwLock};

use camino::{Utf8Path, Utf8PathBuf};
use subagent_model::ErrorCode;

use crate::definition::{AgentDefinition, Dialect, Source};
use crate::diagnostic::{Diagnostic, Severity};
use crate::dialect::{self, Found, Input, Read};
use crate::fields::{join, nearest};
use crate::fingerprint::{Fingerprint, fingerprint};
use crate::name::{AgentName, escape, fold};
use crate::places::{Places, RUNTIME, Spot, What, real};
use crate::words::Visibility;
use crate::{builtin, read};

/// Why there is no type to use. It is never replaced by another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// Nothing has this name.
    #[error("there is no agent type {:?}{}; {}", escape(.name), hint(.nearest.as_deref()), list(.usable))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// What can be used.
        usable: Vec<String>,
    },
    /// It is switched off.
    #[error("the agent type {:?} is disabled by {source_text}; {}", escape(.name), list(.usable))]
    Disabled {
        /// Its name.
        name: String,
        /// Where it is defined.
        source_text: String,
        /// What can be used.
        usable: Vec<String>,
    },
    /// Its definition cannot be used. One of the same name that is farther away is not taken instead.
    #[error("the definition of the agent type {:?} in {path} cannot be used: {reason}; {}", escape(.name), list(.usable))]
    Broken {
        /// Its name.
        name: String,
        /// Its file.
        path: Utf8PathBuf,
        /// What is wrong.
        reason: String,
        /// What can be used.
        usable: Vec<String>,
    },
    /// Several have the name, and none is nearer than the others.
    #[error("the agent type {:?} is defined more than once in one place: {}; {}", escape(.name), join(.by), list(.usable))]
    Twice {
        /// The name.
        name: String,
        /// The files, or the types that have it for another name.
        by: Vec<String>,
        /// What can be used.
        usable: Vec<String>,
    },
}

impl TypeError {
    /// The stable code that doors tell it with.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::UnknownType
    }

    /// What can be used.
    pub fn usable(&self) -> &[String] {
        match self {
            Self::Unknown { usable, .. }
            | Self::Disabled { usable, .. }
            | Self::Broken { usable, .. }
            | Self::Twice { usable, .. } => usable,
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
}

fn list(usable: &[String]) -> String {
    if usable.is_empty() { String::from("none can be used") } else { format!("usable: {}", join(usable)) }
}

/// A definition that is not used because another one of the same name is nearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// Its name.
    pub name: AgentName,
    /// Where it is.
    pub source: Source,
}

/// What has a name.
#[derive(Debug, Clone)]
enum Slot {
    Good(Arc<AgentDefinition>),
    Broken { name: String, path: Utf8PathBuf, reason: String },
    Twice { name: String, by: Vec<String> },
}

/// What another name leads to.
#[derive(Debug, Clone)]
enum Alias {
    To(Arc<AgentDefinition>),
    Several(Vec<String>),
}

/// All types at one moment.
#[derive(Debug, Clone)]
pub struct Catalog {
    definitions: Vec<Arc<AgentDefinition>>,
    slots: BTreeMap<String, Slot>,
    aliases: BTreeMap<String, Alias>,
    diagnostics: Vec<Diagnostic>,
    shadowed: Vec<Shadowed>,
    fingerprint: Fingerprint,
}

/// Everything that was found, with the rank of where.
type Ranked = Vec<(usize, Found)>;

impl Catalog {
    /// Reads everything. Nothing makes this fail: what cannot be read is told in the diagnostics.
    pub fn load(places: &Places) -> Self {
        // Before the files are read: what changes meanwhile is seen as a change afterwards.
        let fingerprint = fingerprint(places);
        let mut diagnostics = Vec::new();
        let mut found: Ranked = Vec::new();
        look(&places.spots(), places, &mut found, &mut diagnostics);
        found.extend(places.runtime.iter().map(|it| (RUNTIME, Found::Good(Box::new(it.clone())))));
        found.extend(builtin::all().into_iter().map(|it| (usize::MAX, Found::Good(Box::new(it)))));

        let mut catalog = Self {
            definitions: Vec::new(),
            slots: BTreeMap::new(),
            aliases: BTreeMap::new(),
            diagnostics,
            shadowed: Vec::new(),
            fingerprint,
        };
        catalog.settle(found);
        catalog
    }

    /// Every definition that counts, disabled ones too, in the order of their names.
    pub fn definitions(&self) -> &[Arc<AgentDefinition>] {
        &self.definitions
    }

    /// What is to be told about the files.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Definitions that others of the same name stand before.
    pub fn shadowed(&self) -> &[Shadowed] {
        &self.shadowed
    }

    /// The files as they were when this was loaded.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The names that are offered.
    pub fn usable(&self) -> Vec<String> {
        let listed = self.definitions.iter().filter(|it| it.visibility == Visibility::Listed);
        listed.map(|it| it.name.to_string()).collect()
    }

    /// The type with this name: its own, or another name of it. Case does not matter.
    pub fn get(&self, name: &str) -> Result<&Arc<AgentDefinition>, TypeError> {
        let usable = || self.usable();
        let folded = fold(name);
        let definition = match (self.slots.get(&folded), self.aliases.get(&folded)) {
            (Some(Slot::Good(definition)), _) | (None, Some(Alias::To(definition))) => definition,
            (Some(Slot::Broken { name, path, reason }), _) => {
                return Err(TypeError::Broken {
                    name: name.clone(),
                    path: path.clone(),
                    reason: reason.clone(),
                    usable: usable(),
                });
            }
            (Some(Slot::Twice { name, by }), _) => {
                return Err(TypeError::Twice { name: name.clone(), by: by.clone(), usable: usable() });
            }
            (None, Some(Alias::Several(by))) => {
                return Err(TypeError::Twice { name: name.to_owned(), by: by.clone(), usable: usable() });
            }
            (None, None) => {
                let usable = usable();
                let near = nearest(&folded, usable.iter().map(String::as_str)).map(str::to_owned);
                return Err(TypeError::Unknown { name: name.to_owned(), nearest: near, usable });
            }
        };
        if definition.visibility == Visibility::Disabled {
            return Err(TypeError::Disabled {
                name: definition.name.to_string(),
                source_text: definition.source.to_string(),
                usable: usable(),
            });
        }
        Ok(definition)
    }

    /// Gives each name to the nearest definition that has it.
    fn settle(&mut self, found: Ranked) {
        let mut places: BTreeMap<usize, BTreeMap<String, Vec<Found>>> = BTreeMap::new();
        for (rank, one) in found {
            let name = match &one {
                Found::Good(definition) => Some(definition.name.folded()),
                Found::Bad { name, .. } => name.as_deref().map(fold),
            };
            if let Some(name) = name {
                places.entry(rank).or_default().entry(name).or_default().push(one);
            }
        }
        let mut order: Vec<(usize, Arc<AgentDefinition>)> = Vec::new();
        for (rank, names) in places {
            for (folded, all) in names {
                self.place(rank, folded, all, &mut order);
            }
        }
        self.settle_aliases(&order);
        self.definitions = order.into_iter().map(|(_, definition)| definition).collect();
        self.definitions.sort_by_key(|definition| definition.name.folded());
    }

    fn place(
        &mut self,
        rank: usize,
        folded: String,
        all: Vec<Found>,
        order: &mut Vec<(usize, Arc<AgentDefinition>)>,
    ) {
        let mut good: Vec<Arc<AgentDefinition>> = Vec::new();
        let mut bad = None;
        for one in all {
            match one {
                Found::Good(definition) => good.push(Arc::from(definition)),
                Found::Bad { name, path, reason } => {
                    bad = bad.or(Some(Slot::Broken { name: name.unwrap_or_default(), path, reason }));
                }
            }
        }
        let Slotted::Vacant(slot) = self.slots.entry(folded) else {
            let shadowed =
                good.iter().map(|it| Shadowed { name: it.name.clone(), source: it.source.clone() });
            self.shadowed.extend(shadowed);
            return;
        };
        match (good.as_slice(), bad) {
            ([only], _) => {
                order.push((rank, Arc::clone(only)));
                slot.insert(Slot::Good(Arc::clone(only)));
            }
            ([], Some(broken)) => {
                slot.insert(broken);
            }
            ([], None) => {}
            ([first, ..], _) => {
                let by: Vec<String> = good.iter().map(|it| place(&it.source)).collect();
                let name = first.name.to_string();
                for (index, one) in good.iter().enumerate() {
                    let others = by.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, by)| by);
                    let message = format!(
                        "the name {:?} is also that of {}; none of them is used",
                        one.name.as_str(),
                        join(others)
                    );
                    self.diagnostics.push(about(&one.source, Severity::Error, message));
                }
                slot.insert(Slot::Twice { name, by });
            }
        }
    }

    fn settle_aliases(&mut self, order: &[(usize, Arc<AgentDefinition>)]) {
        let mut owners: BTreeMap<String, (usize, Vec<Arc<AgentDefinition>>)> = BTreeMap::new();
        for (rank, definition) in order {
            for alias in &definition.aliases {
                let folded = alias.folded();
                if self.slots.contains_key(&folded) {
                    if folded != definition.name.folded() {
                        let message = format!(
                            "the alias {:?} is the name of another type, which has it",
                            alias.as_str()
                        );
                        self.diagnostics.push(about(&definition.source, Severity::Warning, message));
                    }
                    continue;
                }
                let (first, owners) = owners.entry(folded).or_insert_with(|| (*rank, Vec::new()));
                if first == rank && !owners.iter().any(|other| other.name == definition.name) {
                    owners.push(Arc::clone(definition));
                }
            }
        }
        for (folded, (_, owners)) in owners {
            let alias = match owners.as_slice() {
                [] => continue,
                [only] => Alias::To(Arc::clone(only)),
                several => {
                    let names: Vec<String> = several.iter().map(|it| it.name.to_string()).collect();
                    for one in several {
                        let message =
                            format!("the alias {folded:?} is that of several types: {}", join(&names));
                        self.diagnostics.push(about(&one.source, Severity::Error, message));
                    }
                    Alias::Several(names)
                }
            };
            self.aliases.insert(folded, alias);
        }
    }
}

fn about(source: &Source, severity: Severity, message: String) -> Diagnostic {
    Diagnostic::new(severity, Utf8Path::new(&place(source)), message)
}

/// The file, or what stands for it where there is none.
fn place(source: &Source) -> String {
    source.path.as_ref().map_or_else(|| format!("({})", source.scope), ToString::to_string)
}

/// Reads everything at these spots.
fn look(spots: &[Spot], places: &Places, found: &mut Ranked, diagnostics: &mut Vec<Diagnostic>) {
    // A file that a table of the same place points to is read there, and not a second time by itself.
    let mut pointed: Vec<(usize, Utf8PathBuf)> = Vec::new();
    for spot in spots {
        let (files, mut remarks) = read::list(spot);
        diagnostics.append(&mut remarks);
        for file in files {
            if pointed.contains(&(spot.rank, real(&file.path))) {
                continue;
            }
            let source = Source {
                path: Some(file.path.clone()),
                dialect: spot.dialect,
                scope: spot.scope,
                trusted: spot.trusted,
            };
            let input = Input { path: &file.path, stem: &file.stem, source: &source, known: &places.known };
            let mut read = match read::text(&file.path) {
                Ok(text) => one(spot, &input, &text, &mut |path| {
                    let beside = read::beside(spot, &file.path, path);
                    if let Ok((path, _)) = &beside {
                        pointed.push((spot.rank, real(path)));
                    }
                    beside
                }),
                // Settings of another program that cannot be read name no type.
                Err(remark) if matches!(spot.what, What::Table { .. }) => {
                    Read { remarks: vec![remark], ..Read::default() }
                }
                Err(remark) => Read::bad(dialect::by_file(&input), remark),
            };
            diagnostics.append(&mut read.remarks);
            found.extend(read.found.into_iter().map(|one| (spot.rank, one)));
        }
    }
}

fn one(
    spot: &Spot,
    input: &Input<'_>,
    text: &str,
    beside: &mut dyn FnMut(&Utf8Path) -> dialect::Beside,
) -> Read {
    match (&spot.what, spot.dialect) {
        (What::Table { .. }, _) => dialect::table(input, text, beside),
        (What::Directory { .. }, Dialect::Codex) => dialect::role(input, text),
        (What::Directory { .. }, _) => dialect::markdown(input, text),
    }
}

/// The catalog of the moment, for those who share one.
#[derive(Debug)]
pub struct Catalogs {
    current: RwLock<Arc<Catalog>>,
}

impl Catalogs {
    /// Begins with this one.
    pub fn new(catalog: Catalog) -> Self {
        Self { current: RwLock::new(Arc::new(catalog)) }
    }

    /// The present one. Whoever holds it is not touched by what comes after it.
    pub fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The present one, after loading it anew if files or places have changed.
    pub fn refresh(&self, places: &Places) -> Arc<Catalog> {
        let current = self.current();
        if current.fingerprint() == fingerprint(places) {
            return current;
        }
        let fresh = Arc::new(Catalog::load(places));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        fresh
    }
}
