//! One page for each stable error code, and their index, from the one table in the model.

use std::fmt::Write as _;

use subagent_model::ErrorCode;

use crate::generate::Files;

const NOTE: &str = "<!-- Written by `cargo xtask gen` from crates/model/src/error.rs. -->\n\n";

/// Adds the pages.
pub(crate) fn pages(files: &mut Files) {
    let mut codes: Vec<ErrorCode> = ErrorCode::ALL.to_vec();
    codes.sort_by_key(|code| code.as_str());
    for code in &codes {
        files.insert(format!("docs/errors/{code}.md"), page(*code));
    }
    files.insert("docs/errors/README.md".to_owned(), index(&codes));
}

fn page(code: ErrorCode) -> String {
    format!(
        "{NOTE}# `{code}`\n\n{meaning}\n\n## What to do\n\n{remedy}\n\n## How it shows\n\n\
         | Where | What |\n|---|---|\n\
         | JSON | `\"code\": \"{code}\"` |\n\
         | Exit code of the command line | {exit} ({class}) |\n\
         | HTTP status | {http} |\n\n\
         [All codes](README.md)\n",
        meaning = code.meaning(),
        remedy = code.remedy(),
        exit = code.exit_code(),
        class = class(code.exit_code()),
        http = code.http_status(),
    )
}

fn index(codes: &[ErrorCode]) -> String {
    let mut text = format!(
        "{NOTE}# Error codes\n\nEvery error has a code. Its word is stable: scripts may depend on it.\n\n\
         | Code | Exit | HTTP | Meaning |\n|---|---|---|---|\n"
    );
    for code in codes {
        let (exit, http, meaning) = (code.exit_code(), code.http_status(), code.meaning());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| [`{code}`]({code}.md) | {exit} | {http} | {meaning} |");
    }
    text
}

fn class(exit: u8) -> &'static str {
    match exit {
        1 => "it ended badly",
        2 => "wrong usage",
        3 => "not found, or ambiguous",
        4 => "refused",
        5 => "still pending",
        6 => "no daemon",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_and_a_line() {
        let mut files = Files::new();
        pages(&mut files);
        assert_eq!(files.len(), ErrorCode::ALL.len() + 1);
        let index = &files["docs/errors/README.md"];
        for code in ErrorCode::ALL {
            assert!(index.contains(&format!("({code}.md)")), "{code}");
            assert_ne!(class(code.exit_code()), "other", "{code}");
            // A bar would break the table.
            assert!(!code.meaning().contains('|'), "{code}");
        }
    }
}
