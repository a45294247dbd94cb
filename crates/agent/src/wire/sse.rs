//! Server-sent events: from pieces of bytes to the data of whole events. Lines are bounded.

use subagent_model::ErrorCode;

use crate::failure::Failure;

/// Most bytes of one event.
const MOST_BYTES: usize = 16 << 20;

/// The events of a stream.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    data: String,
    after_return: bool,
}

impl Events {
    /// Takes a piece in; gives the data of the events that are whole now.
    pub fn take(&mut self, piece: &[u8]) -> Result<Vec<String>, Failure> {
        let mut whole = Vec::new();
        for byte in piece {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => whole.extend(self.end_of_line()),
                _ if self.line.len() + self.data.len() > MOST_BYTES => {
                    return Err(Failure::new(
                        ErrorCode::Protocol,
                        "an event of the endpoint's answer has no end",
                    ));
                }
                byte => self.line.push(*byte),
            }
            self.after_return = *byte == b'\r';
        }
        Ok(whole)
    }

    /// What is left at the end of the stream: some servers end it without the last empty line.
    pub fn rest(&mut self) -> Option<String> {
        self.end_of_line().or_else(|| self.end_of_event())
    }

    fn end_of_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_of_event();
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        None
    }

    fn end_of_event(&mut self) -> Option<String> {
        (!self.data.is_empty()).then(|| std::mem::take(&mut self.data))
    }
}

#[cfg(test)]
mod tests {
    use super::Events;

    #[test]
    fn events_are_the_same_however_they_are_cut_and_ended() {
        let stream = "event: a\r\ndata: one\r\n\r\n: comment\ndata:two\ndata: more é\n\ndata: last";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let mut all = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                all.extend(events.take(piece).unwrap());
            }
            all.extend(events.rest());
            assert_eq!(all, ["one", "two\nmore é", "last"], "pieces of {size}");
        }
    }
}
