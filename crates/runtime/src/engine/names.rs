//! Making ids and handles: the one place that needs randomness.

use subagent_model::{Handle, SubagentId};
use uuid::Uuid;

/// Letters that are no hexadecimal digits: a handle is never mistaken for the beginning of an id.
const FIRST: &[u8; 16] = b"ghjkmnpqrstuvwxy";
/// No letters that look like others.
const REST: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A new id.
pub(crate) fn new_id() -> SubagentId {
    SubagentId::from_uuid(Uuid::now_v7())
}

/// A new handle of `length` characters.
pub(crate) fn new_handle(length: usize) -> Handle {
    // The lower 62 bits of a UUID v7 are random (RFC 9562, section 5.7).
    let mut bits = Uuid::now_v7().as_u128() & ((1 << 62) - 1);
    let mut take = |alphabet: &[u8]| {
        let size = alphabet.len() as u128;
        let letter = usize::try_from(bits % size).map_or(b'x', |index| alphabet[index]);
        bits /= size;
        char::from(letter)
    };
    let mut text = String::from(take(FIRST));
    text.extend((1..length).map(|_| take(REST)));
    Handle(text)
}

#[cfg(test)]
mod tests {
    use super::new_handle;

    #[test]
    fn handles_have_the_asked_length_and_never_begin_like_an_id() {
        for length in 4..12 {
            let handle = new_handle(length);
            assert_eq!(handle.as_str().len(), length);
            assert!(!handle.as_str().starts_with(|first: char| first.is_ascii_hexdigit()));
        }
    }
}
