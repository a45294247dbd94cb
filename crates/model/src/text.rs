//! Texts of any size, told in a bounded way: a preview, the true size, a digest, and the whole kept elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes of a result that travel with a record or a notice: 8 KiB.
pub const PREVIEW_BYTES: usize = 8 * 1024;

/// The mark that ends a preview which was cut.
pub const CUT_MARK: &str = "\n[... cut: read the whole result ...]";

/// A text of any size as it travels with records: bounded preview, byte count, digest. Where `truncated` is false the
/// preview is the whole text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoundedText {
    /// The beginning of the text, cut at a character boundary and marked when it was cut.
    pub preview: String,
    /// Size of the whole text in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole text, lower-case hex. Absent on texts that are short enough to be their own preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// True when the preview is not the whole text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl BoundedText {
    /// A text that is its own preview if it is short enough.
    pub fn whole(text: &str) -> Option<Self> {
        (text.len() <= PREVIEW_BYTES).then(|| Self {
            preview: text.to_owned(),
            bytes: text.len() as u64,
            sha256: None,
            truncated: false,
        })
    }

    /// A text of which only the beginning travels. `sha256` is the digest of the whole, made by the caller.
    pub fn cut(text: &str, sha256: String) -> Self {
        let mut preview = cut_at_boundary(text, PREVIEW_BYTES - CUT_MARK.len()).to_owned();
        preview.push_str(CUT_MARK);
        Self { preview, bytes: text.len() as u64, sha256: Some(sha256), truncated: true }
    }

    /// True when nothing but white space is in it.
    pub fn is_blank(&self) -> bool {
        !self.truncated && self.preview.trim().is_empty()
    }
}

/// The longest beginning of `text` that is at most `max` bytes and splits no character.
pub fn cut_at_boundary(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The longest end of `text` that is at most `max` bytes and splits no character.
pub fn tail_at_boundary(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut start = text.len() - max;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::{BoundedText, CUT_MARK, PREVIEW_BYTES, cut_at_boundary, tail_at_boundary};

    #[test]
    fn result_30_a_cut_never_splits_a_character() {
        for max in 0..20 {
            let head = cut_at_boundary("aé漢🦀b漢", max);
            assert!(head.len() <= max && "aé漢🦀b漢".starts_with(head));
            let tail = tail_at_boundary("aé漢🦀b漢", max);
            assert!(tail.len() <= max && "aé漢🦀b漢".ends_with(tail));
        }
        let long = "漢".repeat(PREVIEW_BYTES);
        let cut = BoundedText::cut(&long, String::from("d"));
        assert!(cut.preview.len() <= PREVIEW_BYTES && cut.preview.ends_with(CUT_MARK));
        assert_eq!(cut.bytes, long.len() as u64);
    }
}
