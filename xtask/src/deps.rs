//! The architecture, held by machine: which crate may know which, where each heavy dependency lives, and where
//! unsafe code may stand. The tables below *are* the layering; changing one is a decision to be reviewed.
//!
//! Gathering facts from disk and judging them are apart, so that the judge is tested on made-up workspaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::metadata;
use crate::problem::{Problem, Result};

/// How far from the pure core a crate lies. An arrow never points to a higher layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// Words and decisions: no IO, clock or randomness.
    Pure,
    /// Ports and adapters: each holds one foreign thing.
    Port,
    /// The engine.
    Shell,
    /// Ways in, which know the engine through its trait.
    Face,
    /// Wiring.
    Binary,
    /// Helpers of tests and of the project.
    Dev,
}

/// The place of one crate.
struct Place {
    name: &'static str,
    layer: Layer,
    /// The crates of ours it may depend on. Development dependencies may go anywhere at or below its layer.
    knows: &'static [&'static str],
}

const PLACES: &[Place] = &[
    Place { name: "subagent-model", layer: Layer::Pure, knows: &[] },
    Place { name: "subagent-core", layer: Layer::Pure, knows: &["subagent-model"] },
    Place { name: "subagent-store", layer: Layer::Port, knows: &["subagent-core", "subagent-model"] },
    Place {
        name: "subagent-store-sqlite",
        layer: Layer::Port,
        knows: &["subagent-store", "subagent-core", "subagent-model"],
    },
    Place { name: "subagent-process", layer: Layer::Port, knows: &["subagent-core", "subagent-model"] },
    Place { name: "subagent-provider", layer: Layer::Port, knows: &["subagent-core", "subagent-model"] },
    Place {
        name: "subagent-provider-cli",
        layer: Layer::Port,
        knows: &["subagent-provider", "subagent-process", "subagent-core", "subagent-model"],
    },
    Place {
        name: "subagent-provider-acp",
        layer: Layer::Port,
        knows: &["subagent-provider", "subagent-model"],
    },
    Place { name: "subagent-hooks", layer: Layer::Port, knows: &["subagent-model"] },
    Place { name: "subagent-config", layer: Layer::Port, knows: &["subagent-model"] },
    // The ports only: which store and which providers there are is wired by the binary.
    Place {
        name: "subagent-runtime",
        layer: Layer::Shell,
        knows: &[
            "subagent-store",
            "subagent-process",
            "subagent-provider",
            "subagent-hooks",
            "subagent-config",
            "subagent-core",
            "subagent-model",
        ],
    },
    Place { name: "subagent-api", layer: Layer::Face, knows: &["subagent-runtime", "subagent-model"] },
    Place { name: "subagent-client", layer: Layer::Face, knows: &["subagent-runtime", "subagent-model"] },
    Place {
        name: "subagent-cli",
        layer: Layer::Binary,
        knows: &[
            "subagent-api",
            "subagent-client",
            "subagent-runtime",
            "subagent-config",
            "subagent-provider-acp",
            "subagent-provider-cli",
            "subagent-provider",
            "subagent-process",
            "subagent-store-sqlite",
            "subagent-store",
            "subagent-core",
            "subagent-model",
        ],
    },
    Place { name: "subagent-shim", layer: Layer::Binary, knows: &["subagent-core", "subagent-model"] },
    Place {
        name: "subagent-testkit",
        layer: Layer::Dev,
        knows: &[
            "subagent-client",
            "subagent-runtime",
            "subagent-provider",
            "subagent-process",
            "subagent-store-sqlite",
            "subagent-store",
            "subagent-core",
            "subagent-model",
        ],
    },
    // A model for demos and tests; knows nothing of the product, which speaks to it as to any endpoint.
    Place { name: "subagent-local-model", layer: Layer::Dev, knows: &[] },
    Place {
        name: "xtask",
        layer: Layer::Dev,
        knows: &[
            "subagent-api",
            "subagent-cli",
            "subagent-client",
            "subagent-config",
            "subagent-core",
            "subagent-model",
            "subagent-runtime",
            "subagent-store",
            "subagent-store-sqlite",
        ],
    },
];

/// The crate that only tests may use.
const TESTKIT: &str = "subagent-testkit";

/// The crate that computes.
const LOCAL_MODEL: &str = "subagent-local-model";

/// Foreign crates that have a home, and stay there.
const HOMES: &[(&[&str], &[&str])] = &[
    (&["rusqlite", "libsqlite3-sys"], &["subagent-store-sqlite"]),
    (&["axum", "tower", "tower-http"], &["subagent-api", TESTKIT, LOCAL_MODEL]),
    (&["hyper", "hyper-util", "http-body-util"], &["subagent-client", "subagent-api"]),
    (&["clap", "clap_complete", "clap_mangen"], &["subagent-cli", TESTKIT, LOCAL_MODEL, "xtask"]),
    (&["miette", "indicatif"], &["subagent-cli"]),
    (&["tracing-subscriber"], &["subagent-cli"]),
    (&["candle-core", "candle-nn", "tokenizers"], &[LOCAL_MODEL]),
    (&["jsonschema"], &["subagent-runtime"]),
    (&["serde-saphyr", "jsonc-parser"], &["subagent-config"]),
];

/// All that the pure layer may use: data, and functions of data.
const PURE: &[&str] = &[
    "camino",
    "crc32fast",
    "jiff",
    "newtype-uuid",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "uuid",
];

/// Where the asynchronous runtime has no business: the pure layer, the store port, and the shim, whose
/// memory counts once per child.
const NO_TOKIO: &[&str] = &["subagent-model", "subagent-core", "subagent-store", "subagent-shim"];

/// Where unsafe code may stand, each block with its reason.
const UNSAFE: &[&str] = &["subagent-process", "subagent-shim"];

/// Written apart so that this file does not accuse itself.
const UNSAFE_LINT: &str = concat!("unsafe", "_code");

/// Who may read the environment. A library is told; a binary looks.
const READS_ENVIRONMENT: &[&str] = &["subagent-cli", "subagent-shim", TESTKIT, "xtask"];

/// The ways to read it, again written apart.
const ENVIRONMENT: &[&str] = &[
    concat!("env", "::var"),
    concat!("env", "::home_dir"),
    concat!("env", "::set_var"),
    concat!("env", "::remove_var"),
];

/// What is known of one crate before judging it.
struct Facts {
    name: String,
    manifest: String,
    uses: Vec<Use>,
    /// Path for people, and text, of each source file.
    sources: Vec<(String, String)>,
}

/// One dependency of a crate.
struct Use {
    name: String,
    ours: bool,
    dev: bool,
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    krate: String,
    what: String,
    instead: String,
}

/// Judges the workspace.
pub(crate) fn run() -> Result<()> {
    let facts = gather()?;
    let breaches = judge(&facts);
    if breaches.is_empty() {
        eprintln!("    {} crates, every arrow points down", facts.len());
        return Ok(());
    }
    for breach in &breaches {
        eprintln!("    {}: {}\n        instead: {}", breach.krate, breach.what, breach.instead);
    }
    Err(Problem::new(
        format!("{} rule(s) of the architecture are broken", breaches.len()),
        "follow the advice above; if the architecture is to change, change the tables in xtask/src/deps.rs \
         and write an ADR",
    ))
}

fn gather() -> Result<Vec<Facts>> {
    let root = metadata::root();
    let mut all = Vec::new();
    for package in metadata::workspace()?.packages {
        let manifest = read(&package.manifest_path)?;
        let directory = package.manifest_path.parent().unwrap_or(&root).to_path_buf();
        let mut files = Vec::new();
        collect(&directory, &mut files)?;
        files.sort();
        let mut sources = Vec::new();
        for file in files {
            let text = read(&file)?;
            sources.push((file.strip_prefix(&root).unwrap_or(&file).display().to_string(), text));
        }
        let uses = package
            .dependencies
            .into_iter()
            .map(|dependency| Use {
                name: dependency.name,
                ours: dependency.path.is_some(),
                dev: dependency.kind.as_deref() == Some("dev"),
            })
            .collect();
        all.push(Facts { name: package.name, manifest, uses, sources });
    }
    Ok(all)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let cannot = |error| cannot_read(directory, &error);
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot read {}: {error}", path.display()), "check that it is a readable UTF-8 file")
}

fn judge(all: &[Facts]) -> Vec<Breach> {
    let places: BTreeMap<&str, &Place> = PLACES.iter().map(|place| (place.name, place)).collect();
    let mut breaches = Vec::new();
    for facts in all {
        let mut breach = |what: String, instead: &str| {
            breaches.push(Breach { krate: facts.name.clone(), what, instead: instead.to_owned() });
        };
        if !inherits_lints(&facts.manifest) {
            breach(
                "does not inherit the lints of the workspace".to_owned(),
                "add `[lints]` with `workspace = true` to its Cargo.toml",
            );
        }
        if let Some(place) = places.get(facts.name.as_str()) {
            for used in &facts.uses {
                if let Some((what, instead)) = wrong_use(place, used, &places) {
                    breach(what, instead);
                }
            }
        } else {
            breach(
                "has no place in the architecture".to_owned(),
                "give it a layer and its allowed arrows in PLACES of xtask/src/deps.rs",
            );
        }
        for (path, text) in &facts.sources {
            if !UNSAFE.contains(&facts.name.as_str()) && lifts_unsafe(text) {
                breach(
                    format!("{path} lifts the ban on unsafe code"),
                    "find a safe API, or put the call into crates/process with the reason why it is sound",
                );
            }
            if !READS_ENVIRONMENT.contains(&facts.name.as_str())
                && path.contains("/src/")
                && let Some(call) = reads_environment(text)
            {
                breach(
                    format!("{path} calls `{call}`"),
                    "take the value as an argument; only binaries read the environment",
                );
            }
        }
    }
    for place in PLACES {
        if !all.iter().any(|facts| facts.name == place.name) {
            breaches.push(Breach {
                krate: place.name.to_owned(),
                what: "has a place in the architecture and does not exist".to_owned(),
                instead: "remove its line from PLACES in xtask/src/deps.rs".to_owned(),
            });
        }
    }
    breaches.sort();
    breaches
}

/// What is wrong with one dependency, and what to do about it.
fn wrong_use(place: &Place, used: &Use, places: &BTreeMap<&str, &Place>) -> Option<(String, &'static str)> {
    if used.ours {
        return wrong_arrow(place, used, places);
    }
    let name = used.name.as_str();
    if name == "tokio" && NO_TOKIO.contains(&place.name) {
        return Some(("uses tokio".to_owned(), "keep it synchronous; waiting is the business of the engine"));
    }
    // Tests may look from outside with whatever serves; what ships may not.
    if used.dev {
        return None;
    }
    if place.layer == Layer::Pure && !PURE.contains(&name) {
        return Some((
            format!("uses {name}, and is of the pure layer"),
            "move what needs it to a port; if it is nothing but functions of data, add it to PURE",
        ));
    }
    let (_, homes) = HOMES.iter().find(|(foreign, _)| foreign.contains(&name))?;
    if homes.contains(&place.name) {
        return None;
    }
    Some((
        format!("uses {name}, whose home is {}", homes.join(" or ")),
        "go through that crate; one heavy dependency, one crate",
    ))
}

fn wrong_arrow(place: &Place, used: &Use, places: &BTreeMap<&str, &Place>) -> Option<(String, &'static str)> {
    let name = used.name.as_str();
    if used.dev {
        let target = places.get(name)?;
        let fine = name == TESTKIT || target.layer <= place.layer;
        return (!fine).then(|| {
            (format!("has an upward development dependency on {name}"), "move the test to the higher crate")
        });
    }
    if name == TESTKIT {
        return Some((format!("ships {name}"), "move it to [dev-dependencies]"));
    }
    (!place.knows.contains(&name)).then(|| {
        (
            format!("depends on {name}, an arrow the architecture does not have"),
            "turn the dependency around through a trait of the lower crate, or wire both in the cli",
        )
    })
}

/// Whether a manifest takes the workspace's lints.
fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            section = line;
        }
        let compact: String = line.chars().filter(|letter| !letter.is_whitespace()).collect();
        (section == "[lints]" && compact == "workspace=true")
            || (section.is_empty() && compact == "lints.workspace=true")
    })
}

/// Whether a source file allows or expects unsafe code.
fn lifts_unsafe(text: &str) -> bool {
    text.lines().filter(|line| !is_comment(line)).any(|line| line.contains(UNSAFE_LINT))
}

/// The first look at the environment outside the tests of a file, which stand at its end.
fn reads_environment(text: &str) -> Option<&'static str> {
    let shipped = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    shipped
        .filter(|line| !is_comment(line))
        .find_map(|line| ENVIRONMENT.iter().copied().find(|call| line.contains(call)))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n";

    /// A workspace in which every crate exists and nothing is wrong.
    fn sound() -> Vec<Facts> {
        PLACES
            .iter()
            .map(|place| Facts {
                name: place.name.to_owned(),
                manifest: MANIFEST.to_owned(),
                uses: place.knows.iter().filter(|name| **name != TESTKIT).map(|name| ours(name)).collect(),
                sources: vec![(format!("crates/{}/src/lib.rs", place.name), "fn fine() {}\n".to_owned())],
            })
            .collect()
    }

    fn ours(name: &str) -> Use {
        Use { name: name.to_owned(), ours: true, dev: false }
    }

    fn foreign(name: &str) -> Use {
        Use { name: name.to_owned(), ours: false, dev: false }
    }

    fn dev(mut used: Use) -> Use {
        used.dev = true;
        used
    }

    /// What the judge says after `name` was changed.
    fn after(name: &str, change: impl FnOnce(&mut Facts)) -> Vec<String> {
        let mut all = sound();
        change(all.iter_mut().find(|facts| facts.name == name).unwrap());
        judge(&all).into_iter().map(|breach| format!("{}: {}", breach.krate, breach.what)).collect()
    }

    #[test]
    fn the_tables_agree_with_themselves() {
        assert_eq!(judge(&sound()), []);
        let layer = |name: &str| PLACES.iter().find(|place| place.name == name).map(|place| place.layer);
        for place in PLACES {
            for known in place.knows {
                assert!(layer(known).is_some_and(|below| below <= place.layer), "{} -> {known}", place.name);
                assert_ne!(*known, place.name);
            }
        }
        for name in HOMES.iter().flat_map(|(_, homes)| *homes).chain(NO_TOKIO).chain(UNSAFE) {
            assert!(layer(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_wrong_arrow_is_caught() {
        assert_eq!(
            after("subagent-api", |api| api.uses.push(ours("subagent-store"))),
            ["subagent-api: depends on subagent-store, an arrow the architecture does not have"],
        );
        assert_eq!(
            after("subagent-runtime", |runtime| runtime.uses.push(ours("subagent-store-sqlite"))),
            ["subagent-runtime: depends on subagent-store-sqlite, an arrow the architecture does not have"],
        );
    }

    #[test]
    fn tests_may_look_down_but_not_up() {
        assert!(after("subagent-runtime", |it| it.uses.push(dev(ours("subagent-store-sqlite")))).is_empty());
        assert!(after("subagent-core", |it| it.uses.push(dev(ours(TESTKIT)))).is_empty());
        assert_eq!(
            after("subagent-core", |it| it.uses.push(dev(ours("subagent-runtime")))),
            ["subagent-core: has an upward development dependency on subagent-runtime"],
        );
        assert_eq!(
            after("subagent-cli", |it| it.uses.push(ours(TESTKIT))),
            ["subagent-cli: ships subagent-testkit"],
        );
    }

    #[test]
    fn heavy_dependencies_stay_at_home() {
        assert_eq!(
            after("subagent-runtime", |it| it.uses.push(foreign("rusqlite"))),
            ["subagent-runtime: uses rusqlite, whose home is subagent-store-sqlite"],
        );
        assert!(after("subagent-runtime", |it| it.uses.push(dev(foreign("rusqlite")))).is_empty());
        assert_eq!(
            after("subagent-core", |it| it.uses.push(foreign("rustix"))),
            ["subagent-core: uses rustix, and is of the pure layer"],
        );
    }

    #[test]
    fn tokio_stays_out_of_the_shim_even_in_tests() {
        assert_eq!(
            after("subagent-shim", |it| it.uses.push(dev(foreign("tokio")))),
            ["subagent-shim: uses tokio"],
        );
    }

    #[test]
    fn lifting_the_ban_needs_the_right_crate() {
        let lift = |facts: &mut Facts| {
            facts.sources[0].1 = format!("//! Says {UNSAFE_LINT}.\n#![allow({UNSAFE_LINT})]\n");
        };
        assert_eq!(
            after("subagent-store", lift),
            ["subagent-store: crates/subagent-store/src/lib.rs lifts the ban on unsafe code"],
        );
        assert!(after("subagent-process", lift).is_empty());
    }

    #[test]
    fn libraries_are_told_and_do_not_look() {
        let look = |facts: &mut Facts| {
            facts.sources[0].1 = format!("let x = std::{}_os(\"HOME\");\n", ENVIRONMENT[0]);
        };
        assert_eq!(
            after("subagent-runtime", look),
            ["subagent-runtime: crates/subagent-runtime/src/lib.rs calls `env::var`"],
        );
        assert!(after("subagent-cli", look).is_empty());
        let in_tests = |facts: &mut Facts| {
            facts.sources[0].1 =
                format!("fn fine() {{}}\n#[cfg(test)]\nmod tests {{ {} }}\n", ENVIRONMENT[0]);
        };
        assert!(after("subagent-runtime", in_tests).is_empty());
    }

    #[test]
    fn lints_are_inherited_and_crates_have_a_place() {
        assert_eq!(
            after("subagent-model", |it| it.manifest = "[lints.rust]\nworkspace = true\n".to_owned()),
            ["subagent-model: does not inherit the lints of the workspace"],
        );
        assert!(inherits_lints("lints.workspace = true\n[package]\n"));
        let mut all = sound();
        all.retain(|facts| facts.name != "subagent-api");
        all.push(Facts {
            name: "subagent-web".to_owned(),
            manifest: MANIFEST.to_owned(),
            uses: Vec::new(),
            sources: Vec::new(),
        });
        let named: Vec<_> = judge(&all).into_iter().map(|breach| breach.krate).collect();
        assert_eq!(named, ["subagent-api", "subagent-web"]);
    }
}
