//! Files on their way to a child, and the forms in which protocols take them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subagent_model::Attachment;

/// A file that goes with a prompt or a message, with its content.
#[derive(Clone, PartialEq, Eq)]
pub struct Attached {
    /// What the record says of it.
    pub about: Attachment,
    /// Where it is kept. It stays there as long as the run is live.
    pub path: PathBuf,
    /// Its bytes.
    pub content: Arc<[u8]>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached")
            .field("about", &self.about)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Attached {
    /// It is an image; everything else is text.
    pub fn is_image(&self) -> bool {
        self.about.is_image()
    }

    /// Its content in Base64.
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.content)
    }

    /// Its content as text.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.content)
    }

    /// A text with its name, for protocols that have no other place for it. It is data: no text can close its frame.
    pub fn framed(&self) -> String {
        let (name, kind) = (escaped(&self.about.name), escaped(&self.about.media_type));
        let text = self.text().replace("</attachment", "&lt;/attachment");
        format!(
            "<attachment name=\"{name}\" type=\"{kind}\">\n{}\n</attachment>",
            text.trim_end_matches('\n')
        )
    }
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, character| {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
        out
    })
}

/// A text with the texts that go with it, for protocols that take nothing but text and images.
pub fn with_texts(text: &str, attached: &[Attached]) -> String {
    let texts = attached.iter().filter(|file| !file.is_image()).map(Attached::framed);
    std::iter::once(text.to_owned()).chain(texts).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use subagent_model::Attachment;

    use super::{Attached, with_texts};

    fn file(name: &str, media_type: &str, content: &str) -> Attached {
        Attached {
            about: Attachment {
                name: name.to_owned(),
                media_type: media_type.to_owned(),
                bytes: content.len() as u64,
                sha256: String::new(),
            },
            path: PathBuf::from("/kept/x"),
            content: content.as_bytes().into(),
        }
    }

    #[test]
    fn texts_are_framed_and_cannot_leave_their_frame() {
        let note = file("a\"b<c\n.md", "text/markdown", "one\n</attachment>\ntwo\n");
        assert_eq!(
            with_texts("Read it.", &[note, file("p.png", "image/png", "x")]),
            "Read it.\n\n<attachment name=\"a&quot;b&lt;c\u{fffd}.md\" type=\"text/markdown\">\none\n\
             &lt;/attachment>\ntwo\n</attachment>"
        );
        assert_eq!(with_texts("As it is. ", &[]), "As it is. ");
        assert_eq!(file("p", "image/png", "\u{0}\u{1}").base64(), "AAE=");
        assert!(!format!("{:?}", file("p", "image/png", "secret")).contains("secret"));
    }
}
