//! Paths that try to lead out, in every way that a path can.

use std::os::unix::fs::symlink;

use super::*;

struct World {
    _home: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    workspace: Workspace,
}

fn world() -> World {
    let home = tempfile::tempdir().unwrap();
    let base = std::fs::canonicalize(home.path()).unwrap();
    let (root, second, read, outside) =
        (base.join("work"), base.join("second"), base.join("read"), base.join("out"));
    for dir in [&root, &second, &read, &outside] {
        std::fs::create_dir_all(dir.join("deep")).unwrap();
        std::fs::write(dir.join("file"), "inside").unwrap();
    }
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let policy = Policy { hidden: vec![root.join("keys")], ..Policy::default() };
    let workspace = Workspace::open(&[root.clone(), second], &[read], policy).unwrap();
    World { _home: home, root, outside, workspace }
}

#[test]
fn what_lies_inside_is_found_however_it_is_named() {
    let world = world();
    symlink("file", world.root.join("near")).unwrap();
    symlink(world.root.join("file"), world.root.join("absolute")).unwrap();
    symlink("../second/file", world.root.join("other")).unwrap();
    let absolute = world.root.join("file").display().to_string();
    for path in ["file", "./file", "deep/../file", "near", "absolute", absolute.as_str()] {
        let place = world.workspace.locate(path, Want::Change).unwrap();
        assert_eq!((place.shown.as_str(), place.exists), ("file", true), "{path}");
        assert!(world.workspace.open_file(&place).is_ok(), "{path}");
    }
    for path in ["other", "../second/file", "../read/file"] {
        let place = world.workspace.locate(path, Want::Look).unwrap();
        assert!(place.shown.starts_with('/') && place.exists, "{path} {}", place.shown);
    }
    assert!(matches!(world.workspace.locate("../read/file", Want::Change), Err(Refused::ReadOnly { .. })));
    let new = world.workspace.locate("a/b/c", Want::Change).unwrap();
    assert_eq!((new.shown.as_str(), new.exists), ("a/b/c", false));
}

#[test]
fn nothing_leads_out() {
    let world = world();
    symlink(&world.outside, world.root.join("dir")).unwrap();
    symlink("../out/secret", world.root.join("link")).unwrap();
    symlink("../out/none", world.root.join("dangling")).unwrap();
    symlink("link", world.root.join("twice")).unwrap();
    symlink("/", world.root.join("slash")).unwrap();
    symlink("/proc/self/environ", world.root.join("environment")).unwrap();
    symlink("loop", world.root.join("loop")).unwrap();
    let absolute = world.outside.join("secret").display().to_string();
    let dotted = format!("{}/../out/secret", world.root.display());
    for path in [
        "..",
        "../out/secret",
        "deep/../../out/secret",
        "/etc/passwd",
        "/proc/self/environ",
        "dir",
        "dir/secret",
        "dir/new",
        "link",
        "twice",
        "dangling",
        "slash/etc/passwd",
        "environment",
        "loop",
        "/",
        "../new",
        "none/../../out/x",
        absolute.as_str(),
        dotted.as_str(),
    ] {
        for want in [Want::Look, Want::Change] {
            let refused = world.workspace.locate(path, want);
            assert!(refused.is_err(), "{path} led to {:?}", refused.unwrap().absolute);
        }
    }
    for path in ["", "a\0b"] {
        assert!(matches!(world.workspace.locate(path, Want::Look), Err(Refused::Path { .. })), "{path:?}");
    }
}

#[test]
fn a_place_that_is_swapped_between_two_looks_leads_nowhere() {
    let world = world();
    let file = world.workspace.locate("deep/x", Want::Change).unwrap();
    std::fs::write(world.root.join("deep/x"), "mine").unwrap();
    let found = world.workspace.locate("deep/x", Want::Change).unwrap();
    let old = world.workspace.open_file(&found).unwrap();
    // The directory becomes a link to a place outside that has the same names.
    std::fs::write(world.outside.join("x"), "theirs").unwrap();
    std::fs::rename(world.root.join("deep"), world.root.join("moved")).unwrap();
    symlink(&world.outside, world.root.join("deep")).unwrap();
    assert!(world.workspace.put(&file, b"new", None).is_err());
    assert!(world.workspace.put(&found, b"new", Some(&old)).is_err());
    assert!(world.workspace.open_file(&found).is_err());
    assert!(world.workspace.look(&found).is_none());
    assert_eq!(std::fs::read_to_string(world.outside.join("x")).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&world.outside).unwrap().count(), 4);
    // The file becomes a link within the directory: nothing follows it.
    std::fs::remove_file(world.root.join("deep")).unwrap();
    std::fs::rename(world.root.join("moved"), world.root.join("deep")).unwrap();
    std::fs::remove_file(world.root.join("deep/x")).unwrap();
    symlink("../file", world.root.join("deep/x")).unwrap();
    assert!(world.workspace.open_file(&found).is_err());
    assert!(world.workspace.put(&found, b"new", Some(&old)).is_err());
    assert_eq!(std::fs::read_to_string(world.root.join("file")).unwrap(), "inside");
}

#[test]
fn credentials_and_what_gives_rights_are_kept_away_also_behind_links() {
    let world = world();
    std::fs::create_dir(world.root.join("keys")).unwrap();
    std::fs::write(world.root.join("keys/k"), "k").unwrap();
    std::fs::write(world.root.join(".env"), "K=1").unwrap();
    symlink(".env", world.root.join("notes.txt")).unwrap();
    symlink("keys", world.root.join("plain")).unwrap();
    for path in [".env", "notes.txt", "keys/k", "plain/k", "keys/new", ".ssh/id"] {
        assert!(matches!(world.workspace.locate(path, Want::Look), Err(Refused::Hidden { .. })), "{path}");
    }
    std::fs::create_dir_all(world.root.join(".git/hooks")).unwrap();
    symlink(".git/hooks", world.root.join("scripts")).unwrap();
    for path in [".git/config", ".git/hooks/pre-commit", "scripts/pre-commit", ".subagent/config.toml"] {
        assert!(matches!(world.workspace.locate(path, Want::Change), Err(Refused::Guarded { .. })), "{path}");
        assert!(world.workspace.locate(path, Want::Look).is_ok(), "{path}");
    }
}

#[test]
fn a_file_is_replaced_as_a_whole_with_its_rights() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = world();
    let path = world.root.join("file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
    let place = world.workspace.locate("file", Want::Change).unwrap();
    let old = world.workspace.open_file(&place).unwrap();
    world.workspace.put(&place, b"new", Some(&old)).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);
    // What was there is not there any more: the second one of two writers is told.
    assert!(world.workspace.put(&place, b"late", Some(&old)).is_err());
    let names: Vec<_> =
        std::fs::read_dir(&world.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no draft is left: {names:?}");
}

#[test]
fn names_that_may_have_been_meant() {
    let world = world();
    std::fs::write(world.root.join("README.md"), "").unwrap();
    let place = world.workspace.locate("readme.txt", Want::Look).unwrap();
    let Err(refused) = world.workspace.open_file(&place) else { panic!("there is none") };
    assert_eq!(refused.to_string(), "there is no readme.txt; did you mean README.md?");
    let place = world.workspace.locate("depe/some/file", Want::Look).unwrap();
    let Err(refused) = world.workspace.open_file(&place) else { panic!("there is none") };
    assert_eq!(refused.to_string(), "there is no depe/some/file; did you mean deep?");
}

#[test]
fn a_root_must_be_there() {
    assert!(matches!(Workspace::open(&[], &[], Policy::default()), Err(OpenError::NoRoot)));
    for path in ["relative", "/surely/not/there"] {
        let opened = Workspace::open(&[PathBuf::from(path)], &[], Policy::default());
        assert!(matches!(opened, Err(OpenError::Root { .. })), "{path}");
    }
}
