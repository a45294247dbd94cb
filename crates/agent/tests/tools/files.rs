//! Reading, writing, editing, searching: what a model does all day.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::json;

use super::{World, text};

#[tokio::test]
async fn a_file_is_read_edited_and_written() {
    let world = World::new();
    let path = world.put("src/a.rs", "fn one() {}\nfn two() {}\n");
    assert_eq!(world.done("read", json!({ "path": "src/a.rs" })).await, "fn one() {}\nfn two() {}\n");
    // Names of parameters as other agents have them, and a number as a text.
    let said = world.done("Read", json!({ "file_path": "src/a.rs", "offset": "2", "limit": 1.0 })).await;
    assert_eq!(said, "fn two() {}\n[lines 2-2; the file ends here]");
    let edit = json!({ "path": "src/a.rs", "old_string": "two", "new_string": "three" });
    assert_eq!(world.done("edit", edit).await, "edited src/a.rs at line 2");
    assert_eq!(text(&path), "fn one() {}\nfn three() {}\n");
    assert_eq!(
        world.done("write", json!({ "path": "src/a.rs", "content": "x" })).await,
        "replaced src/a.rs (1 bytes)"
    );
    let said = world.done("write", json!({ "path": "new/deep/b", "content": "" })).await;
    assert_eq!(said, "made new/deep/b (0 bytes)");
    assert_eq!(world.done("read", json!({ "path": "new/deep/b" })).await, "[the file is empty]");
}

#[tokio::test]
async fn what_the_model_has_not_seen_is_not_overwritten() {
    let world = World::new();
    let path = world.put("a", "one\n");
    let write = json!({ "path": "a", "content": "mine" });
    assert!(world.refused("write", write.clone()).await.contains("you have not read it"));
    world.done("read", json!({ "path": "a" })).await;
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"theirs\n").unwrap();
    assert!(world.refused("write", write.clone()).await.contains("has changed since you last read it"));
    // An exact edit is safe, and the change is told.
    let said = world.done("edit", json!({ "path": "a", "old_text": "one", "new_text": "two" })).await;
    assert!(said.contains("something else has changed the file"), "{said}");
    assert_eq!(text(&path), "two\ntheirs\n");
    world.done("write", write).await;
    assert_eq!(text(&path), "mine");
}

#[tokio::test]
async fn an_edit_that_does_not_fit_helps() {
    let world = World::new();
    let before = "if a {\n\tcall(1);\n}\nif b {\n\tcall(1);\n}\n";
    let path = world.put("a.c", before);
    let edit = |old: &str, new: &str| json!({ "path": "a.c", "old_text": old, "new_text": new });
    let said = world.refused("edit", edit("call(1);", "x")).await;
    assert!(said.contains("2 places of a.c, lines 2, 5"), "{said}");
    let said = world.refused("edit", edit("if b {\n    call(1);", "x")).await;
    assert!(said.contains("line 4") && said.contains("indents with tabs"), "{said}");
    let said = world.refused("edit", edit("zzz", "x")).await;
    assert!(said.contains("nor anything like it"), "{said}");
    for (old, new) in [("", "x"), ("call", "call")] {
        world.refused("edit", edit(old, new)).await;
    }
    assert_eq!(text(&path), before);
    let all = json!({ "path": "a.c", "old_text": "call(1);", "new_text": "x", "replace_all": "true" });
    assert_eq!(world.done("edit", all).await, "edited a.c at 2 places, lines 2, 5");
    let said = world.refused("edit", json!({ "path": "b.c", "old_text": "a", "new_text": "b" })).await;
    assert!(said.contains("there is no b.c"), "{said}");
    let said = world.refused("edit", json!({ "path": "a.c" })).await;
    assert!(said.contains("missing field `old_text`"), "{said}");
}

#[tokio::test]
async fn line_ends_and_marks_outlive_an_edit() {
    let world = World::new();
    let path = world.put("a.txt", "\u{feff}one\r\ntwo\r\n");
    let said = world.done("read", json!({ "path": "a.txt" })).await;
    assert!(said.starts_with("one\ntwo\n[") && said.contains("CR LF"), "{said}");
    world
        .done("edit", json!({ "path": "a.txt", "old_text": "one\ntwo\n", "new_text": "one\nand\ntwo\n" }))
        .await;
    assert_eq!(text(&path), "\u{feff}one\r\nand\r\ntwo\r\n");
    let path = world.put("latin", b"caf\xe9 one\n");
    world.done("edit", json!({ "path": "latin", "old_text": "one", "new_text": "two" })).await;
    assert_eq!(std::fs::read(path).unwrap(), b"caf\xe9 two\n");
}

#[tokio::test]
async fn what_ignore_files_name_is_left_out() {
    let world = World::new();
    world.put(".gitignore", "target/\n*.log\n");
    for path in ["src/a.rs", "src/deep/b.rs", "target/c.rs", "x.log", ".hidden/d.rs", ".git/e.rs"] {
        world.put(path, "needle\n");
    }
    let said = world.done("find", json!({ "pattern": "*.rs" })).await;
    assert_eq!(said, ".hidden/d.rs\nsrc/a.rs\nsrc/deep/b.rs");
    assert_eq!(world.done("find", json!({ "pattern": "src/*.rs" })).await, "src/a.rs");
    let whole = format!("{}/src/*.rs", world.root.display());
    assert_eq!(world.done("Glob", json!({ "pattern": whole })).await, "src/a.rs");
    assert_eq!(world.done("find", json!({ "pattern": "**/b.rs", "path": "src" })).await, "src/deep/b.rs");
}

#[tokio::test]
async fn lines_are_searched() {
    let world = World::new();
    world.put("a.rs", "one\ntwo needle\nthree\n\nfive\nsix\nneedle (x)\n");
    world.put("b.md", "Needle\n");
    world.put("target/c.rs", "needle\n");
    world.put(".gitignore", "target\n");
    world.put("bin", b"\0\0needle\n");
    assert_eq!(
        world.done("grep", json!({ "pattern": "needle" })).await,
        "a.rs:2:two needle\na.rs:7:needle (x)"
    );
    let said = world.done("grep", json!({ "pattern": "NEEDLE", "ignore_case": true, "glob": "*.md" })).await;
    assert_eq!(said, "b.md:1:Needle");
    let said = world.done("grep", json!({ "pattern": "needle", "context": 1 })).await;
    assert_eq!(said, "a.rs-1-one\na.rs:2:two needle\na.rs-3-three\n--\na.rs-6-six\na.rs:7:needle (x)");
    let said = world.done("grep", json!({ "pattern": "[Nn]eedle", "files_only": true })).await;
    assert_eq!(said, "a.rs\nb.md");
    assert_eq!(
        world.done("grep", json!({ "pattern": "needle (", "literal": true })).await,
        "a.rs:7:needle (x)"
    );
    assert!(world.refused("grep", json!({ "pattern": "needle (" })).await.contains("set literal"));
    // A file that is named is searched even if ignore files name it.
    assert_eq!(
        world.done("grep", json!({ "pattern": "need", "path": "target/c.rs" })).await,
        "target/c.rs:1:needle"
    );
    let said = world.done("grep", json!({ "pattern": "needle", "limit": 1 })).await;
    assert!(said.starts_with("a.rs:2:two needle\n[the first 1 matches; there are more"), "{said}");
    assert!(world.done("grep", json!({ "pattern": "nothing" })).await.starts_with("[no match in .;"));
}

#[tokio::test]
async fn long_lists_and_lines_are_bounded() {
    let world = World::new();
    for number in 0..1200 {
        world.put(&format!("many/file-{number:04}"), "x");
    }
    let said = world.done("ls", json!({ "path": "many" })).await;
    assert_eq!(said.lines().count(), 501);
    assert!(
        said.ends_with("[the first 500 of 1200 names; `find` with a pattern shows the others]"),
        "{said}"
    );
    let said = world.done("find", json!({ "pattern": "file-*" })).await;
    assert!(
        said.contains("file-0999") && said.ends_with("there are more: narrow the pattern or the path]"),
        "{said}"
    );
    world.put("long", format!("{}needle{}\n", "ä".repeat(5000), "x".repeat(5000)));
    let said = world.done("grep", json!({ "pattern": "needle", "path": "long" })).await;
    assert!(said.len() < 600 && said.contains("needle") && said.contains("[...]"), "{said}");
    world.put("wide", "needle and much more text around it to fill the answer\n".repeat(2000));
    let said = world.done("grep", json!({ "pattern": "needle", "path": "wide", "limit": 9999 })).await;
    assert!(said.len() <= 51 * 1024 && said.contains("there are more"), "{}", said.len());
}

#[tokio::test]
async fn a_directory_is_listed() {
    let world = World::new();
    world.put("b/x", "");
    world.put("a", "");
    std::os::unix::fs::symlink("a", world.root.join("l")).unwrap();
    assert_eq!(world.done("ls", json!({})).await, "a\nb/\nl -> a");
    assert_eq!(world.done("ls", json!({ "path": "b" })).await, "x");
    std::fs::create_dir(world.root.join("empty")).unwrap();
    assert_eq!(world.done("ls", json!({ "path": "empty" })).await, "[the directory is empty]");
    assert!(world.refused("ls", json!({ "path": "a" })).await.contains("is a file, not a directory"));
    assert!(world.refused("read", json!({ "path": "b" })).await.contains("`ls` lists it"));
}

#[tokio::test]
async fn calls_have_titles_of_one_line() {
    let world = World::new();
    let title = |tool: &str, input| world.tools.title(tool, &input);
    assert_eq!(
        title("read", json!({ "path": "src/lib.rs", "offset": 1, "limit": 40 })),
        "read src/lib.rs 1-40"
    );
    assert_eq!(title("read", json!({ "path": "a\n\u{1b}[2Jb" })), "read a\u{fffd}\u{fffd}[2Jb");
    assert_eq!(title("none", json!({})), "none");
    assert!(title("bash", json!({ "command": "x".repeat(9999) })).len() < 300);
}
