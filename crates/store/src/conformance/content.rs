//! Whole texts.

use std::ops::Deref;
use std::sync::Arc;

use subagent_core::run::Command;
use subagent_model::{Outcome, RunNumber};

use super::Samples;
use crate::{Content, ContentKind, Store};

/// Any part of a text of any size is read, and its whole size told.
pub fn texts_are_read_in_parts<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    // Sizes on both sides of the pieces that a store may cut a text into; a character may be cut.
    for size in [0, 1, 262_143, 262_144, 262_145, 700_000] {
        let text: Arc<str> = "aé漢🦀".chars().cycle().take(size).collect::<String>().into();
        let birth = samples.birth().with_content(content(1, ContentKind::Prompt, &text));
        let id = Samples::commit(&*store, birth).id;
        let read = |offset: u64, max: u32| {
            let part = store.content(id, RunNumber(1), ContentKind::Prompt, offset, max).unwrap().unwrap();
            assert_eq!(part.total, text.len() as u64);
            part.bytes
        };
        assert_eq!(read(0, u32::MAX), text.as_bytes());
        for step in [100_003_u32, 262_144, 400_000] {
            let mut whole = Vec::new();
            loop {
                let part = read(whole.len() as u64, step);
                assert!(part.len() <= step as usize);
                if part.is_empty() {
                    break;
                }
                whole.extend(part);
            }
            assert_eq!(whole, text.as_bytes());
        }
        assert_eq!(read(0, 0), b"");
        assert_eq!(read(text.len() as u64, 10), b"");
        assert_eq!(read(u64::MAX, u32::MAX), b"");
    }
}

/// Prompt and result of each run are texts of their own; what was never put is not there.
pub fn texts_belong_to_their_run<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let birth = samples.birth().with_content(content(1, ContentKind::Prompt, "first prompt"));
    let state = Samples::commit(&*store, birth);
    let other = Samples::commit(&*store, samples.birth());
    let ended = samples.end(&*store, &state, Outcome::Completed);
    let resume = Samples::resume(&ended.requester);
    let resume = samples.step(&ended, &resume);
    let resume = resume.with_content(content(2, ContentKind::Prompt, "second prompt"));
    let state = Samples::commit(&*store, resume);
    let claim = samples.step(&state, &Samples::claim());
    let claim = claim.with_content(content(2, ContentKind::Result, &"x".repeat(600_000)));
    let state = Samples::commit(&*store, claim);
    // What is put again replaces all of what was there.
    let attempt = state.last_attempt;
    let start = samples.step(&state, &Command::Started { attempt, process: None });
    Samples::commit(&*store, start.with_content(content(2, ContentKind::Result, "second result")));
    let read = |id, run, kind| {
        let part = store.content(id, RunNumber(run), kind, 0, 1_000_000).unwrap();
        part.map(|part| String::from_utf8(part.bytes).unwrap())
    };
    assert_eq!(read(state.id, 1, ContentKind::Prompt).as_deref(), Some("first prompt"));
    assert_eq!(read(state.id, 2, ContentKind::Prompt).as_deref(), Some("second prompt"));
    assert_eq!(read(state.id, 2, ContentKind::Result).as_deref(), Some("second result"));
    assert_eq!(read(state.id, 1, ContentKind::Result), None);
    assert_eq!(read(state.id, 3, ContentKind::Prompt), None);
    assert_eq!(read(other.id, 1, ContentKind::Prompt), None);
    assert_eq!(read(Samples::id(999), 1, ContentKind::Prompt), None);
}

fn content(run: u32, kind: ContentKind, text: &str) -> Content {
    Content { run: RunNumber(run), kind, text: text.into() }
}
