//! Aligned rows that never grow over the width of the terminal.

use super::look::Paint;
use super::text;

/// The widest a column but the last becomes.
const WIDEST: usize = 40;

/// One field of a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A field in the plain colour. Control codes are taken out.
    pub(crate) fn plain(text: &str) -> Self {
        Self::painted(text, Paint::Plain)
    }

    /// A field in a colour. Control codes are taken out.
    pub(crate) fn painted(text: &str, paint: Paint) -> Self {
        Self { text: text::line(text), paint }
    }

    /// A field whose blanks count, such as the branches of a tree.
    pub(crate) fn exact(text: String, paint: Paint) -> Self {
        Self { text, paint }
    }
}

/// The rows as lines: columns aligned and two blanks apart. With a width, no line is wider.
pub(crate) fn aligned(rows: &[Vec<Cell>], width: Option<usize>, colour: bool) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let widest =
                rows.iter().filter_map(|row| row.get(column)).map(|cell| text::width(&cell.text)).max();
            widest.unwrap_or(0).min(WIDEST)
        })
        .collect();
    rows.iter().map(|row| one(row, &widths, width, colour)).collect()
}

fn one(row: &[Cell], widths: &[usize], width: Option<usize>, colour: bool) -> String {
    let mut line = String::new();
    let mut left = width.unwrap_or(usize::MAX);
    for (column, cell) in row.iter().enumerate() {
        let last = column + 1 == row.len();
        let place = if last { left } else { widths.get(column).copied().unwrap_or(0).min(left) };
        let shown = text::fit(&cell.text, place);
        let used = text::width(&shown);
        line.push_str(&cell.paint.on(&shown, colour));
        left -= used.min(left);
        if !last {
            let gap = (place.saturating_sub(used) + 2).min(left);
            line.push_str(&" ".repeat(gap));
            left -= gap;
        }
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::{Cell, aligned};
    use crate::view::look::Paint;
    use crate::view::text;

    fn sample() -> Vec<Vec<Cell>> {
        vec![
            vec![Cell::plain("HANDLE"), Cell::plain("STATUS"), Cell::plain("DESCRIPTION")],
            vec![
                Cell::plain("k7q2mx"),
                Cell::painted("running", Paint::Cyan),
                Cell::plain("漢字 \u{1b}[31mwide\n and wild"),
            ],
        ]
    }

    #[test]
    fn ui_08_no_line_is_over_the_width() {
        for width in 1..=200 {
            for line in aligned(&sample(), Some(width), false) {
                assert!(text::width(&line) <= width, "{line:?} at {width}");
                assert!(!line.contains('\u{1b}'));
            }
        }
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_in_a_pipe() {
        let lines = aligned(&sample(), None, false);
        assert_eq!(lines[0], "HANDLE  STATUS   DESCRIPTION");
        assert_eq!(lines[1], "k7q2mx  running  漢字 wide and wild");
    }
}
