//! Numbers as people type and read them: whole limits, amounts of tokens, money.

/// What a limit may be.
const EXPECTED: &str = "give a whole number, 0 for no limit";

/// A whole limit such as `20`.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    u32::try_from(whole(text)?).map_err(|_| format!("{text} is too large"))
}

/// A whole amount such as `200000`, `200k` or `2M`.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.trim().char_indices().last() {
        Some((at, 'k' | 'K')) => (&text.trim()[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text.trim()[..at], 1_000_000),
        _ => (text, 1),
    };
    whole(digits)?.checked_mul(factor).ok_or_else(|| format!("{text} is too large"))
}

/// US dollars such as `2.50`.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let plain = text.trim().trim_start_matches('$');
    match plain.parse::<f64>() {
        Ok(money) if money < 0.0 => Err(format!("{text} is negative; give US dollars, 0 for no limit")),
        Ok(money) if money.is_finite() => Ok(money),
        _ => Err(format!("{text} is no amount of money; give US dollars such as 2.50, 0 for no limit")),
    }
}

fn whole(text: &str) -> Result<u64, String> {
    let plain = text.trim().replace('_', "");
    if plain.starts_with('-') {
        return Err(format!("{text} is negative; {EXPECTED}"));
    }
    match plain.parse() {
        Ok(number) => Ok(number),
        Err(_) if plain.parse::<f64>().is_ok_and(|number| number.fract() != 0.0) => {
            Err(format!("{text} is not whole; {EXPECTED}"))
        }
        Err(_) => Err(format!("{text} is no such number; {EXPECTED}")),
    }
}

/// Bytes in one unit.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} bytes"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        10_000_000..=9_999_999_999 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn of(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::{amount, bytes, count, dollars, of};

    #[test]
    fn queue_18_a_limit_is_whole_and_not_negative() {
        assert_eq!((count("0"), count("20"), count("1_000")), (Ok(0), Ok(20), Ok(1_000)));
        for (text, reason) in [
            ("-1", "negative"),
            ("2.5", "not whole"),
            ("ten", "no such number"),
            ("", "no such number"),
            ("99999999999", "too large"),
        ] {
            let error = count(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert_eq!((amount("200k"), amount("2M"), amount("7")), (Ok(200_000), Ok(2_000_000), Ok(7)));
        for text in ["-1", "1.5k", "k", "99999999999999999999", "99999999999999999M"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn queue_18_money_is_finite_and_not_negative() {
        assert_eq!((dollars("2.50"), dollars("$1"), dollars("0")), (Ok(2.5), Ok(1.0), Ok(0.0)));
        for text in ["-1", "NaN", "inf", "", "two"] {
            assert!(dollars(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_told_in_few_characters() {
        assert_eq!(
            [0, 12_345, 12_345_678, 12_345_678_901].map(bytes),
            ["0 bytes", "12 kB", "12 MB", "12 GB"]
        );
        assert_eq!([of(1, "run"), of(2, "run")], ["1 run", "2 runs"]);
    }
}
