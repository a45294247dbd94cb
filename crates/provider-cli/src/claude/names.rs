//! Names that Claude Code is given by us: its session, and each line that we say. They are made from the attempt and from
//! what they name, never drawn, so that whoever takes a conversation over knows what a line was by its name alone.

use sha2::{Digest, Sha256};
use subagent_model::{AttemptKey, MessageNumber};
use uuid::Uuid;

/// The id of the session that an attempt begins.
pub(super) fn session(key: &AttemptKey) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest(key)[..16]);
    version_8(bytes).to_string()
}

/// What a line of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// The prompt of the run, or what the runtime itself says.
    Prompt,
    /// A message, as the next prompt.
    Message(MessageNumber),
    /// A message into the open turn.
    Steer(MessageNumber),
}

/// Names the lines of one attempt. Claude Code drops a line whose name it has met before in the same session, be it in
/// another process; so the attempt and a count are in it as well as the number of the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LineNames {
    attempt: [u8; 5],
    next: u16,
}

impl LineNames {
    pub(super) fn of(key: &AttemptKey) -> Self {
        let mut attempt = [0; 5];
        attempt.copy_from_slice(&digest(key)[16..21]);
        Self { attempt, next: 0 }
    }

    /// A name for the next line.
    pub(super) fn name(&mut self, kind: LineKind) -> Uuid {
        let (word, number) = match kind {
            LineKind::Prompt => (0_u128, 0),
            LineKind::Message(number) => (1, number.0),
            LineKind::Steer(number) => (2, number.0),
        };
        // 40 bits for the attempt, 2 for the kind, 16 for the count, 64 for the number: what a UUID leaves free.
        let attempt = self.attempt.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        let free = attempt << 82 | word << 80 | u128::from(self.next) << 64 | u128::from(number);
        self.next = self.next.wrapping_add(1);
        let (high, middle, low) = (free >> 74, free >> 62 & 0xfff, free & (u128::MAX >> 66));
        version_8((high << 80 | middle << 64 | low).to_be_bytes())
    }

    /// What the line of this name was, if it is one of ours. The next name comes after it.
    pub(super) fn recall(&mut self, name: Uuid) -> Option<LineKind> {
        let (kind, count) = self.read(name)?;
        self.next = count.wrapping_add(1);
        Some(kind)
    }

    /// What the line of this name was, if it is one of this attempt's.
    pub(super) fn kind(&self, name: Uuid) -> Option<LineKind> {
        self.read(name).map(|(kind, _)| kind)
    }

    fn read(&self, name: Uuid) -> Option<(LineKind, u16)> {
        let bits = name.as_u128();
        let free = (bits >> 80) << 74 | (bits >> 64 & 0xfff) << 62 | bits & (u128::MAX >> 66);
        let attempt = self.attempt.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        if version_8(name.into_bytes()) != name || free >> 82 != attempt {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "each part is as wide as what it goes into")]
        let (number, count) = (MessageNumber(free as u64), (free >> 64) as u16);
        let kind = match free >> 80 & 3 {
            0 if number.0 == 0 => LineKind::Prompt,
            1 => LineKind::Message(number),
            2 => LineKind::Steer(number),
            _ => return None,
        };
        Some((kind, count))
    }
}

fn digest(key: &AttemptKey) -> [u8; 32] {
    Sha256::digest(key.to_string().as_bytes()).into()
}

/// A UUID of version 8 (RFC 9562): its other bits are free.
fn version_8(mut bytes: [u8; 16]) -> Uuid {
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use subagent_model::{AttemptKey, AttemptNumber, MessageNumber, RunNumber, SubagentId};
    use uuid::Uuid;

    use super::{LineKind, LineNames, session};

    fn key(attempt: u32) -> AttemptKey {
        let subagent = SubagentId::from_uuid(Uuid::from_u128(7));
        AttemptKey { subagent, run: RunNumber(1), attempt: AttemptNumber(attempt) }
    }

    #[test]
    fn names_are_the_same_for_the_same_attempt_and_no_two_lines_share_one() {
        assert_eq!(session(&key(1)), session(&key(1)));
        let mut seen = BTreeSet::from([session(&key(1)), session(&key(2))]);
        for attempt in 1..4 {
            let mut names = LineNames::of(&key(attempt));
            for kind in [LineKind::Prompt, LineKind::Prompt, LineKind::Steer(MessageNumber(1))] {
                seen.insert(names.name(kind).to_string());
            }
            // A message that came back is said again.
            seen.insert(names.name(LineKind::Steer(MessageNumber(1))).to_string());
        }
        assert_eq!(seen.len(), 14);
    }

    proptest! {
        #[test]
        fn a_name_tells_what_the_line_was(number: u64, before in 0_u16..9, kind in 0..3) {
            let mut names = LineNames::of(&key(3));
            for _ in 0..before {
                names.name(LineKind::Prompt);
            }
            let kind = match kind {
                0 => LineKind::Prompt,
                1 => LineKind::Message(MessageNumber(number)),
                _ => LineKind::Steer(MessageNumber(number)),
            };
            let name = names.name(kind);
            prop_assert_eq!((name.get_version_num(), names.kind(name)), (8, Some(kind)));
            let mut next = LineNames::of(&key(3));
            prop_assert_eq!(next.recall(name), Some(kind));
            prop_assert_eq!(next, names);
            prop_assert_eq!(LineNames::of(&key(4)).kind(name), None);
        }

        #[test]
        fn no_other_name_is_taken_for_one_of_ours(bits: u128) {
            prop_assert_eq!(LineNames::of(&key(3)).kind(Uuid::from_u128(bits)), None);
        }
    }
}
