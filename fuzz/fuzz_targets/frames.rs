//! The frame log: any bytes as a segment, and a good segment with any damage.
//!
//! The first byte is the length of the chunks in which the bytes come, the second one chooses what is done with the rest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use subagent_core::frame::control::{ControlFrame, Event, Request, segment_index, segment_name};
use subagent_core::frame::lines::{Line, LineFaults, LineSplitter};
use subagent_core::frame::{
    Decoder, Frame, FrameError, Gap, Item, Kind, MAX_PAYLOAD, SEGMENT_HEADER_LEN, SegmentHeader, encode_into,
};

fuzz_target!(|input: &[u8]| {
    let [chunk, what, rest @ ..] = input else { return };
    let chunk = usize::from(*chunk) + 1;
    match what % 4 {
        0 => any_bytes(rest, chunk),
        1 => damaged(rest, chunk),
        2 => lines(rest, chunk),
        _ => words(rest),
    }
});

/// Everything that a decoder finds.
fn decode(mut decoder: Decoder, bytes: &[u8], chunk: usize) -> Result<Vec<Item>, FrameError> {
    let mut items = Vec::new();
    for part in bytes.chunks(chunk) {
        decoder.push(part);
        while let Some(item) = decoder.next_item()? {
            items.push(item);
        }
    }
    decoder.end();
    while let Some(item) = decoder.next_item()? {
        items.push(item);
    }
    assert_eq!(decoder.next_item(), Ok(None), "the end stays the end");
    Ok(items)
}

/// Bytes that are anything: nothing of them is lost or counted twice, however they come.
fn any_bytes(bytes: &[u8], chunk: usize) {
    for base in [0, 1 << 40] {
        let items = decode(Decoder::at_frame(base), bytes, chunk);
        assert_eq!(items, decode(Decoder::at_frame(base), bytes, bytes.len().max(1)));
        let mut at = base;
        for item in items.expect("there is no header") {
            let (offset, end) = match &item {
                Item::Frame(frame) => (frame.offset, frame.end()),
                Item::Corruption { offset, bytes } | Item::Incomplete { offset, bytes } => {
                    (*offset, offset + bytes)
                }
            };
            assert!(offset == at && end > at, "{item:?} at {at}");
            at = end;
            if let Item::Frame(frame) = item {
                payload(&frame);
            }
        }
        assert_eq!(at, base + bytes.len() as u64);
    }
    let items = decode(Decoder::new(0), bytes, chunk);
    assert_eq!(items, decode(Decoder::new(0), bytes, bytes.len().max(1)));
    let _ = SegmentHeader::decode(bytes);
}

fn payload(frame: &Frame) {
    match frame.kind {
        Kind::Control => drop(serde_json::from_slice::<ControlFrame>(&frame.payload)),
        Kind::Gap => drop(Gap::decode(&frame.payload)),
        _ => {}
    }
}

/// A segment of frames whose payloads are parts of the input, with some of its bytes changed and its end cut off: what the
/// damage does not touch is found.
fn damaged(input: &[u8], chunk: usize) {
    let Some((damage, input)) = input.split_at_checked(8) else { return };
    let base = u64::from(damage[0]) << (damage[0] % 40);
    let mut bytes = SegmentHeader::new(base).encode().to_vec();
    let mut frames = Vec::new();
    for part in input.split(|byte| *byte == b'\n').take(64) {
        let (kind, text) = part.split_first().unwrap_or((&1, &[]));
        // Long ones too: each is many times what the input holds.
        let text = text.repeat(if kind % 16 == 9 { 40 } else { 1 });
        for piece in if text.is_empty() { vec![&[][..]] } else { text.chunks(MAX_PAYLOAD).collect() } {
            let start = bytes.len();
            let offset = base + (start - SEGMENT_HEADER_LEN) as u64;
            let (kind, at_micros) = (Kind::from_code(*kind), 1_795_000_000_000_000 + frames.len() as u64);
            encode_into(&mut bytes, kind, at_micros, piece);
            frames.push((start..bytes.len(), Frame { offset, kind, at_micros, payload: piece.to_vec() }));
        }
    }
    let whole = decode(Decoder::new(7), &bytes, chunk * 16).expect("it is of this version");
    assert_eq!(whole, frames.iter().map(|(_, frame)| Item::Frame(frame.clone())).collect::<Vec<_>>());

    let place = |two: &[u8]| (usize::from(two[0]) << 8 | usize::from(two[1])) % bytes.len();
    let mut broken = bytes.clone();
    let mut touched: Vec<usize> = Vec::new();
    for two in [&damage[1..3], &damage[3..5]] {
        let at = place(two);
        broken[at] ^= damage[5];
        touched.push(at);
    }
    let cut = if damage[6] % 4 == 0 { place(&damage[6..8]) } else { bytes.len() };
    broken.truncate(cut);
    let items = decode(Decoder::new(base), &broken, chunk * 16).expect("a damaged header is no header");
    assert_eq!(Ok(&items), decode(Decoder::new(base), &broken, broken.len().max(1)).as_ref());
    let mut found = items.iter().filter_map(|item| match item {
        Item::Frame(frame) => Some((frame.kind, frame.at_micros, &frame.payload)),
        _ => None,
    });
    for (range, frame) in &frames {
        if range.end <= cut && (damage[5] == 0 || !touched.iter().any(|at| range.contains(at))) {
            let wanted = (frame.kind, frame.at_micros, &frame.payload);
            assert!(found.any(|found| found == wanted), "frame at {range:?} is lost: {items:?}");
        }
    }
}

/// The splitter of lines: bounded, and the same however the bytes come.
fn lines(input: &[u8], chunk: usize) {
    let Some((&cap, bytes)) = input.split_first() else { return };
    let cap = usize::from(cap) * 4;
    let split = |chunk: usize| -> (Vec<Line>, LineFaults) {
        let mut splitter = LineSplitter::new(cap);
        let mut lines = Vec::new();
        for part in bytes.chunks(chunk) {
            splitter.push(part, |line| lines.push(line));
        }
        lines.extend(splitter.finish());
        assert_eq!(splitter.finish(), None);
        (lines, splitter.faults())
    };
    let (lines, faults) = split(chunk);
    assert_eq!(split(bytes.len().max(1)), (lines.clone(), faults));
    for line in &lines {
        // Each byte that is not UTF-8 becomes three.
        assert!(line.text.len() <= cap * if line.lossy { 3 } else { 1 } && !line.text.contains('\n'));
    }
    assert_eq!(faults.lossy_lines, lines.iter().filter(|line| line.lossy).count() as u64);
    assert!(faults.overlong_bytes <= bytes.len() as u64);
    // A hole ends nothing and begins nothing.
    let mut splitter = LineSplitter::new(cap);
    for part in bytes.chunks(chunk) {
        splitter.push(part, |_| {});
        splitter.hole();
    }
    assert_eq!(splitter.finish(), None);
}

/// The shim's words: what is read is written and read again as the same.
fn words(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(request) = serde_json::from_slice::<Request>(line) {
            let text = serde_json::to_vec(&request).expect("it can be written");
            // What is of a newer version has no word of its own.
            if request != Request::Unknown {
                assert_eq!(serde_json::from_slice::<Request>(&text).ok(), Some(request));
            }
        }
        if let Ok(event) = serde_json::from_slice::<Event>(line) {
            let text = serde_json::to_vec(&event).expect("it can be written");
            if event != Event::Unknown {
                assert_eq!(serde_json::from_slice::<Event>(&text).ok(), Some(event));
            }
        }
        if let Ok(control) = serde_json::from_slice::<ControlFrame>(line) {
            let text = serde_json::to_vec(&control).expect("it can be written");
            if control != ControlFrame::Unknown {
                assert_eq!(serde_json::from_slice::<ControlFrame>(&text).ok(), Some(control));
            }
        }
        if let Ok(name) = std::str::from_utf8(line)
            && let Some(index) = segment_index(name)
        {
            assert_eq!(segment_index(&segment_name(index)), Some(index));
        }
    }
}
