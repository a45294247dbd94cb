//! The journal of a session: a file of JSON lines, a header and then facts. Written before anything follows from a fact,
//! flushed to the disk where work or words rest on it. One process at a time has it. Knows nothing of what facts mean.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::fact::{Fact, Header, VERSION};

/// Most bytes of a line that is read: larger than any fact that is written.
const MOST_LINE: u64 = 64 << 20;

/// The open journal of one session.
#[derive(Debug)]
pub struct Journal {
    file: File,
    header: Header,
    /// A write failed, and it is not known how much of it is there.
    broken: bool,
}

/// A journal that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no such session.
    #[error("session {0:?} not found")]
    NotFound(String),
    /// Another process works on it.
    #[error("session {0} is at work in another process: a session has one at a time")]
    Busy(String),
    /// A newer version of the program has written it.
    #[error(
        "session {id} has version {version} of its format, and this program knows up to {VERSION}: use a newer one"
    )]
    TooNew {
        /// Which.
        id: String,
        /// Its version.
        version: u32,
    },
    /// A line that is no fact, and not the last.
    #[error("line {line} of the journal {path} is damaged: {why}")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The file system.
    #[error("the journal {path} cannot be {what}: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        error: std::io::Error,
    },
}

impl Journal {
    /// Begins one in this directory. The name of the session stands in the header.
    pub fn create(dir: &Path, header: Header) -> Result<Self, JournalError> {
        let path = path_of(dir, &header.id)?;
        let io = |what| move |error| JournalError::Io { path: dir.to_owned(), what, error };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io("made"))?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(io("made"))?;
        lock(&file, &header.id, &path)?;
        let mut journal = Self { file, header, broken: false };
        let line = line_of(&journal.header).map_err(io("written"))?;
        journal.write(&line, true).map_err(io("written"))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io("flushed"))?;
        Ok(journal)
    }

    /// Opens one, and gives its facts. A last line that is not whole was never acted on, and is taken away.
    pub fn open(dir: &Path, id: &str) -> Result<(Self, Vec<Fact>), JournalError> {
        let path = path_of(dir, id)?;
        let io =
            |what: &'static str, error: std::io::Error| JournalError::Io { path: path.clone(), what, error };
        let file = match OpenOptions::new().read(true).append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(JournalError::NotFound(id.to_owned()));
            }
            Err(error) => return Err(io("opened", error)),
        };
        lock(&file, id, &path)?;
        let (header, facts, whole) = read(&file, &path, id)?;
        let length = file.metadata().map_err(|error| io("read", error))?.len();
        if whole < length {
            file.set_len(whole).and_then(|()| file.sync_data()).map_err(|error| io("repaired", error))?;
        }
        Ok((Self { file, header, broken: false }, facts))
    }

    /// The facts of one that another process may have open: to begin another session with.
    pub fn peek(dir: &Path, id: &str) -> Result<(Header, Vec<Fact>), JournalError> {
        let path = path_of(dir, id)?;
        let file = File::open(&path).map_err(|_| JournalError::NotFound(id.to_owned()))?;
        let (header, facts, _) = read(&file, &path, id)?;
        Ok((header, facts))
    }

    /// The sessions of a directory, newest first.
    pub fn list(dir: &Path) -> Vec<Header> {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let header = |entry: std::fs::DirEntry| {
            let mut line = String::new();
            let file = File::open(entry.path()).ok()?;
            BufReader::new(file).take(MOST_LINE).read_line(&mut line).ok()?;
            serde_json::from_str::<Header>(&line).ok().filter(|header| header.format == Header::FORMAT)
        };
        let mut all: Vec<_> = files.filter_map(header).collect();
        all.sort_by(|one, two| two.at.cmp(&one.at).then_with(|| two.id.cmp(&one.id)));
        all
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Writes a fact down. Once that has failed nothing more is written: what is there would no longer be one story.
    pub fn append(&mut self, fact: &Fact) -> std::io::Result<()> {
        if self.broken {
            return Err(std::io::Error::other("an earlier line could not be written"));
        }
        let line = line_of(fact)?;
        let done = self.write(&line, fact.is_weighty());
        self.broken = done.is_err();
        done
    }

    fn write(&mut self, line: &[u8], flush: bool) -> std::io::Result<()> {
        self.file.write_all(line)?;
        if flush { self.file.sync_data() } else { Ok(()) }
    }
}

fn line_of(value: &impl serde::Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Where a session lies. Its name is one that was made here: nothing else leads to a file.
fn path_of(dir: &Path, id: &str) -> Result<PathBuf, JournalError> {
    let name = Uuid::parse_str(id).map_err(|_| JournalError::NotFound(id.chars().take(100).collect()))?;
    Ok(dir.join(format!("{name}.jsonl")))
}

fn lock(file: &File, id: &str, path: &Path) -> Result<(), JournalError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(JournalError::Busy(id.to_owned())),
        Err(TryLockError::Error(error)) => {
            Err(JournalError::Io { path: path.to_owned(), what: "locked", error })
        }
    }
}

/// Header, facts, and how many bytes of whole lines there are.
fn read(mut file: &File, path: &Path, id: &str) -> Result<(Header, Vec<Fact>, u64), JournalError> {
    let io = |error| JournalError::Io { path: path.to_owned(), what: "read", error };
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    let mut reader = BufReader::new(file);
    let (mut header, mut facts, mut whole) = (None, Vec::new(), 0_u64);
    for number in 1.. {
        let mut line = Vec::new();
        let read = (&mut reader).take(MOST_LINE).read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let damaged = |error: serde_json::Error| JournalError::Damaged {
            path: path.to_owned(),
            line: number,
            why: error.to_string(),
        };
        if header.is_none() {
            let found: Header = serde_json::from_slice(&line).map_err(damaged)?;
            if found.version > VERSION {
                return Err(JournalError::TooNew { id: id.to_owned(), version: found.version });
            }
            header = Some(found);
        } else {
            facts.push(serde_json::from_slice(&line).map_err(damaged)?);
        }
        whole = whole.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
    // Killed before its header was there: nobody was told of this session.
    let header = header.ok_or_else(|| JournalError::NotFound(id.to_owned()))?;
    Ok((header, facts, whole))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Journal, JournalError};
    use crate::fact::{Fact, Header, VERSION};

    const ID: &str = "01a22d21-9704-741f-afa1-3082d0029501";

    fn header() -> Header {
        Header {
            format: Header::FORMAT.to_owned(),
            version: VERSION,
            id: ID.to_owned(),
            cwd: String::from("/"),
            system: String::from("s"),
            at: 1,
        }
    }

    fn prompt(text: &str) -> Fact {
        Fact::Prompt { text: text.to_owned(), at: 1, run: None }
    }

    #[test]
    fn what_was_written_is_read_and_a_torn_line_is_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), header()).unwrap();
        journal.append(&prompt("one")).unwrap();
        drop(journal);
        let path = dir.path().join(format!("{ID}.jsonl"));
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(br#"{"kind":"prompt","text":"tw"#).unwrap();
        let (mut journal, facts) = Journal::open(dir.path(), ID).unwrap();
        assert_eq!(facts, [prompt("one")]);
        journal.append(&prompt("three")).unwrap();
        drop(journal);
        let (journal, facts) = Journal::open(dir.path(), ID).unwrap();
        assert_eq!((facts, journal.header()), (vec![prompt("one"), prompt("three")], &header()));
        assert_eq!(Journal::list(dir.path()), [header()]);
    }

    #[test]
    fn res_01_a_session_has_one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let held = Journal::create(dir.path(), header()).unwrap();
        assert!(matches!(Journal::open(dir.path(), ID), Err(JournalError::Busy(_))));
        assert!(Journal::peek(dir.path(), ID).is_ok(), "reading is free");
        drop(held);
        assert!(Journal::open(dir.path(), ID).is_ok());
    }

    #[test]
    fn what_cannot_be_read_is_told_and_never_guessed() {
        let dir = tempfile::tempdir().unwrap();
        for name in [ID, "../../etc/passwd", "", "no"] {
            assert!(matches!(Journal::open(dir.path(), name), Err(JournalError::NotFound(_))), "{name}");
        }
        let path = dir.path().join(format!("{ID}.jsonl"));
        let whole = serde_json::to_string(&header()).unwrap();
        std::fs::write(&path, format!("{whole}\n{{\"kind\":\"never heard of\"}}\n")).unwrap();
        assert!(matches!(Journal::open(dir.path(), ID), Err(JournalError::Damaged { line: 2, .. })));
        std::fs::write(&path, whole.replace("\"version\":1", "\"version\":2") + "\n").unwrap();
        assert!(matches!(Journal::open(dir.path(), ID), Err(JournalError::TooNew { version: 2, .. })));
        std::fs::write(&path, &whole[..9]).unwrap();
        assert!(matches!(Journal::open(dir.path(), ID), Err(JournalError::NotFound(_))));
    }
}
