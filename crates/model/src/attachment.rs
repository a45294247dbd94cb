//! Files that go with a prompt or a message: what a record says of them. Their bytes are kept beside the record, as long
//! prompts are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file that goes with a prompt or a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// Its name, for the child and for people: without any directory.
    pub name: String,
    /// What it is: `image/png`, `image/jpeg`, `image/gif`, `image/webp`, or a text such as `text/plain`.
    pub media_type: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 of its content, lower-case hex.
    pub sha256: String,
}

impl Attachment {
    /// It is an image; everything else is text in UTF-8.
    pub fn is_image(&self) -> bool {
        self.media_type.starts_with("image/")
    }
}
