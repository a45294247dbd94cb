//! Texts that are made from the machine and committed: compared, or written anew under `SUBAGENT_BLESS=1`.

/// Compares with the committed text, or under `SUBAGENT_BLESS=1` writes it anew. `path` is from the top of the
/// repository.
pub fn blessed_or_equal(path: &str, committed: &str, made: &str) {
    #[expect(clippy::disallowed_methods, reason = "a test is told by its environment to write the file anew")]
    let bless = std::env::var_os("SUBAGENT_BLESS").is_some();
    if bless {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "it writes the committed file anew")]
        std::fs::write(path, made).unwrap();
    } else if committed != made {
        let lines = committed.lines().zip(made.lines()).filter(|(old, new)| old != new).take(12);
        let changed: Vec<_> = lines.map(|(old, new)| format!("- {old}\n+ {new}")).collect();
        panic!(
            "{path} is out of date; `SUBAGENT_BLESS=1` writes it anew. Its first changes:\n{}",
            changed.join("\n")
        );
    }
}
