//! The promised compiler version, checked statically: a single toolchain is at hand, so a real build with the
//! oldest one is not possible. Dependencies state what they need; our own use of the standard library is
//! held by clippy's `incompatible_msrv`.

use crate::metadata::{self, Package};
use crate::problem::{Problem, Result};

type Version = (u32, u32, u32);

/// Fails when a dependency needs a newer compiler than the workspace promises.
pub(crate) fn run() -> Result<()> {
    let packages = metadata::everything()?.packages;
    let promised = promised(&packages)?;
    let newer = newer(&packages, promised);
    if newer.is_empty() {
        let highest = packages.iter().filter(|package| package.source.is_some()).filter_map(needs).max();
        eprintln!("    promised {}, dependencies need {}", show(promised), show(highest.unwrap_or(promised)));
        return Ok(());
    }
    Err(Problem::new(
        format!("dependencies need a newer compiler than {}: {}", show(promised), newer.join(", ")),
        "choose an older version of them, or raise `rust-version` in Cargo.toml and say so in CHANGELOG.md",
    ))
}

/// The version our own crates promise; they inherit one number, so any of them will do.
fn promised(packages: &[Package]) -> Result<Version> {
    packages
        .iter()
        .filter(|package| package.source.is_none())
        .find_map(needs)
        .ok_or_else(|| Problem::new("no crate states a `rust-version`", "set it under [workspace.package]"))
}

fn newer(packages: &[Package], promised: Version) -> Vec<String> {
    let foreign = packages.iter().filter(|package| package.source.is_some());
    foreign
        .filter_map(|package| Some((package, needs(package)?)))
        .filter(|(_, needed)| *needed > promised)
        .map(|(package, needed)| format!("{} {} ({})", package.name, package.version, show(needed)))
        .collect()
}

fn needs(package: &Package) -> Option<Version> {
    parse(package.rust_version.as_deref()?)
}

fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(str::parse);
    let major = numbers.next()?.ok()?;
    let minor = numbers.next().unwrap_or(Ok(0)).ok()?;
    let patch = numbers.next().unwrap_or(Ok(0)).ok()?;
    Some((major, minor, patch))
}

fn show((major, minor, patch): Version) -> String {
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, rust_version: Option<&str>, foreign: bool) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            source: foreign.then(|| "registry".to_owned()),
            rust_version: rust_version.map(str::to_owned),
            manifest_path: "Cargo.toml".into(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(parse("1.92"), Some((1, 92, 0)));
        assert_eq!(parse("1.9.3"), Some((1, 9, 3)));
        assert!(parse("1.100") > parse("1.92"));
        assert_eq!(parse("nightly"), None);
    }

    #[test]
    fn a_dependency_that_is_too_new_is_named() {
        let packages = [
            package("ours", Some("1.92"), false),
            package("fine", Some("1.92.0"), true),
            package("silent", None, true),
            package("eager", Some("1.93"), true),
        ];
        let promised = promised(&packages).unwrap();
        assert_eq!(newer(&packages, promised), ["eager 1.0.0 (1.93)"]);
    }
}
