//! Names that usually hold credentials, and names through which a file becomes a program or a right. A list by name can
//! only know what is usual: it keeps accidents and simple tricks away, and is no sandbox.

use std::path::{Component, Path};

/// Directories whose whole content is kept from the tools.
const DIRECTORIES: &[&str] = &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"];
/// Directories beneath `.config`.
const CONFIG: &[&str] = &["gh", "gcloud", "op"];
/// Files.
const FILES: &[&str] = &[
    ".env",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];
/// Endings of `.env.*` that stand for examples.
const EXAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Why a path is kept from the tools, if it is. Case is not looked at: some file systems do not either.
pub(super) fn reason(path: &Path, revealed: &[String]) -> Option<&'static str> {
    let names: Vec<String> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let shown = |name: &str| revealed.iter().any(|revealed| revealed.eq_ignore_ascii_case(name));
    for (index, name) in names.iter().enumerate() {
        if shown(name) {
            continue;
        }
        let above = index.checked_sub(1).map_or("", |above| names[above].as_str());
        if DIRECTORIES.contains(&name.as_str()) || (above == ".config" && CONFIG.contains(&name.as_str())) {
            return Some("such directories hold credentials");
        }
        let last = index + 1 == names.len();
        let environment = name
            .strip_prefix(".env.")
            .is_some_and(|ending| !EXAMPLES.iter().any(|example| ending.ends_with(example)));
        let docker = name == "config.json" && above == ".docker";
        if last && (FILES.contains(&name.as_str()) || environment || docker) {
            return Some("such files hold credentials");
        }
    }
    None
}

/// Why a path beneath a root is not changed by file tools, if it is not: writing there would be another right than to
/// edit files.
pub(super) fn guarded(rel: &Path) -> Option<&'static str> {
    rel.components().find_map(|part| match part {
        Component::Normal(name) if name.eq_ignore_ascii_case(".git") => {
            Some("what git keeps there can run programs; use git")
        }
        Component::Normal(name) if name.eq_ignore_ascii_case(".subagent") => {
            Some("settings and types of subagents give rights; ask the person you work for")
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_by_name() {
        let none: [String; 0] = [];
        for path in [
            "/w/.env",
            "/w/deep/.ENV.local",
            "/home/u/.ssh/config",
            "/home/u/.ssh",
            "/home/u/.config/gh/hosts.yml",
            "/w/.docker/config.json",
            "/w/id_ed25519",
        ] {
            assert!(reason(Path::new(path), &none).is_some(), "{path}");
        }
        for path in
            ["/w/.env.example", "/w/env.rs", "/w/.config/nvim/init.lua", "/w/config.json", "/w/id_rsa.pub"]
        {
            assert!(reason(Path::new(path), &none).is_none(), "{path}");
        }
        assert!(reason(Path::new("/w/.env"), &[String::from(".env")]).is_none());
    }

    #[test]
    fn files_that_give_rights_are_not_changed() {
        assert!(guarded(Path::new(".git/hooks/pre-commit")).is_some());
        assert!(guarded(Path::new("sub/.GIT/config")).is_some());
        assert!(guarded(Path::new(".subagent/agents/x.md")).is_some());
        assert!(guarded(Path::new(".gitignore")).is_none() && guarded(Path::new(".github/ci.yml")).is_none());
    }
}
