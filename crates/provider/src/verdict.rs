//! What an attempt came to, and texts of any size made fit to travel.

use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subagent_model::{BoundedText, Conclusion, Outcome, Quality};

/// A conclusion together with the whole result where its preview is not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What the run machine is told.
    pub conclusion: Conclusion,
    /// The whole result, to be stored beside the record.
    pub whole: Option<Arc<str>>,
}

impl Verdict {
    /// An end of which nothing is known.
    pub fn lost(evidence: impl Into<String>) -> Self {
        Self::without_text(Outcome::Lost { evidence: evidence.into() })
    }

    /// An end without any text.
    pub fn without_text(outcome: Outcome) -> Self {
        let conclusion =
            Conclusion { outcome, result: None, marks: vec![], quality: Quality::Unverified, exit: None };
        Self { conclusion, whole: None }
    }
}

/// A text as records carry it, and the whole of it where that is more.
pub fn bound(text: String) -> (BoundedText, Option<Arc<str>>) {
    if let Some(whole) = BoundedText::whole(&text) {
        return (whole, None);
    }
    let digest =
        Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut digest, byte| {
            // Writing to a string cannot fail.
            let _ = write!(digest, "{byte:02x}");
            digest
        });
    (BoundedText::cut(&text, digest), Some(Arc::from(text)))
}
