//! Subagents of a child's own: which there are, and the stop of a single one. Live conversations are asked, those that are
//! over are read from their transcripts.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use subagent_core::inner::{Inners, News};
use subagent_core::run::Subagent;
use subagent_model::{
    AttemptNumber, ErrorCode, InnerList, InnerStatus, InnerSubagent, Problem, StopInnerReply,
    StopInnerRequest, SubagentId, TranscriptEntry, What,
};
use tokio::sync::oneshot;

use super::super::Engine;
use super::super::attempt::chain;
use super::super::tasks::NotStopped;
use super::authority::Access;
use super::prepare::invalid;
use crate::runtime::Caller;

/// What every line about one of them holds, so that all others need not be understood.
const MARK: &[u8] = br#""type":"inner""#;

impl Engine {
    pub(super) async fn list_inner(&self, caller: &Caller, id: SubagentId) -> Result<InnerList, Problem> {
        let state = self.for_caller(caller, id, Access::See)?;
        Ok(self.inners_of(&state).await?.list(id))
    }

    /// Tells the child to stop one of them. It says itself when that has stopped.
    pub(super) async fn stop_one_inner(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopInnerRequest,
    ) -> Result<StopInnerReply, Problem> {
        let state = self.for_caller(caller, id, Access::Control)?;
        let list = self.inners_of(&state).await?.list(id);
        let inner = named(&list.items, &request.key)?.clone();
        if !inner.state.is_live() {
            return Ok(StopInnerReply { inner, accepted: false });
        }
        let refused = |why: &str| {
            let message = format!("{:?} cannot be stopped by itself: {why}", inner.key);
            let hint = format!("Stop the subagent that it belongs to: `subagent stop {}`.", state.handle);
            Problem { hint: Some(hint), ..Problem::new(ErrorCode::NotCapable, message) }
        };
        if !inner.can_stop {
            return Err(refused(&format!("{} announces no way to do that", state.spec.provider)));
        }
        let (reply, answer) = oneshot::channel();
        let key = state.key_of(inner.attempt);
        let told = if self.inner.tasks.stop_inner(key, inner.key.clone(), reply) {
            // A conversation that ends meanwhile takes the question with it.
            tokio::time::timeout(super::CONTROL_BOUND, answer)
                .await
                .map(|told| told.unwrap_or(Err(NotStopped::Over)))
        } else {
            Ok(Err(NotStopped::Over))
        };
        match told {
            Ok(Ok(())) => {
                tracing::info!(subagent = %id, inner = inner.key, by = %caller.requester, "told to stop an inner subagent");
                let now = self.inner.inners.of((id, inner.attempt)).unwrap_or_default().list(id);
                let inner = named(&now.items, &inner.key).cloned().unwrap_or(inner);
                Ok(StopInnerReply { inner, accepted: true })
            }
            Ok(Err(NotStopped::NoWord(why))) => Err(refused(&why)),
            Ok(Err(NotStopped::Over)) => {
                let message = format!("{} takes no more input: its conversation is ending", state.handle);
                Err(Problem::new(ErrorCode::IllegalTransition, message))
            }
            Ok(Err(NotStopped::Unknown(why))) => {
                let message = format!("whether {} was told cannot be known: {why}", state.handle);
                Err(Problem::new(ErrorCode::Timeout, message))
            }
            Err(_) => Err(Problem::new(
                ErrorCode::Timeout,
                "the child's conversation did not answer within 8 seconds",
            )),
        }
    }

    /// All of them, of all attempts.
    async fn inners_of(&self, state: &Arc<Subagent>) -> Result<Inners, Problem> {
        if !state.spec.can.converses() {
            return Ok(Inners::default());
        }
        let live = state.process_hold().map(|hold| hold.attempt);
        let heard = live.and_then(|attempt| self.inner.inners.of((state.id, attempt)));
        let files = self.transcripts_of(state);
        let (now, over): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(attempt, _)| Some(*attempt) == live);
        let read = tokio::task::spawn_blocking(move || {
            let mut inners = read(&over)?;
            inners.end_all();
            // Where nobody listens, as while a daemon takes the conversation over, the transcript tells how far it was.
            inners.extend(heard.map_or_else(|| read(&now), Ok)?);
            Ok::<_, io::Error>(inners)
        });
        let read = read.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?;
        read.map_err(|error| Problem::new(ErrorCode::DamagedLog, chain(&error)))
    }
}

/// The one of this key, or the one at work whose key begins so.
fn named<'a>(all: &'a [InnerSubagent], key: &str) -> Result<&'a InnerSubagent, Problem> {
    if key.is_empty() {
        return Err(invalid("`key` must not be empty: it is the child's own name for one of its subagents"));
    }
    // The newest conversation goes before: whoever names one means what is there now.
    if let Some(inner) = all.iter().rev().find(|inner| inner.key == key) {
        return Ok(inner);
    }
    let begins: Vec<_> =
        all.iter().filter(|inner| inner.state.is_live() && inner.key.starts_with(key)).collect();
    let at_work =
        || all.iter().filter(|inner| inner.state.is_live()).map(|inner| inner.key.clone()).collect();
    match begins[..] {
        [inner] => Ok(inner),
        [] => Err(Problem::new(ErrorCode::NotFound, format!("it has no subagent {key:?} of its own"))
            .with_ids(at_work())),
        _ => {
            let message = format!("{key:?} fits {} of its subagents", begins.len());
            let keys = begins.iter().map(|inner| inner.key.clone()).collect();
            Err(Problem::new(ErrorCode::Ambiguous, message).with_ids(keys))
        }
    }
}

fn read(files: &[(AttemptNumber, PathBuf)]) -> io::Result<Inners> {
    let mut inners = Inners::default();
    for (attempt, path) in files {
        let file = match File::open(path) {
            Ok(file) => file,
            // Nothing was said, or it was released.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            if line.windows(MARK.len()).any(|window| window == MARK) {
                hear(&mut inners, *attempt, &line);
            }
            line.clear();
        }
    }
    Ok(inners)
}

/// Takes in a line of a transcript. One that is damaged or of another kind says nothing.
fn hear(inners: &mut Inners, attempt: AttemptNumber, line: &[u8]) {
    let Ok(entry) = serde_json::from_slice::<TranscriptEntry>(line) else { return };
    let What::Inner { id, parent, title, state } = entry.what else { return };
    let news = News {
        key: &id,
        parent: parent.as_deref(),
        title: title.as_deref(),
        state: state.as_deref().map(InnerStatus::of_word),
        can_stop: None,
    };
    inners.hear(attempt, entry.at, news);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use subagent_model::{AttemptNumber, InnerStatus};

    use super::{named, read};

    fn line(number: u32, what: &str) -> String {
        format!(
            "{{\"at\":\"2026-11-30T00:00:0{number}Z\",\"run\":1,\"attempt\":1,\"log\":[{number},1],{what}}}\n"
        )
    }

    #[test]
    fn acp_14_a_transcript_tells_of_them_and_of_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one");
        let text = line(1, r#""type":"inner","id":"c","title":"look","state":"running""#)
            + &line(2, r#""type":"message","text":"\"type\":\"inner\",\"id\":\"no\"""#)
            + "\"type\":\"inner\" damaged\n"
            + &line(3, r#""type":"inner","id":"g","parent":"c","state":"_dreaming""#)
            + &line(4, r#""type":"inner","id":"c","state":"completed""#)
            + &line(5, r#""type":"inner","id":"cd","state":"running""#);
        std::fs::write(&path, &text[..text.len() - 1]).unwrap();
        let missing = (AttemptNumber(2), dir.path().join("two"));
        let id = "01a22d21-9704-741f-afa1-3082d0029501".parse().unwrap();
        let list = read(&[(AttemptNumber(1), path), missing]).unwrap().list(id);
        let told: Vec<_> = list.items.iter().map(|inner| (inner.key.as_str(), inner.state)).collect();
        assert_eq!(
            told,
            [("c", InnerStatus::Completed), ("g", InnerStatus::Unknown), ("cd", InnerStatus::Running)]
        );
        assert_eq!(list.items[0].title.as_deref(), Some("look"));
        assert_eq!(
            named(&list.items, "c").unwrap().state,
            InnerStatus::Completed,
            "a whole key is no beginning"
        );
        assert_eq!(named(&list.items, "cd").unwrap().key, "cd");
        assert!(named(&list.items, "x").unwrap_err().ids.contains(&"cd".to_owned()));
        assert!(named(&list.items, "").is_err());
    }
}
