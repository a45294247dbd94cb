//! Bytes of tokens as text: whole characters only, and nothing of a stop sequence. Pure.

/// Collects bytes, and gives out what is certain.
#[derive(Default)]
pub struct Collector {
    stops: Vec<String>,
    bytes: Vec<u8>,
    given: usize,
}

impl Collector {
    /// That ends before the first of `stops`.
    pub fn new(stops: Vec<String>) -> Self {
        Self { stops, bytes: Vec::new(), given: 0 }
    }

    /// Takes bytes. Returns what can be given out now, and whether a stop sequence was reached.
    pub fn push(&mut self, bytes: &[u8]) -> (String, bool) {
        self.bytes.extend_from_slice(bytes);
        let open = &self.bytes[self.given..];
        let found = self.stops.iter().filter_map(|stop| find(open, stop.as_bytes())).min();
        if let Some(at) = found {
            let text = String::from_utf8_lossy(&open[..at]).into_owned();
            self.given = self.bytes.len();
            return (text, true);
        }
        let held = self.stops.iter().map(|stop| overlap(open, stop.as_bytes())).max().unwrap_or(0);
        let sure = &open[..open.len() - held];
        let whole = match std::str::from_utf8(sure) {
            Ok(_) => sure.len(),
            // The rest of the character is still to come, unless these bytes can be none.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => sure.len(),
        };
        let text = String::from_utf8_lossy(&sure[..whole]).into_owned();
        self.given += whole;
        (text, false)
    }

    /// What was held back, when nothing more comes.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.bytes[self.given..]).into_owned();
        self.given = self.bytes.len();
        text
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len().max(1)).position(|window| window == part)
}

/// How much of the end of `text` is a beginning of `part`.
fn overlap(text: &[u8], part: &[u8]) -> usize {
    (1..part.len().min(text.len() + 1)).rev().find(|length| text.ends_with(&part[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_comes_in_pieces_is_not_given_out() {
        let mut it = Collector::new(vec!["END".to_owned()]);
        assert_eq!(it.push(b"one E"), ("one ".to_owned(), false));
        assert_eq!(it.push(b"N"), (String::new(), false));
        assert_eq!(it.push(b"x E"), ("ENx ".to_owned(), false));
        assert_eq!(it.push(b"NDmore"), (String::new(), true));
        assert_eq!(it.finish(), "");
    }

    #[test]
    fn characters_stay_whole() {
        let mut it = Collector::default();
        let bytes = "aé€".as_bytes();
        assert_eq!(it.push(&bytes[..2]), ("a".to_owned(), false));
        assert_eq!(it.push(&bytes[2..5]), ("é".to_owned(), false));
        assert_eq!(it.push(&bytes[5..]), ("€".to_owned(), false));
        it.push(&[0xE2]);
        assert_eq!(it.finish(), "\u{FFFD}");
    }
}
