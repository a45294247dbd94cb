//! The change itself, on bytes, pure: what is not UTF-8 elsewhere in the file stays what it is.

use super::nearest::{Near, nearest};

/// What is wanted.
pub(super) struct Wish<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Every place, not the only one.
    pub(super) all: bool,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) content: Vec<u8>,
    /// The lines at which something was replaced, counted before the change.
    pub(super) lines: Vec<usize>,
    pub(super) count: usize,
}

/// Why nothing was changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Same,
    Empty,
    None { near: Option<Near> },
    Many { lines: Vec<usize> },
}

pub(super) fn replace(before: &[u8], wish: &Wish<'_>) -> Result<Replaced, Fault> {
    if wish.old.is_empty() {
        return Err(Fault::Empty);
    }
    let (mut old, mut new) = (wish.old.to_owned(), wish.new.to_owned());
    let mut found = places(before, old.as_bytes());
    if found.is_empty() && memchr::memmem::find(before, b"\r\n").is_some() {
        // `read` shows lines without carriage returns, so they are put back.
        old = with_returns(&old);
        new = with_returns(&new);
        found = places(before, old.as_bytes());
    } else if !found.is_empty() && !old.contains('\n') && new.contains('\n') && mostly_returns(before) {
        // A piece of one line says nothing about line ends; the file does.
        new = with_returns(&new);
    }
    if found.is_empty() && old.starts_with('\u{feff}') {
        old = old.trim_start_matches('\u{feff}').to_owned();
        new = new.trim_start_matches('\u{feff}').to_owned();
        found = places(before, old.as_bytes());
    }
    if old == new {
        return Err(Fault::Same);
    }
    let lines = lines_of(before, &found);
    match found.len() {
        0 => return Err(Fault::None { near: nearest(&String::from_utf8_lossy(before), wish.old) }),
        1 => {}
        _ if wish.all => {}
        _ => return Err(Fault::Many { lines }),
    }
    let mut content = Vec::with_capacity(before.len() + new.len());
    let mut at = 0;
    for &place in &found {
        content.extend_from_slice(&before[at..place]);
        content.extend_from_slice(new.as_bytes());
        at = place + old.len();
    }
    content.extend_from_slice(&before[at..]);
    Ok(Replaced { content, lines, count: found.len() })
}

/// All places of `needle`, none over another.
fn places(text: &[u8], needle: &[u8]) -> Vec<usize> {
    if needle.is_empty() { Vec::new() } else { memchr::memmem::find_iter(text, needle).collect() }
}

fn with_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn mostly_returns(text: &[u8]) -> bool {
    let all = memchr::memchr_iter(b'\n', text).count();
    let returns = memchr::memmem::find_iter(text, b"\r\n").count();
    returns * 2 > all
}

/// The line of each place, from 1.
fn lines_of(text: &[u8], places: &[usize]) -> Vec<usize> {
    let (mut line, mut at) = (1, 0);
    places
        .iter()
        .map(|&place| {
            line += memchr::memchr_iter(b'\n', &text[at..place]).count();
            at = place;
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;
    use proptest::{prop_assert, prop_assert_eq};

    use super::*;

    fn edit(before: &str, old: &str, new: &str) -> Result<String, Fault> {
        replace(before.as_bytes(), &Wish { old, new, all: false })
            .map(|done| String::from_utf8(done.content).unwrap())
    }

    #[test]
    fn the_only_place_is_replaced() {
        assert_eq!(edit("a\nb\nc\n", "b\n", "x\ny\n").unwrap(), "a\nx\ny\nc\n");
        assert_eq!(edit("abc", "b", "").unwrap(), "ac");
        assert_eq!(edit("abc", "b", "b"), Err(Fault::Same));
        assert_eq!(edit("abc", "", "b"), Err(Fault::Empty));
    }

    #[test]
    fn several_places_are_counted_unless_all_are_meant() {
        assert_eq!(edit("x\nx\ny\nx", "x", "z"), Err(Fault::Many { lines: vec![1, 2, 4] }));
        let all = replace(b"x\nx\ny\nx", &Wish { old: "x", new: "xx", all: true }).unwrap();
        assert_eq!((all.content, all.count), (b"xx\nxx\ny\nxx".to_vec(), 3));
        // None over another.
        assert_eq!(replace(b"aaa", &Wish { old: "aa", new: "b", all: true }).unwrap().content, b"ba");
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        assert_eq!(edit("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\nb\n").unwrap(), "a\r\nx\r\nb\r\nc\r\n");
        assert_eq!(edit("a\r\nb\r\n", "b", "b\nc").unwrap(), "a\r\nb\r\nc\r\n");
        assert_eq!(edit("a\r\nb\r\n", "a\r\nb", "a\r\nc").unwrap(), "a\r\nc\r\n");
        assert_eq!(edit("a\nb\n", "b", "b\nc").unwrap(), "a\nb\nc\n");
    }

    #[test]
    fn a_byte_order_mark_and_strange_bytes_stay() {
        assert_eq!(edit("\u{feff}a\nb\n", "a", "x").unwrap(), "\u{feff}x\nb\n");
        let done = replace(b"caf\xe9\nold\n", &Wish { old: "old", new: "n\u{e9}w", all: false }).unwrap();
        assert_eq!(done.content, b"caf\xe9\nn\xc3\xa9w\n");
    }

    proptest! {
        /// What is not the old text stays, and there is a place for every count.
        #[test]
        fn only_what_was_meant_changes(before in "[ab\\r\\n]{0,40}", old in "[ab\\n]{1,3}", new in "[abc\\n]{0,3}") {
            match replace(before.as_bytes(), &Wish { old: &old, new: &new, all: true }) {
                Ok(done) => {
                    prop_assert_eq!(done.lines.len(), done.count);
                    let grown = done.content.len().abs_diff(before.len());
                    prop_assert!(grown <= done.count * 8);
                }
                Err(Fault::None { .. }) => prop_assert!(!before.contains(&old)),
                Err(_) => {}
            }
        }
    }
}
