//! Reading transcripts: the files of all attempts of a subagent, one after the other.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subagent_core::run::Subagent;
use subagent_model::{
    AttemptKey, AttemptNumber, ErrorCode, Problem, SubagentId, TranscriptEntry, TranscriptPage,
};

use super::super::attempt::chain;
use super::super::{Engine, transcripts};
use super::authority::Access;
use super::prepare::invalid;
use crate::runtime::Caller;

/// Most entries of one page.
const LARGEST_PAGE: u32 = 1_000;
/// A page ends once it has so many bytes.
const PAGE_BYTES: u64 = 1 << 20;
/// How often a transcript is looked at that has nothing new.
const LOOK: Duration = Duration::from_millis(50);

/// Where a reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    attempt: u32,
    offset: u64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (attempt, offset) = text.split_once(':')?;
        Some(Self { attempt: attempt.parse().ok()?, offset: offset.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.attempt, self.offset)
    }
}

impl Engine {
    pub(super) async fn read_transcript(
        &self,
        caller: &Caller,
        id: SubagentId,
        after: Option<&str>,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<TranscriptPage, Problem> {
        let unknown = || invalid("`after` is no position of a transcript: give `next` of the page before");
        let mut place = match after {
            Some(after) => Place::parse(after).ok_or_else(unknown)?,
            None => Place::default(),
        };
        let limit = limit.clamp(1, LARGEST_PAGE);
        let until = wait.map(|wait| tokio::time::Instant::now() + wait);
        loop {
            // Asked before reading: what comes between is found by the next page.
            let state = self.for_caller(caller, id, Access::See)?;
            let files = self.transcripts_of(&state);
            let spoken = state.spec.can.converses();
            let read = tokio::task::spawn_blocking(move || read(&files, place, limit)).await;
            let (items, next) = read
                .map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
                .map_err(|error| Problem::new(ErrorCode::DamagedLog, chain(&error)))?;
            let over = state.is_ended() && items.is_empty();
            let patient = until.is_some_and(|until| tokio::time::Instant::now() < until);
            if !items.is_empty() || over || !patient {
                return Ok(TranscriptPage { items, next: next.to_string(), ended: over, spoken });
            }
            place = next;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The files, oldest first. A process that served several runs has one.
    pub(super) fn transcripts_of(&self, state: &Arc<Subagent>) -> Vec<(AttemptNumber, PathBuf)> {
        let earlier = state.earlier.iter().map(|run| (run.number, run.attempts.as_slice()));
        let now = (state.run.number, &*state.run.attempts);
        let facts = earlier.chain([now]).flat_map(|(run, attempts)| attempts.iter().map(move |a| (run, a)));
        let mut files: Vec<_> = facts
            .map(|(run, facts)| {
                let run = facts.born_in.unwrap_or(run);
                let key = AttemptKey { subagent: state.id, run, attempt: facts.attempt };
                (facts.attempt, self.inner.paths.attempt_of(state, key).join(transcripts::FILE))
            })
            .collect();
        files.sort();
        files.dedup();
        files
    }
}

fn read(
    files: &[(AttemptNumber, PathBuf)],
    from: Place,
    limit: u32,
) -> io::Result<(Vec<TranscriptEntry>, Place)> {
    let (mut items, mut place, mut bytes) = (Vec::new(), from, 0);
    for (attempt, path) in files.iter().filter(|(attempt, _)| attempt.0 >= from.attempt) {
        let offset = if attempt.0 == from.attempt { from.offset } else { 0 };
        let file = match File::open(path) {
            Ok(file) => file,
            // Nothing was said, or it was released.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        place = Place { attempt: attempt.0, offset };
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(offset))?;
        let mut line = Vec::new();
        loop {
            if items.len() >= limit as usize || bytes >= PAGE_BYTES {
                return Ok((items, place));
            }
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            // A line that is being written counts once it is whole.
            if read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            bytes += read as u64;
            place.offset += read as u64;
            // A damaged line hides no other.
            items.extend(serde_json::from_slice::<TranscriptEntry>(&line).ok());
        }
    }
    Ok((items, place))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{Place, read};
    use subagent_model::AttemptNumber;

    fn entry(number: u32) -> String {
        format!(
            "{{\"at\":\"2026-11-30T00:00:00Z\",\"run\":1,\"attempt\":1,\"log\":[{number},1],\"type\":\"notice\",\"text\":\"{number}\"}}\n"
        )
    }

    #[test]
    fn rec_18_pages_have_no_gaps_and_half_a_line_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let files = [1, 2, 3].map(|attempt| (AttemptNumber(attempt), dir.path().join(attempt.to_string())));
        std::fs::write(&files[0].1, entry(1) + "damaged\n" + &entry(2)).unwrap();
        std::fs::write(&files[2].1, entry(3) + &entry(4)[..20]).unwrap();
        let (mut place, mut all) = (Place::default(), Vec::new());
        loop {
            let (items, next) = read(&files, place, 1).unwrap();
            if items.is_empty() && next == place {
                break;
            }
            all.extend(items.into_iter().map(|item| item.log.0));
            place = Place::parse(&next.to_string()).unwrap();
        }
        assert_eq!(all, [1, 2, 3]);
        std::fs::write(&files[2].1, entry(3) + &entry(4)).unwrap();
        assert_eq!(read(&files, place, 9).unwrap().0.len(), 1, "it goes on where it was");
        assert_eq!(Place::parse("x:1"), None);
    }
}
