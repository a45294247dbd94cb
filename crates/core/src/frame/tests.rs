//! The format and the shim's words: what was once written must load for ever, and damage costs only what
//! was damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::control::{ControlFrame, Event, Request, segment_index, segment_name};
use super::lines::{Line, LineSplitter};
use super::*;

fn decode(bytes: &[u8], chunk: usize) -> Vec<Item> {
    let mut decoder = Decoder::new(0);
    let mut items = Vec::new();
    for part in bytes.chunks(chunk.max(1)) {
        decoder.push(part);
        while let Some(item) = decoder.next_item().unwrap() {
            items.push(item);
        }
    }
    decoder.end();
    while let Some(item) = decoder.next_item().unwrap() {
        items.push(item);
    }
    items
}

fn frames(items: Vec<Item>) -> Vec<Frame> {
    items
        .into_iter()
        .map(|item| match item {
            Item::Frame(frame) => frame,
            other => panic!("no frame: {other:?}"),
        })
        .collect()
}

/// The bytes of a segment and, for every frame, where it lies in them.
fn segment(parts: &[(u8, u64, Vec<u8>)]) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let mut bytes = SegmentHeader::new(0).encode().to_vec();
    let mut ranges = Vec::new();
    for (kind, at, payload) in parts {
        let start = bytes.len();
        encode_into(&mut bytes, Kind::from_code(*kind), *at, payload);
        ranges.push(start..bytes.len());
    }
    (bytes, ranges)
}

#[test]
fn the_first_version_loads_for_ever() {
    let bytes = include_bytes!("../../../../fixtures/frames/v1.log");
    for chunk in [1, 7, 4096] {
        let frames = frames(decode(bytes, chunk));
        let kinds: Vec<_> = frames.iter().map(|frame| frame.kind.code()).collect();
        assert_eq!(kinds, [4, 1, 2, 3, 1, 4, 4, 5, 1, 9, 4, 4]);
        assert_eq!(frames[0].offset, 0);
        assert_eq!(frames[1].payload, b"hello\n");
        assert_eq!(frames[1].at_micros, 1_795_000_000_000_001);
        assert_eq!(frames[4].payload, b"\0\xff\xfe\xf5\x5a\xa5\x1ez\n");
        assert_eq!(Gap::decode(&frames[7].payload), Some(Gap { bytes: 7, total: 7 }));
        let notes: Vec<ControlFrame> = frames
            .iter()
            .filter(|frame| frame.kind == Kind::Control)
            .map(|frame| serde_json::from_slice(&frame.payload).unwrap())
            .collect();
        assert!(matches!(&notes[0], ControlFrame::Started { attempt, .. } if attempt == "run-1/1"));
        assert_eq!(notes[1], ControlFrame::StdinSpooled { offset: 0, len: 100_000 });
        let ControlFrame::Exit { record } = notes.last().unwrap() else { panic!() };
        assert_eq!((record.exit_code, record.log_end), (Some(3), frames.last().unwrap().offset));
    }
}

macro_rules! fixture {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../fixtures/shim/v1/", $name, ".json")))
    };
}

#[test]
fn every_request_of_the_first_protocol_parses_for_ever() {
    for (name, text) in [
        fixture!("request_hello"),
        fixture!("request_start"),
        fixture!("request_start_file"),
        fixture!("request_stdin"),
        fixture!("request_close_stdin"),
        fixture!("request_stop"),
        fixture!("request_signal"),
        fixture!("request_renew"),
        fixture!("request_heard"),
        fixture!("request_start_heard"),
        fixture!("request_status"),
        fixture!("request_release"),
        fixture!("request_retire"),
    ] {
        let request: Request = serde_json::from_str(text).unwrap();
        assert_ne!(request, Request::Unknown, "{name}");
        assert_same(text, &serde_json::to_value(&request).unwrap(), name);
    }
}

#[test]
fn every_event_of_the_first_protocol_parses_for_ever() {
    for (name, text) in [
        fixture!("event_hello"),
        fixture!("event_hello_idle"),
        fixture!("event_started"),
        fixture!("event_start_failed"),
        fixture!("event_grew"),
        fixture!("event_stdin_closed"),
        fixture!("event_exited"),
        fixture!("event_exited_failed"),
        fixture!("event_status"),
        fixture!("event_refused"),
    ] {
        let event: Event = serde_json::from_str(text).unwrap();
        assert_ne!(event, Event::Unknown, "{name}");
        assert_same(text, &serde_json::to_value(&event).unwrap(), name);
    }
}

/// Everything of the fixture is written again, so nothing of it was ignored.
fn assert_same(text: &str, written: &serde_json::Value, name: &str) {
    fn covers(old: &serde_json::Value, new: &serde_json::Value) -> bool {
        match (old, new) {
            (serde_json::Value::Object(old), serde_json::Value::Object(new)) => {
                old.iter().all(|(key, value)| new.get(key).is_some_and(|new| covers(value, new)))
            }
            (old, new) => old == new,
        }
    }
    let old: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(covers(&old, written), "{name}: {written}");
}

#[test]
fn unknown_messages_and_fields_are_tolerated() {
    let text = r#"{"type":"dance","steps":3}"#;
    assert_eq!(serde_json::from_str::<Request>(text).unwrap(), Request::Unknown);
    assert_eq!(serde_json::from_str::<Event>(text).unwrap(), Event::Unknown);
    let text = r#"{"type":"grew","end":1,"extra":{"a":[1]}}"#;
    assert_eq!(serde_json::from_str::<Event>(text).unwrap(), Event::Grew { end: 1 });
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_one_is_read() {
    let mut decoder = Decoder::new(0);
    decoder.push(&SegmentHeader { major: 2, minor: 0, base: 0 }.encode());
    assert_eq!(decoder.next_item(), Err(FrameError::NewerVersion { found: 2, supported: 1 }));

    let mut bytes = SegmentHeader { major: 1, minor: 9, base: 500 }.encode().to_vec();
    encode_into(&mut bytes, Kind::Stdout, 1, b"x");
    assert_eq!(frames(decode(&bytes, 3))[0].offset, 500);
}

#[test]
fn a_damaged_header_costs_no_frame() {
    let (mut bytes, _) = segment(&[(1, 1, b"a".to_vec()), (2, 2, b"b".to_vec())]);
    bytes[9] ^= 0xff;
    let items = decode(&bytes, 5);
    assert!(matches!(items[0], Item::Corruption { bytes: 24, .. }));
    assert_eq!(frames(items[1..].to_vec()).len(), 2);
}

#[test]
fn a_cut_tail_is_incomplete_and_no_error() {
    let (bytes, ranges) = segment(&[(1, 1, b"whole".to_vec()), (1, 2, b"cut off".to_vec())]);
    for end in ranges[1].start + 1..ranges[1].end {
        let items = decode(&bytes[..end], 11);
        assert_eq!(items.len(), 2, "{items:?}");
        let expected = Item::Incomplete { offset: 26, bytes: (end - ranges[1].start) as u64 };
        assert_eq!(items[1], expected);
    }
}

#[test]
fn a_length_from_nowhere_hides_nothing_behind_it() {
    let (mut bytes, ranges) = segment(&[(1, 1, b"bad".to_vec()), (1, 2, b"good".to_vec())]);
    // Claims more than there is, within what a frame may have.
    bytes[ranges[0].start + 8..ranges[0].start + 12].copy_from_slice(&60_000_u32.to_le_bytes());
    let items = decode(&bytes, 4096);
    assert!(matches!(items[0], Item::Corruption { offset: 0, bytes: 24 }), "{items:?}");
    assert!(matches!(&items[1], Item::Frame(frame) if frame.payload == b"good"));
    // And more than any frame may have.
    bytes[ranges[0].start + 8..ranges[0].start + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(&bytes, 4096), items);
}

#[test]
fn large_payloads_are_split() {
    let (bytes, _) = segment(&[(1, 1, vec![7; MAX_PAYLOAD * 2 + 1])]);
    let lengths: Vec<_> = frames(decode(&bytes, 1000)).iter().map(|frame| frame.payload.len()).collect();
    assert_eq!(lengths, [MAX_PAYLOAD, MAX_PAYLOAD, 1]);
}

#[test]
fn segment_names_and_indexes_belong_together() {
    for index in [0, 1, 17, 4_000_000] {
        assert_eq!(segment_index(&segment_name(index)), Some(index));
    }
    for other in ["frames.log.tmp", "frames..log", "frames.0.log", "exit.json", "frames.x.log"] {
        assert_eq!(segment_index(other), None, "{other}");
    }
}

fn parts() -> impl Strategy<Value = Vec<(u8, u64, Vec<u8>)>> {
    let payload = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..200),
        // Marker bytes on purpose.
        2 => prop::collection::vec(prop::sample::select(SYNC.to_vec()), 0..40),
        1 => prop::collection::vec(any::<u8>(), 3000..5000),
    ];
    prop::collection::vec((1_u8..7, any::<u64>(), payload), 0..12)
}

proptest! {
    #[test]
    fn what_was_written_is_read(parts in parts(), chunk in 1_usize..5000) {
        let (bytes, _) = segment(&parts);
        let got: Vec<_> = frames(decode(&bytes, chunk))
            .into_iter()
            .map(|frame| (frame.kind.code(), frame.at_micros, frame.payload))
            .collect();
        prop_assert_eq!(got, parts);
    }

    #[test]
    fn damage_never_costs_an_undamaged_frame(
        parts in parts(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..=255), 1..6),
        cut in any::<prop::sample::Index>(),
        chunk in 1_usize..5000,
    ) {
        let (mut bytes, ranges) = segment(&parts);
        let mut touched = std::collections::BTreeSet::new();
        for (index, flip) in damage {
            let at = index.index(bytes.len());
            bytes[at] ^= flip;
            touched.insert(at);
        }
        // Half of the time the end is cut as well.
        let end = if chunk % 2 == 0 { bytes.len() } else { cut.index(bytes.len()) + 1 };
        let items = decode(&bytes[..end], chunk);
        let got: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                Item::Frame(frame) => Some((frame.kind.code(), frame.at_micros, frame.payload.clone())),
                _ => None,
            })
            .collect();
        let mut rest = got.iter();
        for (part, range) in parts.iter().zip(&ranges) {
            let whole = range.end <= end && !touched.iter().any(|at| range.contains(at));
            if whole {
                prop_assert!(rest.any(|frame| frame == part), "lost {part:?} of {items:?}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), chunk in 1_usize..99) {
        let mut decoder = Decoder::new(0);
        for part in bytes.chunks(chunk) {
            decoder.push(part);
            while let Ok(Some(_)) = decoder.next_item() {}
        }
        decoder.end();
        while let Ok(Some(_)) = decoder.next_item() {}
    }

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_were_split(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(0xc3), Just(0xa9), any::<u8>()], 0..400),
        chunk in 1_usize..50,
        cap in 0_usize..30,
    ) {
        let split = |chunk: usize| {
            let mut splitter = LineSplitter::new(cap);
            let mut lines = Vec::new();
            for part in bytes.chunks(chunk) {
                splitter.push(part, |line| lines.push(line));
            }
            lines.extend(splitter.finish());
            (lines, splitter.faults())
        };
        prop_assert_eq!(split(chunk), split(bytes.len().max(1)));
    }
}

fn lines(splitter: &mut LineSplitter, bytes: &[u8]) -> Vec<Line> {
    let mut out = Vec::new();
    splitter.push(bytes, |line| out.push(line));
    out
}

#[test]
fn proc_09_a_line_without_end_is_skipped_counted_and_bounded() {
    let mut splitter = LineSplitter::new(1024);
    assert_eq!(lines(&mut splitter, b"good\n").len(), 1);
    for _ in 0..1000 {
        assert!(lines(&mut splitter, &vec![b'x'; 100_000]).is_empty());
    }
    let after = lines(&mut splitter, b"tail\nafter\n");
    assert_eq!(after, [Line { text: "after".to_owned(), lossy: false }]);
    assert_eq!(splitter.faults().overlong_lines, 1);
    assert_eq!(splitter.faults().overlong_bytes, 100_000_004);
}

#[test]
fn proc_09_a_split_character_is_whole_and_a_bad_one_is_replaced() {
    let mut splitter = LineSplitter::new(1024);
    assert!(lines(&mut splitter, b"caf\xc3").is_empty());
    assert_eq!(lines(&mut splitter, b"\xa9\r\n"), [Line { text: "café".to_owned(), lossy: false }]);
    assert_eq!(lines(&mut splitter, b"a\xffb\n"), [Line { text: "a\u{fffd}b".to_owned(), lossy: true }]);
    assert_eq!(splitter.faults().lossy_lines, 1);
    assert!(lines(&mut splitter, b"no end").is_empty());
    assert_eq!(splitter.finish().unwrap().text, "no end");
    assert_eq!(splitter.finish(), None);
}

#[test]
fn a_line_with_a_hole_in_it_is_no_line() {
    let mut splitter = LineSplitter::new(1024);
    assert_eq!(lines(&mut splitter, b"{\"text\":\"begun"), []);
    splitter.hole();
    let after = lines(&mut splitter, b" and ended\"}\nwhole\n");
    assert_eq!(after.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["whole"]);
    assert!(splitter.faults().overlong_bytes > 0);
}
