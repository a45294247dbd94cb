//! Building what is handed out: the `subagent` program and the static shim beside it.

use std::fs;
use std::path::Path;

use crate::metadata;
use crate::problem::{Problem, Result};
use crate::steps;

const SHIM: &str = "subagent-shim";

/// Where the programs lie side by side, below the target directory: no other build puts anything there.
pub(crate) const PLACE: &str = "dist";

/// Builds the program and its shim, as they are handed out.
pub(crate) fn build() -> Result<()> {
    let mut command = steps::cargo(&metadata::root());
    command.args(["build", "--profile", "dist", "--package", "subagent-cli", "--bin", "subagent"]);
    steps::run(&mut command, "fix what the compiler reports above")?;
    shim("shim")
}

/// Builds the shim with `profile` and puts it beside the program.
pub(crate) fn shim(profile: &str) -> Result<()> {
    // A static shim needs no loader and no libc of the moment: it keeps running through an upgrade of the
    // machine, and maps as few pages as possible.
    let linked_statically = cfg!(all(target_os = "linux", target_env = "gnu"));
    let mut command = steps::cargo(&metadata::root());
    command.arg(if linked_statically { "rustc" } else { "build" });
    command.args(["--profile", profile, "--package", SHIM, "--bin", SHIM]);
    if linked_statically {
        command.args(["--", "-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    }
    steps::run(&mut command, "fix what is reported above; a linker that misses libc.a wants `libc6-dev`")?;

    let target = metadata::workspace()?.target_directory;
    let built = target.join(directory(profile)).join(SHIM);
    let dist = target.join(PLACE);
    let place = dist.join(SHIM);
    if built != place {
        fs::create_dir_all(&dist).map_err(|error| cannot_copy(&place, &error))?;
        // Through a rename: a shim that runs from the old file keeps it, and nobody sees half a file.
        let fresh = dist.join(format!(".{SHIM}.new"));
        fs::copy(&built, &fresh)
            .and_then(|_| fs::rename(&fresh, &place))
            .map_err(|error| cannot_copy(&place, &error))?;
    }
    let image = fs::read(&place).map_err(|error| cannot_copy(&place, &error))?;
    if linked_statically && wants_loader(&image) {
        return Err(Problem::new(
            "the shim was linked dynamically",
            "see which dependency forces it: `cargo tree -p subagent-shim`",
        ));
    }
    eprintln!("    {SHIM}: {} KiB", image.len() / 1024);
    Ok(())
}

fn cannot_copy(place: &Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot put the shim at {}: {error}", place.display()), "check the target directory")
}

/// Where cargo puts what a profile builds.
fn directory(profile: &str) -> &str {
    match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    }
}

/// Whether a 64-bit ELF image names a program interpreter, which a static one does not.
fn wants_loader(image: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, length: usize| -> Option<u64> {
        let bytes = image.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    };
    let header = |index: u64| -> Option<u32> {
        let at = number(32, 8)? + index * number(54, 2)?;
        u32::try_from(number(usize::try_from(at).ok()?, 4)?).ok()
    };
    let count = number(56, 2).unwrap_or(0);
    (0..count).any(|index| header(index) == Some(PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with two program headers of the given kinds.
    fn image(kinds: [u32; 2]) -> Vec<u8> {
        let mut image = vec![0; 64];
        image[32] = 64;
        image[54] = 56;
        image[56] = 2;
        for kind in kinds {
            let mut header = vec![0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            image.extend(header);
        }
        image
    }

    #[test]
    fn an_interpreter_gives_a_dynamic_binary_away() {
        assert!(wants_loader(&image([1, 3])));
        assert!(!wants_loader(&image([1, 1])));
        assert!(!wants_loader(b"no image at all"));
    }

    #[test]
    fn profiles_have_their_directories() {
        assert_eq!(directory("dev"), "debug");
        assert_eq!(directory("shim"), "shim");
    }
}
