//! Texts for models and people: bounded, and without what a terminal or a reader could mistake for something else.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;

/// A name of a file as it may stand in a line: as it is, or quoted with escapes where it has characters that could end
/// the line, hide, or turn the direction of text.
pub(super) fn name(name: &OsStr) -> Cow<'_, str> {
    match name.to_str() {
        Some(text) if !text.chars().any(is_odd) => Cow::Borrowed(text),
        _ => {
            let mut quoted = String::from("\"");
            for chunk in std::os::unix::ffi::OsStrExt::as_bytes(name).utf8_chunks() {
                for c in chunk.valid().chars() {
                    if is_odd(c) {
                        let _ = write!(quoted, "{}", c.escape_unicode());
                    } else if matches!(c, '"' | '\\') {
                        let _ = write!(quoted, "\\{c}");
                    } else {
                        quoted.push(c);
                    }
                }
                for byte in chunk.invalid() {
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
            quoted.push('"');
            Cow::Owned(quoted)
        }
    }
}

/// One line of at most `max` characters, without control characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line: String = text.chars().take(max).map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        line.push('…');
    }
    line
}

/// Puts notes of ours below a text, in square brackets on a line of their own.
pub(super) fn note(told: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    if !told.is_empty() && !told.ends_with('\n') {
        told.push('\n');
    }
    let _ = write!(told, "[{}]", notes.join(". "));
}

/// Control characters, and those that change how what follows is shown.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        // Tags: characters that are not shown and can carry a whole text.
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// A count of bytes for people.
#[expect(clippy::cast_precision_loss, reason = "one digit after the point")]
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut amount, mut unit) = (bytes as f64 / 1024.0, 0);
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// The beginning of bytes as text, at most `max` bytes, without half a character at the end.
pub(super) fn head(bytes: &[u8], max: usize) -> Cow<'_, str> {
    let mut end = bytes.len().min(max);
    if end < bytes.len() {
        // Back to the first byte of the character that was cut.
        while end > 0 && end + 3 > max && bytes[end] & 0xC0 == 0x80 {
            end -= 1;
        }
    }
    String::from_utf8_lossy(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn names_cannot_end_a_line_or_hide() {
        assert_eq!(name(OsStr::new("src/ä b.rs")), "src/ä b.rs");
        assert_eq!(name(OsStr::new("a\nb\u{1b}[2J")), "\"a\\u{a}b\\u{1b}[2J\"");
        assert_eq!(name(OsStr::new("x\u{202e}sr.txt")), "\"x\\u{202e}sr.txt\"");
        assert_eq!(name(OsStr::from_bytes(b"caf\xe9 \"x\"")), "\"caf\\xe9 \\\"x\\\"\"");
    }

    #[test]
    fn a_cut_splits_no_character() {
        assert_eq!(head("aäöü".as_bytes(), 4), "aä");
        assert_eq!(head("aäöü".as_bytes(), 5), "aäö");
        assert_eq!(head("abc".as_bytes(), 9), "abc");
        assert_eq!(head("😀😀".as_bytes(), 7), "😀");
        // What is no text at all is cut somewhere.
        assert_eq!(head(&[0x80; 9], 4), "\u{fffd}");
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(
            (size(5), size(1536), size(1 << 30)),
            ("5 bytes".into(), "1.5 KiB".into(), "1.0 GiB".into())
        );
    }
}
