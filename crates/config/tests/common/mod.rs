//! A world on disk for the loader: a home, a configuration directory and a project, each written by the test.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use subagent_config::{AgentDefinition, Catalog, Diagnostic, Homes, Places, Project};

/// Directories that are removed at the end of the test.
pub struct World {
    _directory: tempfile::TempDir,
    pub root: Utf8PathBuf,
    pub places: Places,
}

impl World {
    /// An empty home beside an empty project, which is not trusted.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(directory.path().canonicalize().unwrap()).unwrap();
        for path in ["home", "config", "project/.git", "project/deep/er"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let places = Places {
            user: Homes::below(&root.join("home"), &root.join("config")),
            project: Some(Project::around(&root.join("project/deep/er"))),
            ..Places::default()
        };
        Self { _directory: directory, root, places }
    }

    /// The same, trusted.
    pub fn trusted() -> Self {
        let mut world = Self::new();
        world.places.trusted = vec![world.root.join("project")];
        world
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> Utf8PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a definition of ours into the project.
    pub fn own(&self, name: &str, header: &str) -> Utf8PathBuf {
        self.write(&format!("project/.subagent/agents/{name}.md"), own(header))
    }

    pub fn load(&self) -> Catalog {
        Catalog::load(&self.places)
    }

    /// Remarks about the files of this world, with paths that are the same every time.
    pub fn told(&self, catalog: &Catalog) -> Vec<String> {
        let told = catalog.diagnostics().iter().map(ToString::to_string);
        told.map(|remark| remark.replace(&format!("{}/", self.root), "")).collect()
    }
}

/// The text of a definition of ours.
pub fn own(header: &str) -> String {
    format!("---\ndescription: Does something.\n{header}\n---\nDo it.\n")
}

/// The directory of the fixtures.
pub fn fixtures() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The project of the fixtures.
pub fn fixture_places(trusted: bool) -> Places {
    let root = fixtures().join("project");
    Places {
        trusted: if trusted { vec![root.clone()] } else { Vec::new() },
        project: Some(Project { start: root.clone(), root }),
        ..Places::default()
    }
}

/// The only definition of this name.
pub fn one(catalog: &Catalog, name: &str) -> Arc<AgentDefinition> {
    match catalog.get(name) {
        Ok(definition) => Arc::clone(definition),
        Err(error) => panic!("{error}\n{:#?}", catalog.diagnostics()),
    }
}

/// Remarks about files whose path ends so.
pub fn about<'a>(catalog: &'a Catalog, ending: &str) -> Vec<&'a Diagnostic> {
    catalog.diagnostics().iter().filter(|remark| remark.path.as_str().ends_with(ending)).collect()
}

/// Words as owned texts.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
