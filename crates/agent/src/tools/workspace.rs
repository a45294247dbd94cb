//! The directories that file tools may touch. Each is opened once, and everything is opened beneath it, so that neither
//! `..`, an absolute path, a symbolic link nor a directory that is swapped in the middle leads out. What a session may
//! not read or change although it lies inside is refused here as well.
//!
//! Commands are not held by this: a shell goes where its user may go.

mod credentials;
mod open;
mod refused;
mod seen;
mod store;

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::rules::PathPattern;
use super::text;
use super::toolbox::OpenError;
pub(super) use open::Opened;
pub(super) use refused::Refused;
use seen::Seen;
pub(super) use seen::Stamp;

/// What a tool means to do at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Look at it.
    Look,
    /// Change or make it.
    Change,
}

/// What is kept from file tools although it lies in a directory of the session.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// Absolute paths, with all below them.
    pub(super) hidden: Vec<PathBuf>,
    /// Names that look like credentials and may be read.
    pub(super) revealed: Vec<String>,
    /// By the lists of the session.
    pub(super) denied: Vec<PathPattern>,
}

/// The directories of a session.
#[derive(Debug)]
pub(super) struct Workspace {
    roots: Vec<Root>,
    policy: Policy,
    seen: Seen,
}

/// One directory, held open.
#[derive(Debug)]
struct Root {
    /// As it was given.
    given: PathBuf,
    /// Without symbolic links, as it was when it was opened.
    real: PathBuf,
    dir: Dir,
    writable: bool,
}

/// A file or directory beneath a root, without symbolic links.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: usize,
    /// Beneath the root; `.` for the root itself.
    pub(super) rel: PathBuf,
    /// The same for people: relative to the working directory where it lies there.
    pub(super) shown: String,
    /// The same from `/`.
    pub(super) absolute: PathBuf,
    /// Whether there was something.
    pub(super) exists: bool,
}

impl Workspace {
    pub(super) fn open(roots: &[PathBuf], read_only: &[PathBuf], policy: Policy) -> Result<Self, OpenError> {
        if roots.is_empty() {
            return Err(OpenError::NoRoot);
        }
        let mut open = Vec::new();
        for path in roots {
            let root =
                Root::open(path, true).map_err(|source| OpenError::Root { path: path.clone(), source })?;
            open.push(root);
        }
        for path in read_only {
            // The directory of long outputs is made when there is none.
            let root = private(path)
                .and_then(|()| Root::open(path, false))
                .map_err(|source| OpenError::Root { path: path.clone(), source })?;
            open.push(root);
        }
        let hidden =
            policy.hidden.into_iter().map(|path| std::fs::canonicalize(&path).unwrap_or(path)).collect();
        Ok(Self { roots: open, policy: Policy { hidden, ..policy }, seen: Seen::default() })
    }

    /// Where relative paths begin.
    pub(super) fn directory(&self) -> &Path {
        &self.roots[0].real
    }

    /// Where a path of the model leads, if it may be gone there.
    pub(super) fn locate(&self, given: &str, want: Want) -> Result<Place, Refused> {
        if given.is_empty() {
            return Err(Refused::Path { path: given.to_owned(), why: "it is empty" });
        }
        if given.contains('\0') {
            return Err(Refused::Path { path: text::one_line(given, 200), why: "it has a null character" });
        }
        let place = self.lead(given)?;
        self.permit(&place, want)?;
        Ok(place)
    }

    /// The place of something that was found beneath another one, if it may be gone there.
    pub(super) fn below(&self, place: &Place, want: Want) -> Result<(), Refused> {
        self.permit(place, want)
    }

    /// A place with this path beneath the root of `base`.
    pub(super) fn place(&self, base: &Place, rel: PathBuf) -> Place {
        self.made(base.root, rel, true)
    }

    /// Path of the root of a place, for a walk.
    pub(super) fn root_of(&self, place: &Place) -> &Path {
        &self.roots[place.root].real
    }

    fn lead(&self, given: &str) -> Result<Place, Refused> {
        let path = Path::new(given);
        let shown = || text::name(path.as_os_str()).into_owned();
        let outside = || Refused::Outside { path: shown(), roots: self.names() };
        let (root, rel) =
            if path.is_absolute() { self.beneath(path).ok_or_else(outside)? } else { (0, path.to_owned()) };
        match self.canonical(root, &rel) {
            Ok((root, rel)) => return Ok(self.made(root, rel, true)),
            Err(error) if escapes(&error) => return Err(outside()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Refused::Io { path: shown(), what: "look at", source }),
        }
        // Nothing there: the nearest directory that exists, and plain names below it.
        let mut rest: Vec<OsString> = Vec::new();
        let mut above = rel.clone();
        loop {
            match above.components().next_back() {
                Some(Component::Normal(name)) => rest.push(name.to_owned()),
                Some(Component::CurDir) => {}
                _ => return Err(Refused::Missing { path: shown(), near: Vec::new() }),
            }
            above.pop();
            let parent = if above.as_os_str().is_empty() { Path::new(".") } else { &above };
            match self.canonical(root, parent) {
                Ok((root, mut found)) => {
                    let dangling = rest
                        .last()
                        .is_some_and(|name| self.roots[root].dir.symlink_metadata(found.join(name)).is_ok());
                    if dangling {
                        return Err(Refused::Path {
                            path: shown(),
                            why: "a symbolic link on it leads to nothing",
                        });
                    }
                    found.extend(rest.into_iter().rev());
                    return Ok(self.made(root, found, false));
                }
                Err(error) if escapes(&error) => return Err(outside()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Refused::Io { path: shown(), what: "look at", source }),
            }
        }
    }

    /// The path without symbolic links. What leads out of one root may lead into another.
    fn canonical(&self, root: usize, rel: &Path) -> io::Result<(usize, PathBuf)> {
        let error = match self.roots[root].dir.canonicalize(rel) {
            Ok(rel) => return Ok((root, rel)),
            Err(error) => error,
        };
        if !escapes(&error) {
            return Err(error);
        }
        // Absolute links back into the workspace. This looks with the rights of the process, so what it finds is only
        // a hint: it is looked at again from within.
        let Ok(target) = std::fs::canonicalize(self.roots[root].real.join(rel)) else { return Err(error) };
        let Some((root, rel)) = self.beneath(&target) else { return Err(error) };
        let found = self.roots[root].dir.canonicalize(&rel)?;
        if found == rel { Ok((root, found)) } else { Err(error) }
    }

    /// The root in which an absolute path lies by its text, the innermost first.
    fn beneath(&self, path: &Path) -> Option<(usize, PathBuf)> {
        let mut found: Option<(usize, PathBuf, usize)> = None;
        for (index, root) in self.roots.iter().enumerate() {
            for base in [&root.real, &root.given] {
                if let Ok(rel) = path.strip_prefix(base) {
                    let rel = if rel.as_os_str().is_empty() { PathBuf::from(".") } else { rel.to_owned() };
                    let depth = base.components().count();
                    if found.as_ref().is_none_or(|(.., best)| depth > *best) {
                        found = Some((index, rel, depth));
                    }
                }
            }
        }
        found.map(|(index, rel, _)| (index, rel))
    }

    fn made(&self, root: usize, rel: PathBuf, exists: bool) -> Place {
        let base = &self.roots[root].real;
        let absolute = if rel == Path::new(".") { base.clone() } else { base.join(&rel) };
        let shown = match absolute.strip_prefix(&self.roots[0].real) {
            Ok(inside) if inside.as_os_str().is_empty() => String::from("."),
            Ok(inside) => text::name(inside.as_os_str()).into_owned(),
            Err(_) => text::name(absolute.as_os_str()).into_owned(),
        };
        Place { root, rel, shown, absolute, exists }
    }

    fn permit(&self, place: &Place, want: Want) -> Result<(), Refused> {
        let path = || place.shown.clone();
        // What was given as a directory of the session is not hidden by what lies around it.
        let root = &self.roots[place.root].real;
        let hides = |hidden: &PathBuf| place.absolute.starts_with(hidden) && !root.starts_with(hidden);
        if self.policy.hidden.iter().any(hides) {
            return Err(Refused::Hidden { path: path(), why: "it belongs to the agent itself" });
        }
        // From `/`: a root within `~/.ssh` is one all the same.
        if let Some(why) = credentials::reason(&place.absolute, &self.policy.revealed) {
            return Err(Refused::Hidden { path: path(), why });
        }
        if self.policy.denied.iter().any(|pattern| pattern.denies(&place.shown, &place.absolute)) {
            return Err(Refused::Rule { path: path() });
        }
        if want == Want::Change {
            if !self.roots[place.root].writable {
                return Err(Refused::ReadOnly { path: path() });
            }
            if let Some(why) = credentials::guarded(&place.rel) {
                return Err(Refused::Guarded { path: path(), why });
            }
        }
        Ok(())
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.roots.iter().map(|root| text::name(root.real.as_os_str())).collect();
        names.join(", ")
    }

    fn root(&self, place: &Place) -> &Root {
        &self.roots[place.root]
    }
}

impl Root {
    fn open(path: &Path, writable: bool) -> io::Result<Self> {
        if !path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not an absolute path"));
        }
        let real = std::fs::canonicalize(path)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(Self { given: path.to_owned(), real, dir, writable })
    }
}

/// Makes a directory that only its owner may enter, if there is none.
fn private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether a path led out: the system's own refusals carry a number, these do not.
fn escapes(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

#[cfg(test)]
mod tests;
