//! Files that go with prompts and messages: read once, when they are accepted, checked, and kept below the data directory
//! until the subagent's heavy parts are released. A file is named by its content, so the same one is kept once.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use subagent_model::request::AttachRequest;
use subagent_model::text::cut_at_boundary;
use subagent_model::{Attachment, ErrorCode, Problem};
use subagent_provider::Attached;

/// Most files of one prompt.
const MOST_FILES: usize = 16;
/// Most bytes of an image: in Base64 it has 5 MB, which is what model services take.
const MOST_IMAGE_BYTES: usize = 3_750_000;
/// Most bytes of a text: it becomes a part of the prompt.
const MOST_TEXT_BYTES: usize = 256 * 1024;
/// Most bytes of all of them: in Base64 they must fit into one line of a protocol.
const MOST_BYTES: usize = 10_000_000;
/// Longest name.
const LONGEST_NAME: usize = 128;

/// Files that were written and are of no accepted prompt yet: dropped, they are removed.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What the record will say of them.
    pub(crate) files: Vec<Attachment>,
    fresh: Vec<PathBuf>,
    dir: PathBuf,
}

impl Kept {
    /// They are accepted, or nobody knows that they are not.
    pub(crate) fn stay(mut self) {
        self.fresh.clear();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        for path in &self.fresh {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove a file that was not accepted");
            }
        }
        // Files of earlier prompts keep it.
        let _ = std::fs::remove_dir(&self.dir);
    }
}

fn invalid(message: String) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, message)
}

fn too_large(what: &str, limit: usize, used: usize) -> Problem {
    let message = format!("{what}: {used} bytes, the limit is {limit}");
    let mut problem =
        Problem::new(ErrorCode::PromptTooLarge, message).with_numbers(limit as u64, used as u64);
    problem.hint = Some(String::from("Make it smaller, or name the file in the prompt."));
    problem
}

/// Reads what is asked for, checks it, and writes it to `dir`. May hang on a file system: never on a thread that others wait
/// for.
pub(crate) fn keep(dir: PathBuf, requests: &[AttachRequest]) -> Result<Kept, Problem> {
    if requests.len() > MOST_FILES {
        let message = format!("{} files are attached, the limit is {MOST_FILES}", requests.len());
        return Err(Problem::new(ErrorCode::PromptTooLarge, message)
            .with_numbers(MOST_FILES as u64, requests.len() as u64));
    }
    let mut read = Vec::with_capacity(requests.len());
    let mut all = 0;
    for request in requests {
        let (name, content) = content_of(request)?;
        let media_type = media_type_of(&name, &content, request.media_type.as_deref())?;
        let image = media_type.starts_with("image/");
        let limit = if image { MOST_IMAGE_BYTES } else { MOST_TEXT_BYTES };
        if content.len() > limit {
            return Err(too_large(&format!("the attachment {name:?}"), limit, content.len()));
        }
        all += content.len();
        if all > MOST_BYTES {
            return Err(too_large("all attachments together", MOST_BYTES, all));
        }
        read.push((name, media_type, content));
    }
    let mut kept = Kept { files: Vec::new(), fresh: Vec::new(), dir };
    for (name, media_type, content) in read {
        let about = Attachment { name, media_type, bytes: content.len() as u64, sha256: digest(&content) };
        let path = kept.dir.join(file_name(&about));
        write(&kept.dir, &path, &content, &mut kept.fresh).map_err(|error| {
            Problem::new(code_of(&error), format!("cannot keep {:?}: {error}", about.name))
        })?;
        kept.files.push(about);
    }
    Ok(kept)
}

fn code_of(error: &io::Error) -> ErrorCode {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::StoreFull,
        _ => ErrorCode::StoreFailed,
    }
}

/// The name and the bytes.
fn content_of(request: &AttachRequest) -> Result<(String, Vec<u8>), Problem> {
    let given = request.name.as_deref();
    let (name, content) = match (&request.path, &request.data) {
        (Some(path), None) => {
            if !path.is_absolute() {
                return Err(invalid(format!("the path of an attachment must be absolute, not {path:?}")));
            }
            let content = read(path.as_std_path())
                .map_err(|error| invalid(format!("cannot read the attachment {path}: {error}")))?;
            (given.or(path.file_name()).unwrap_or_default(), content)
        }
        (None, Some(data)) => {
            let Some(name) = given else {
                return Err(invalid(String::from("an attachment that is given by its content needs a name")));
            };
            let content = STANDARD
                .decode(data.trim())
                .map_err(|error| invalid(format!("the content of {name:?} is not Base64: {error}")))?;
            (name, content)
        }
        _ => return Err(invalid(String::from("an attachment has either a path or its content as data"))),
    };
    if name.trim().is_empty()
        || name.len() > LONGEST_NAME
        || name.contains(['/', '\\'])
        || name.chars().any(char::is_control)
    {
        let name = cut_at_boundary(name, LONGEST_NAME);
        return Err(invalid(format!(
            "the name of an attachment has 1 to {LONGEST_NAME} bytes and no directory, unlike {name:?}"
        )));
    }
    Ok((name.to_owned(), content))
}

/// The bytes of an ordinary file, no more than could be accepted and one.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Others may never end, or hang before they begin.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no ordinary file"));
    }
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// What it is: by its first bytes for images, by its name for texts.
fn media_type_of(name: &str, content: &[u8], said: Option<&str>) -> Result<String, Problem> {
    let said = said.map(str::to_ascii_lowercase);
    let image = match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    };
    if let Some(image) = image {
        let fits =
            said.as_ref().is_none_or(|said| said == image || (said == "image/jpg" && image == "image/jpeg"));
        return if fits {
            Ok(image.to_owned())
        } else {
            Err(invalid(format!("{name:?} is said to be {}, and is {image}", said.unwrap_or_default())))
        };
    }
    if content.contains(&0) || std::str::from_utf8(content).is_err() {
        return Err(invalid(format!(
            "{name:?} is neither an image (PNG, JPEG, GIF, WebP) nor a text in UTF-8; name the file in the prompt instead"
        )));
    }
    if content.is_empty() {
        return Err(invalid(format!("the attachment {name:?} is empty")));
    }
    match said {
        Some(said) if said.starts_with("image/") => {
            Err(invalid(format!("{name:?} is said to be {said}, and is a text")))
        }
        Some(said)
            if said.len() <= LONGEST_NAME && said.contains('/') && !said.chars().any(char::is_control) =>
        {
            Ok(said)
        }
        Some(said) => Err(invalid(format!("{:?} is no media type", cut_at_boundary(&said, LONGEST_NAME)))),
        None => Ok(String::from(text_type(name))),
    }
}

fn text_type(name: &str) -> &'static str {
    let extension = Path::new(name).extension().and_then(|it| it.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "json" => "application/json",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "xml" | "svg" => "text/xml",
        "yaml" | "yml" => "application/yaml",
        _ => "text/plain",
    }
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Its name where it is kept. Some programs go by the end of a name.
fn file_name(about: &Attachment) -> String {
    let end = match about.media_type.as_str() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => "txt",
    };
    format!("{}.{end}", about.sha256)
}

/// Writes a file so that it is there as a whole, or not at all, also after a crash.
fn write(dir: &Path, path: &Path, content: &[u8], fresh: &mut Vec<PathBuf>) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if path.exists() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let part = path.with_extension(format!("{}.part", uuid::Uuid::now_v7()));
    let written = (|| {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&part, path)?;
        std::fs::File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    } else {
        fresh.push(path.to_owned());
    }
    written
}

/// The files of a prompt or message with their content. May hang on a file system.
pub(crate) fn load(dir: &Path, files: &[Attachment]) -> Result<Vec<Attached>, Problem> {
    files
        .iter()
        .map(|about| {
            let path = dir.join(file_name(about));
            let damaged = |why: String| {
                let message = format!("the attachment {:?} cannot be read: {why}", about.name);
                Problem::new(ErrorCode::DamagedRecord, message)
            };
            let content = std::fs::read(&path).map_err(|error| damaged(error.to_string()))?;
            if digest(&content) != about.sha256 {
                return Err(damaged(String::from("its content has changed")));
            }
            Ok(Attached { about: about.clone(), path, content: Arc::from(content) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::path::Path;

    use subagent_model::ErrorCode;
    use subagent_model::request::AttachRequest;

    use super::{MOST_IMAGE_BYTES, MOST_TEXT_BYTES, STANDARD, keep, load};
    use base64::Engine as _;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    fn by_value(name: &str, content: &[u8]) -> AttachRequest {
        AttachRequest {
            data: Some(STANDARD.encode(content)),
            name: Some(name.to_owned()),
            ..AttachRequest::default()
        }
    }

    fn by_path(path: &Path) -> AttachRequest {
        AttachRequest { path: Some(path.to_str().unwrap().into()), ..AttachRequest::default() }
    }

    #[test]
    fn files_are_known_by_their_content_and_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("a.md");
        std::fs::write(&source, "text").unwrap();
        let at = dir.path().join("kept/x");
        let kept =
            keep(at.clone(), &[by_value("p", PNG), by_path(&source), by_value("again.png", PNG)]).unwrap();
        let files = kept.files.clone();
        let told: Vec<_> =
            files.iter().map(|it| (it.name.as_str(), it.media_type.as_str(), it.bytes)).collect();
        assert_eq!(
            told,
            [("p", "image/png", 12), ("a.md", "text/markdown", 4), ("again.png", "image/png", 12)]
        );
        kept.stay();
        // What the caller does with its file later changes nothing.
        std::fs::write(&source, "other").unwrap();
        let loaded = load(&at, &files).unwrap();
        assert_eq!((&*loaded[0].content, &*loaded[1].content), (PNG, &b"text"[..]));
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 2);
        // A prompt that is not accepted takes its own files with it, and no other.
        drop(keep(at.clone(), &[by_value("p", PNG), by_value("new.txt", b"new")]).unwrap());
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 2);
        drop(keep(dir.path().join("kept/y"), &[by_value("new.txt", b"new")]).unwrap());
        assert!(!dir.path().join("kept/y").exists());
        std::fs::write(&loaded[1].path, "forged").unwrap();
        assert_eq!(load(&at, &files).unwrap_err().code, ErrorCode::DamagedRecord);
    }

    #[test]
    fn what_cannot_be_attached_is_refused_with_the_reason_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("x");
        let refused = |request: AttachRequest| {
            let problem = keep(at.clone(), &[by_value("good.txt", b"good"), request]).unwrap_err();
            assert!(!at.exists(), "{problem:?}");
            (problem.code, problem.message)
        };
        let typed = |kind: &str, content: &[u8]| AttachRequest {
            media_type: Some(kind.to_owned()),
            ..by_value("it", content)
        };
        for (request, why) in [
            (AttachRequest::default(), "either a path or its content"),
            (by_path(Path::new("relative.png")), "must be absolute"),
            (by_path(&dir.path().join("gone.png")), "cannot read the attachment"),
            (by_path(dir.path()), "no ordinary file"),
            (by_path(Path::new("/dev/zero")), "no ordinary file"),
            (by_value("a/b", b"x"), "no directory"),
            (by_value("", b"x"), "no directory"),
            (by_value("it", b""), "is empty"),
            (by_value("it", b"\xff\xfe"), "neither an image"),
            (by_value("it", b"%PDF-1.7\0"), "neither an image"),
            (typed("image/png", b"text"), "is a text"),
            (typed("image/gif", PNG), "and is image/png"),
            (typed("nonsense", b"text"), "no media type"),
            (AttachRequest { data: Some(String::from("*")), ..by_value("it", b"") }, "not Base64"),
            (AttachRequest { name: None, ..by_value("it", b"x") }, "needs a name"),
        ] {
            let (code, message) = refused(request);
            assert_eq!(code, ErrorCode::InvalidRequest, "{message}");
            assert!(message.contains(why), "{message}");
        }
        let mut large = PNG.to_vec();
        large.resize(MOST_IMAGE_BYTES + 1, 0);
        assert_eq!(refused(by_value("it", &large)).0, ErrorCode::PromptTooLarge);
        assert_eq!(refused(by_value("it", &vec![b'a'; MOST_TEXT_BYTES + 1])).0, ErrorCode::PromptTooLarge);
        large.truncate(MOST_IMAGE_BYTES);
        let three = vec![by_value("it", &large); 3];
        assert!(keep(at.clone(), &three).unwrap_err().message.contains("together"));
        assert_eq!(keep(at, &vec![by_value("it", b"x"); 17]).unwrap_err().limit, Some(16));
    }
}
