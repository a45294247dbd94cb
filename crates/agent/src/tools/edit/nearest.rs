//! For a text that is not in a file: the place that is most like it, and what is different there. Pure and bounded.

use std::fmt::Write as _;

/// The place that is most like what was looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Near {
    /// Its first line, from 1.
    pub(super) line: usize,
    /// The lines there, with their numbers, bounded.
    pub(super) text: String,
    /// What is different, a sentence.
    pub(super) why: String,
}

/// The most lines of a file that are compared.
const MAX_LINES: usize = 50_000;
/// The most lines of the wanted text that are compared, for each line of the file.
const MAX_WANTED: usize = 40;
/// The most that is shown.
const MAX_SHOWN: usize = 20;
/// The most characters of a line.
const MAX_LINE: usize = 300;

pub(super) fn nearest(text: &str, wanted: &str) -> Option<Near> {
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    let all: Vec<&str> = wanted.lines().collect();
    let wanted: Vec<&str> = all.iter().copied().take(MAX_WANTED).collect();
    if lines.is_empty() || wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    // Texts of one line may stand within a line.
    let mut best = (0.0_f64, 0);
    for start in 0..lines.len() {
        let mut score = 0.0;
        for (index, want) in wanted.iter().enumerate() {
            score += lines.get(start + index).map_or(0.0, |line| likeness(line, want));
        }
        if score > best.0 {
            best = (score, start);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "at most forty")]
    let (score, start) = (best.0 / wanted.len() as f64, best.1);
    if score < 0.4 {
        return None;
    }
    let mut shown = String::new();
    for (index, line) in lines.iter().enumerate().skip(start).take(all.len().clamp(1, MAX_SHOWN)) {
        let _ = writeln!(shown, "{:>6}: {}", index + 1, cut(line));
    }
    if all.len() > MAX_SHOWN {
        let _ = writeln!(shown, "        [... {} more lines]", all.len() - MAX_SHOWN);
    }
    Some(Near { line: start + 1, text: shown, why: difference(&lines[start..], &all) })
}

/// How like two lines are, from 0 to 1: white space at the ends does not count much.
fn likeness(line: &str, want: &str) -> f64 {
    let (a, b) = (line.trim(), want.trim());
    if line == want {
        return 1.0;
    }
    if a == b {
        return 0.95;
    }
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    if squeezed(a).eq(squeezed(b)) {
        return 0.9;
    }
    let longest = a.len().max(b.len());
    // The same beginning and the same end: what an edit that went by memory looks like.
    let front = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let room = a.len().min(b.len()) - front;
    let back = a.bytes().rev().zip(b.bytes().rev()).take(room).take_while(|(a, b)| a == b).count();
    #[expect(clippy::cast_precision_loss, reason = "lengths of lines")]
    let same = (front + back) as f64 / longest as f64;
    same * 0.85
}

/// The characters that are no white space.
fn squeezed(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace())
}

fn difference(lines: &[&str], wanted: &[&str]) -> String {
    let numbered = |line: &&str| {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < line.trim_start().len() && rest.starts_with([':', '\t', '|', '→'])
    };
    if wanted.iter().all(numbered) && !lines.iter().take(wanted.len()).all(numbered) {
        return String::from("old_text begins with line numbers, which are not in the file.");
    }
    let pairs = || wanted.iter().zip(lines);
    let Some((want, line)) = pairs().find(|(want, line)| want != line) else {
        return if lines.len() < wanted.len() {
            String::from("The file ends before old_text does.")
        } else {
            String::from("Only the end of a line is different.")
        };
    };
    if pairs().all(|(want, line)| squeezed(want).eq(squeezed(line))) && lines.len() >= wanted.len() {
        let indent = |text: &str| text[..text.len() - text.trim_start().len()].to_owned();
        let (there, given) = (indent(line), indent(want));
        return if there.contains('\t') != given.contains('\t') && there != given {
            format!(
                "Only white space is different: the file indents with {}.",
                if there.contains('\t') { "tabs" } else { "spaces" }
            )
        } else {
            String::from("Only white space is different.")
        };
    }
    format!(
        "The first difference: the file has `{}` where old_text has `{}`.",
        cut(line.trim()),
        cut(want.trim())
    )
}

fn cut(line: &str) -> String {
    super::text::one_line(&line.replace('\t', "    "), MAX_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn one() {\n    let x = 1;\n}\n\nfn two() {\n\tlet y = 2;\n\tcall(y);\n}\n";

    #[test]
    fn the_place_that_was_meant_is_found() {
        let near = nearest(FILE, "fn two() {\n    let y = 2;").unwrap();
        assert_eq!(near.line, 5);
        assert!(near.why.contains("white space"), "{}", near.why);
        let near = nearest(FILE, "\tlet y = 3;\n\tcall(y);\n").unwrap();
        assert_eq!(near.line, 6);
        assert!(near.why.contains("`let y = 2;` where old_text has `let y = 3;`"), "{}", near.why);
        assert!(near.text.contains("     6:     let y = 2;"), "{}", near.text);
    }

    #[test]
    fn usual_mistakes_have_a_name() {
        let near = nearest(FILE, "        let y = 2;\n    call(y);").unwrap();
        assert!(near.why.contains("indents with tabs"), "{}", near.why);
        let near = nearest(FILE, "1: fn one() {\n2:     let x = 1;").unwrap();
        assert!(near.why.contains("line numbers"), "{}", near.why);
    }

    #[test]
    fn nothing_alike_is_said() {
        assert_eq!(nearest(FILE, "zzzz qqqq\nwwww"), None);
        assert_eq!(nearest("", "a"), None);
        assert_eq!(nearest(FILE, " \n \n"), None);
    }

    #[test]
    fn strange_texts_do_no_harm() {
        for text in ["ä\u{0}ö\u{202e}", "\r\r\n\n", "a\u{301}"] {
            for wanted in ["ä", "ö\nä", "\u{301}a", "a"] {
                let _ = nearest(text, wanted);
            }
        }
        let long = "x y\n".repeat(60_000);
        assert!(nearest(&long, &"x  y\n".repeat(100)).is_some());
    }
}
