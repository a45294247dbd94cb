//! Keys of endpoints: where one is, and getting it. A key is never shown, and never written anywhere.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use secrecy::{ExposeSecret, SecretString};

/// Most bytes of a key.
const MOST_BYTES: u64 = 16 * 1024;

/// Where a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFrom {
    /// In this variable.
    Environment(String),
    /// In this file: its first line.
    File(PathBuf),
    /// In the keyring of the person, under this name. It is asked with the program of the system.
    Keyring(String),
}

/// A key that is not there.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The variable is not set.
    #[error("the variable {0} is not set: set it, or name a file with key_file")]
    NotSet(String),
    /// The file cannot be read.
    #[error("the key file {path} cannot be read: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Others can read the file.
    #[error("the key file {0} can be read by others: `chmod 600` it")]
    Open(PathBuf),
    /// The keyring has none.
    #[error("the keyring has no key {name:?}: {why}")]
    Keyring {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
    /// It has nothing in it, or something that is no key.
    #[error("the key from {0} is empty, or has characters that no key has")]
    NoKey(String),
}

impl KeyFrom {
    /// Where it is, in words.
    pub fn place(&self) -> String {
        match self {
            Self::Environment(name) => format!("the variable {name}"),
            Self::File(path) => format!("the file {}", path.display()),
            Self::Keyring(name) => format!("the keyring, as {name:?}"),
        }
    }

    /// Gets it. May block.
    pub fn get(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<SecretString, KeyError> {
        let text = match self {
            Self::Environment(name) => {
                SecretString::from(env(name).ok_or_else(|| KeyError::NotSet(name.clone()))?)
            }
            Self::File(path) => file(path)?,
            Self::Keyring(name) => keyring(name)?,
        };
        let key = text.expose_secret().lines().next().unwrap_or_default().trim();
        let fits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(SecretString::from(key.to_owned())) } else { Err(KeyError::NoKey(self.place())) }
    }
}

fn file(path: &PathBuf) -> Result<SecretString, KeyError> {
    use std::os::unix::fs::MetadataExt;
    let wrong = |error| KeyError::File { path: path.clone(), error };
    let file = std::fs::File::open(path).map_err(wrong)?;
    let about = file.metadata().map_err(wrong)?;
    if !about.is_file() {
        return Err(wrong(std::io::Error::other("it is no file")));
    }
    if about.mode() & 0o077 != 0 {
        return Err(KeyError::Open(path.clone()));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(wrong)?;
    Ok(SecretString::from(text))
}

/// The programs that each system has for it know the protocol of its keyring, and unlock it.
fn keyring(name: &str) -> Result<SecretString, KeyError> {
    let (program, args): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("security", &["find-generic-password", "-w", "-s", "subagent", "-a"])
    } else {
        ("secret-tool", &["lookup", "service", "subagent", "account"])
    };
    let wrong = |why: String| KeyError::Keyring { name: name.to_owned(), why };
    let output = Command::new(program).args(args).arg(name).stdin(Stdio::null()).output();
    let output = output.map_err(|error| wrong(format!("{program} cannot be run: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(wrong(format!("{program} said {:?} ({})", said.trim(), output.status)));
    }
    Ok(SecretString::from(String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::{KeyError, KeyFrom};

    #[test]
    fn a_key_is_the_first_line_and_is_never_shown() {
        let env = |_: &str| Some("sk-1\n".to_owned());
        let key = KeyFrom::Environment("K".into()).get(&env).unwrap();
        assert_eq!(key.expose_secret(), "sk-1");
        assert!(!format!("{key:?}").contains("sk-1"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "sk-2\nmore\n").unwrap();
        let from = KeyFrom::File(path.clone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(from.get(&env), Err(KeyError::Open(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(from.get(&env).unwrap().expose_secret(), "sk-2");
        std::fs::write(&path, "two words\n").unwrap();
        let error = from.get(&env).unwrap_err().to_string();
        assert!(error.contains("no key has") && !error.contains("two words"), "{error}");
        let not_set = KeyFrom::Environment("K".into()).get(&|_: &str| None).unwrap_err();
        assert!(not_set.to_string().contains("the variable K is not set"));
    }
}
