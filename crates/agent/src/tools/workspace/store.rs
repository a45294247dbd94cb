//! Putting a whole new content at a place: written beside it, flushed, and moved there, so that a reader sees the old
//! or the new one and a crash leaves one of them.

use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use super::{Opened, Place, Refused, Stamp, Workspace};

impl Workspace {
    /// Puts `content` there. `old` is the file that it takes the place of; where that one is not the same any more,
    /// nothing is done.
    pub(in super::super) fn put(
        &self,
        place: &Place,
        content: &[u8],
        old: Option<&Opened>,
    ) -> Result<(), Refused> {
        let Some(name) = place.rel.file_name() else {
            return Err(Refused::NotFile { path: place.shown.clone(), what: "a directory" });
        };
        let parent = self.parent(place)?;
        let draft = format!(".subagent-{}.tmp", uuid::Uuid::now_v7().simple());
        let failed = |source: io::Error| {
            let _ = parent.remove_file(&draft);
            self.refusal(place, "write", source)
        };
        let mut options = OpenOptions::new();
        // The rights of a new file are the usual ones, those of an old one are set before anything stands in it.
        options.write(true).create_new(true).mode(if old.is_some() { 0o600 } else { 0o666 });
        let file = parent.open_with(&draft, &options).map_err(failed)?;
        let mut file = file.into_std();
        if let Some(old) = old {
            like(&file, &old.metadata).map_err(failed)?;
        }
        file.write_all(content).and_then(|()| file.sync_all()).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let now = match parent.symlink_metadata(name) {
            Ok(now) => Some(Stamp::of_inside(&now)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let same = match (old, now) {
            (None, None) => true,
            (Some(old), Some(now)) => !old.stamp.differs(&now),
            _ => false,
        };
        if !same {
            let _ = parent.remove_file(&draft);
            return Err(Refused::Other(format!(
                "{} was changed by something else at this very moment; nothing was written. Read it again",
                place.shown
            )));
        }
        parent.rename(&draft, &parent, name).map_err(failed)?;
        // The name is durable once its directory is. A file system that cannot do that is no reason to fail.
        let _ = parent.open(".").and_then(|dir| dir.sync_all());
        self.saw(place, Stamp::of(&metadata));
        Ok(())
    }

    /// Whether what lies there is something else than what the model has last seen of it: `None` when it has not.
    pub(in super::super) fn changed_since_seen(&self, place: &Place, now: &Stamp) -> Option<bool> {
        self.seen.of(&place.absolute).map(|seen| seen.differs(now))
    }

    /// The directory of a place, which is made when there is none.
    fn parent(&self, place: &Place) -> Result<Dir, Refused> {
        let dir = &self.root(place).dir;
        let parent = match place.rel.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !place.exists && parent != Path::new(".") {
            dir.create_dir_all(parent)
                .map_err(|error| self.refusal(place, "make the directory of", error))?;
        }
        dir.open_dir(parent).map_err(|error| self.refusal(place, "open the directory of", error))
    }
}

/// Gives a new file the rights and, where possible, the owners of the old one.
fn like(file: &std::fs::File, old: &std::fs::Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
        let owner = rustix::fs::Uid::from_raw(old.uid());
        let group = rustix::fs::Gid::from_raw(old.gid());
        // Only some users may give files away.
        let _ = rustix::fs::fchown(file, Some(owner), Some(group));
    }
    file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))
}
