//! A Markdown file with a header between two fences: decoded and taken apart by hand, so that the fence is the same for
//! every dialect.

use std::borrow::Cow;

use crate::diagnostic::Position;

/// The largest header that is read: 64 KiB.
pub(crate) const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Why a file has no header that can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrontError {
    /// It is a document, not a definition.
    #[error("it has no header (its first line is not ---), so it is taken for a document and not read")]
    None,
    /// The header does not end.
    #[error("the header that begins in line 1 has no end: a line of --- is missing")]
    Unclosed,
    /// The header is too large.
    #[error("the header is larger than {} KiB", MAX_HEADER_BYTES / 1024)]
    TooLarge,
}

/// The two parts of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Front<'a> {
    /// What stands between the fences.
    pub(crate) header: Cow<'a, str>,
    /// What follows, without blank lines before and after it.
    pub(crate) body: String,
    /// The line of the file in which the body begins.
    pub(crate) body_line: u32,
}

/// Takes a file apart. The lines of the header begin with the second line of the file. Line ends become those of Unix,
/// so that a prompt has the same bytes on every checkout.
pub(crate) fn split(text: &str) -> Result<Front<'_>, FrontError> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if !is_fence(first) {
        return Err(FrontError::None);
    }
    let start = first.len();
    let mut end = start;
    for line in lines {
        if is_fence(line) {
            let header = text.get(start..end).unwrap_or_default();
            if header.len() > MAX_HEADER_BYTES {
                return Err(FrontError::TooLarge);
            }
            let rest = text.get(end + line.len()..).unwrap_or_default();
            return Ok(front(text, header, rest));
        }
        end += line.len();
    }
    Err(FrontError::Unclosed)
}

fn front<'a>(text: &str, header: &'a str, rest: &str) -> Front<'a> {
    let body = unix(rest);
    let trimmed = body.trim_start_matches(['\n', ' ', '\t']);
    // Spaces before the first word are indentation, which Markdown has a meaning for.
    let indent = body.len() - trimmed.len();
    let begin = body.get(..indent).and_then(|blank| blank.rfind('\n')).map_or(0, |newline| newline + 1);
    let before = text.len() - rest.len();
    let lines = Position::of_byte(text, before).line;
    let skipped = body.get(..begin).unwrap_or_default().matches('\n').count();
    Front {
        header: unix(header),
        body: body.get(begin..).unwrap_or_default().trim_end().to_owned(),
        body_line: lines.saturating_add(u32::try_from(skipped).unwrap_or(u32::MAX)),
    }
}

fn is_fence(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty())
}

fn unix(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Why the bytes of a file are no text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodingError {
    /// Another encoding, known by its mark.
    #[error("it is encoded as {0}; save it as UTF-8")]
    Other(&'static str),
    /// A byte that UTF-8 does not have.
    #[error("it is not UTF-8: save it as UTF-8")]
    Invalid(Position),
    /// A zero byte.
    #[error("it has a zero byte, so it is no text")]
    Zero(Position),
}

/// The text of a file, without a byte order mark.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, EncodingError> {
    if bytes.starts_with(&[0xff, 0xfe]) {
        return Err(EncodingError::Other("UTF-16 (little end first)"));
    }
    if bytes.starts_with(&[0xfe, 0xff]) {
        return Err(EncodingError::Other("UTF-16 (big end first)"));
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let good = std::str::from_utf8(good).unwrap_or_default();
            return Err(EncodingError::Invalid(Position::of_byte(good, good.len())));
        }
    };
    match text.find('\0') {
        Some(at) => Err(EncodingError::Zero(Position::of_byte(text, at))),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{EncodingError, FrontError, decode, split};
    use crate::diagnostic::Position;

    #[test]
    fn the_fence_is_found_whatever_the_line_ends() {
        for text in
            ["---\nname: a\n---\n\nBody\n", "---\r\nname: a\r\n---\r\n\r\nBody\r\n", "--- \nname: a\n---"]
        {
            let front = split(text).unwrap();
            assert_eq!(front.header, "name: a\n");
            assert!(front.body == "Body" || front.body.is_empty(), "{front:?}");
        }
    }

    #[test]
    fn rules_in_the_body_are_of_the_body() {
        let front = split("---\na: 1\n---\nOne\n---\nTwo\n\n---\n").unwrap();
        assert_eq!(front.body, "One\n---\nTwo\n\n---");
        assert_eq!(front.body_line, 4);
        assert_eq!(split("---\n---\n\n\n    code\n").unwrap().body, "    code");
        assert_eq!(split("---\n---\n\n\n    code\n").unwrap().body_line, 5);
    }

    #[test]
    fn what_is_no_header_is_told() {
        for text in ["", "# Title\n", "\n---\na: 1\n---\n", "----\na: 1\n----\n"] {
            assert_eq!(split(text), Err(FrontError::None), "{text:?}");
        }
        for text in ["---", "---\n", "---\na: 1\n", "---\na: 1\n ---\n"] {
            assert_eq!(split(text), Err(FrontError::Unclosed), "{text:?}");
        }
        let large = format!("---\na: {}\n---\n", "x".repeat(super::MAX_HEADER_BYTES));
        assert_eq!(split(&large), Err(FrontError::TooLarge));
    }

    #[test]
    fn only_utf8_is_text() {
        assert_eq!(decode(b"\xef\xbb\xbf---\n"), Ok("---\n"));
        assert!(matches!(decode(b"\xff\xfea\0"), Err(EncodingError::Other(_))));
        let latin = decode(b"---\nname: caf\xe9\n");
        assert_eq!(latin, Err(EncodingError::Invalid(Position { line: 2, column: 10 })));
        assert!(matches!(decode(b"a\nb\0"), Err(EncodingError::Zero(Position { line: 2, column: 2 }))));
    }
}
