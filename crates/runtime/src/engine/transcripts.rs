//! The files of transcripts, written by a thread of their own: a disk that hangs holds up no child and no call. What goes
//! into them is decided in `talk::scribe`.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

/// The file, in the directory of the attempt.
pub(crate) const FILE: &str = "transcript.jsonl";
/// Most writes that wait.
const MOST_WAITING: usize = 1_024;
/// Most files that are kept open.
const MOST_OPEN: usize = 64;
/// How long an end waits for its transcript.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way to the thread.
#[derive(Debug, Clone)]
pub(crate) struct Transcripts {
    sender: SyncSender<Work>,
}

enum Work {
    Append {
        path: PathBuf,
        lines: Vec<u8>,
    },
    /// Tells once everything before is written, and lets go of the file.
    Settle {
        path: PathBuf,
        done: oneshot::Sender<()>,
    },
}

impl Transcripts {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, work) = sync_channel(MOST_WAITING);
        std::thread::Builder::new().name(String::from("transcripts")).spawn(move || write(&work))?;
        Ok(Self { sender })
    }

    /// Appends whole lines. Gives them back where too much waits.
    pub(crate) fn append(&self, path: &Path, lines: Vec<u8>) -> Result<(), Vec<u8>> {
        match self.sender.try_send(Work::Append { path: path.to_owned(), lines }) {
            Err(TrySendError::Full(Work::Append { lines, .. })) => Err(lines),
            // Nobody is left to write for, or it is on its way.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until all lines of a file are written, within a bound.
    pub(crate) async fn settled(&self, path: &Path) {
        let (done, told) = oneshot::channel();
        if self.sender.try_send(Work::Settle { path: path.to_owned(), done }).is_ok() {
            // An end does not hang on a disk that does.
            let _ = tokio::time::timeout(PATIENCE, told).await;
        }
    }
}

fn write(work: &Receiver<Work>) {
    let mut files = HashMap::new();
    while let Ok(work) = work.recv() {
        match work {
            Work::Append { path, lines } => {
                if let Err(error) = append(&mut files, &path, &lines) {
                    tracing::warn!(path = %path.display(), %error, "a transcript cannot be written");
                    files.remove(&path);
                }
            }
            Work::Settle { path, done } => {
                files.remove(&path);
                let _ = done.send(());
            }
        }
    }
}

fn append(files: &mut HashMap<PathBuf, File>, path: &Path, lines: &[u8]) -> io::Result<()> {
    if !files.contains_key(path) {
        if files.len() >= MOST_OPEN {
            files.clear();
        }
        files.insert(path.to_owned(), open(path)?);
    }
    files.get_mut(path).map_or(Ok(()), |file| file.write_all(lines))
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        // A child inside the daemon has no directory of its own until it needs one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            options.open(path)
        }
        opened => opened,
    }
}
