//! Durations as people type and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use subagent_model::Timestamp;

/// Units by their names, longest names first where one begins another.
const UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// `500ms`, `10s`, `5m`, `2h`, `1d`, and sums such as `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let expected = "expected a duration such as 500ms, 10s, 5m, 2h, 1d or 1h30m";
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(String::from(expected));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let letters = rest[digits..].chars().take_while(char::is_ascii_alphabetic).count();
        let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
        rest = &rest[digits + letters..];
        let number: u64 = number.parse().map_err(|_| String::from(expected))?;
        if unit.is_empty() && rest.is_empty() {
            return Err(format!("{number} of which unit? {expected}"));
        }
        let (_, factor) =
            UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| String::from(expected))?;
        total = number
            .checked_mul(*factor)
            .and_then(|millis| total.checked_add(millis))
            .ok_or_else(|| String::from("the duration is too long"))?;
    }
    Ok(Duration::from_millis(total))
}

/// The same, and longer than nothing.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err(String::from("it must be longer than nothing")),
        duration => Ok(duration),
    }
}

/// A duration in two units at most.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..=9 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        10..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A duration in one unit, for narrow columns.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m", seconds / 60),
        3_600..=86_399 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The present time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A moment to the second, and how long ago it was.
pub(crate) fn moment(at: Timestamp) -> String {
    let full = at.to_string();
    let (stamp, _) = full.split_once('.').unwrap_or((full.trim_end_matches('Z'), ""));
    format!("{}Z ({} ago)", stamp, human(now().since(at)))
}

/// How far ahead a moment is.
pub(crate) fn ahead(at: Timestamp) -> String {
    match at.since(now()) {
        Duration::ZERO => String::from("now"),
        left => format!("in {}", human(left)),
    }
}

/// Milliseconds as the requests take them.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{human, parse, parse_positive, short};
    use std::time::Duration;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            (" 1m5s ", 65_000),
            ("0s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_what_one_is() {
        for text in
            ["", "abc", "4abc", "-1s", "1.5h", "10 s", "s", "5x", "10s5", "漢", "99999999999999999999d"]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("500ms"), "{text}: {error}");
        }
        assert!(parse("10").unwrap_err().contains("10 of which unit"));
        assert!(parse("9999999999999999d").unwrap_err().contains("too long"));
        assert!(parse_positive("0ms").is_err());
    }

    #[test]
    fn durations_are_told_in_few_characters() {
        let told: Vec<_> = [999, 1_500, 59_999, 61_000, 3_700_000, 90_000_000]
            .map(Duration::from_millis)
            .iter()
            .map(|duration| (human(*duration), short(*duration)))
            .collect();
        let expected = [
            ("999ms", "0s"),
            ("1.5s", "1s"),
            ("59s", "59s"),
            ("1m01s", "1m"),
            ("1h01m", "1h"),
            ("1d01h", "1d"),
        ];
        for ((human, short), (long, brief)) in told.iter().zip(expected) {
            assert_eq!((human.as_str(), short.as_str()), (long, brief));
        }
    }
}
