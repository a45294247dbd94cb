//! Walking through a directory for `find` and `grep`: ignore files are respected, links are not followed, and what a
//! session may not see is not met. Walks go by path; each thing that is found is looked at again from within its root.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::context::Context;
use super::workspace::{Place, Refused, Want};

/// The longest walk. What was found by then is told.
const LONGEST: Duration = Duration::from_secs(30);

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All was seen.
    All,
    /// The caller had enough.
    Enough,
    /// It took too long.
    Late,
}

/// Something that was met.
pub(super) struct Met {
    pub(super) place: Place,
    pub(super) directory: bool,
}

/// Goes through all below `base`, in the order of names.
pub(super) fn walk(
    cx: &Context,
    base: &Place,
    mut each: impl FnMut(&Met) -> Result<ControlFlow<()>, Refused>,
) -> Result<Ended, Refused> {
    let root = cx.workspace.root_of(base).to_owned();
    let workspace = Arc::clone(&cx.workspace);
    let (within, beside) = (root.clone(), base.clone());
    let until = Instant::now() + LONGEST;
    let walk = WalkBuilder::new(&base.absolute)
        .hidden(false)
        .require_git(false)
        // A person's own list is no part of the project.
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(move |entry| {
            let Ok(rel) = entry.path().strip_prefix(&within) else { return false };
            let git = entry.file_name() == ".git" && entry.depth() > 0;
            // Below a directory that is kept from the tools nothing is looked for.
            !git && workspace.below(&workspace.place(&beside, rel.to_owned()), Want::Look).is_ok()
        })
        .build();
    for entry in walk {
        if cx.cancel.is_cancelled() {
            return Err(Refused::Cancelled);
        }
        if Instant::now() > until {
            return Ok(Ended::Late);
        }
        // What cannot be entered is passed over, as every tool of this kind does.
        let Ok(entry) = entry else { continue };
        if entry.depth() == 0 {
            continue;
        }
        let Ok(rel) = entry.path().strip_prefix(&root) else { continue };
        let place = cx.workspace.place(base, rel.to_owned());
        let directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        if each(&Met { place, directory })?.is_break() {
            return Ok(Ended::Enough);
        }
    }
    Ok(Ended::All)
}

/// Names that are looked for: without `/` in the last part of a path, else in the whole path below `base`.
pub(super) struct Names {
    matcher: GlobMatcher,
    whole: bool,
}

impl Names {
    pub(super) fn new(pattern: &str, base: &Place) -> Result<Self, Refused> {
        // Some models write the whole path.
        let below =
            pattern.strip_prefix(&*base.absolute.to_string_lossy()).and_then(|rest| rest.strip_prefix('/'));
        let pattern = below.unwrap_or(pattern).trim_start_matches("./");
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                Refused::Other(format!("the pattern {pattern:?} is not right: {}", error.kind()))
            })?
            .compile_matcher();
        Ok(Self { matcher, whole: pattern.contains('/') })
    }

    pub(super) fn fit(&self, place: &Place, base: &Place) -> bool {
        let below = place.absolute.strip_prefix(&base.absolute).unwrap_or(&place.rel);
        if self.whole {
            self.matcher.is_match(below)
        } else {
            self.matcher.is_match(below.file_name().map_or(below, Path::new))
        }
    }
}

/// What is said of a walk that took too long.
pub(super) fn late() -> String {
    format!("not all was looked at within {} s; look in a smaller directory", LONGEST.as_secs())
}
