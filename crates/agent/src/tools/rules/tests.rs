//! Lists against tools: the meaning of agent files, in any case of letters, and what cannot be kept is refused.

use serde_json::json;

use super::*;

fn rules(allow: Option<&[&str]>, deny: &[&str]) -> Result<Rules, Refusal> {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Rules::new(allow.map(owned).as_deref(), &owned(deny))
}

#[test]
fn names_count_in_any_case_and_by_pattern() {
    let rules =
        rules(Some(&["Read", "GLOB", "mcp__tracker__*", "mcp__Mail"]), &["mcp__tracker__delete*"]).unwrap();
    for tool in ["read", "find", "mcp__tracker__list", "mcp__mail__send", "mcp__Tracker__List"] {
        assert!(rules.may_use(tool), "{tool}");
    }
    for tool in ["bash", "write", "mcp__tracker__delete_all", "mcp__other__list", "mcp__mailx__send"] {
        assert!(!rules.may_use(tool), "{tool}");
        assert!(rules.check(tool, &json!({})).is_err(), "{tool}");
    }
}

#[test]
fn a_denial_wins_over_an_allowance() {
    let rules = rules(Some(&["*"]), &["bash", "Bash(*)"]).unwrap();
    assert!(rules.may_use("read") && !rules.may_use("bash") && rules.denies("Bash"));
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    for (allow, deny) in [
        (None, &["Bash(rm *)"][..]),
        (None, &["mcp__a__b(x)"]),
        (Some(&["subagent(x)"][..]), &[]),
        (Some(&["Read()"]), &[]),
        (Some(&["*(git)"]), &[]),
        (Some(&["Bash(git"]), &[]),
        (Some(&["(git)"]), &[]),
    ] {
        assert!(rules(allow, deny).is_err(), "{allow:?} {deny:?}");
    }
}

#[test]
fn commands_are_limited_only_where_each_entry_has_brackets() {
    let limited = rules(Some(&["Bash(git *)"]), &[]).unwrap();
    assert!(limited.check("bash", &json!({ "command": "git log" })).is_ok());
    let said = limited.check("bash", &json!({ "command": "rm x" })).unwrap_err();
    assert!(said.contains("git *"), "{said}");
    // What is checked is what is carried out.
    assert!(limited.check("bash", &json!({ "cmd": "rm x" })).is_err());
    assert!(limited.check("bash", &json!({ "command": ["rm", "x"] })).is_err());
    assert!(limited.check("bash", &json!({ "command": ["bash", "-c", "git log"] })).is_ok());
    assert!(limited.check("bash", &json!("git log")).is_err());
    let whole = rules(Some(&["Bash(git *)", "bash"]), &[]).unwrap();
    assert!(whole.check("bash", &json!({ "command": "rm x" })).is_ok());
}

#[test]
fn paths_are_limited_as_they_really_are() {
    use std::path::Path;
    let rules = rules(Some(&["Read", "Edit(src/*)", "Edit(./docs/)"]), &["Write(src/gen/**)"]).unwrap();
    let edit = rules.check("edit", &json!({})).unwrap();
    for (path, may) in [
        ("src/a.rs", true),
        ("src/deep/a.rs", true),
        ("docs/x.md", true),
        ("docs", true),
        ("docsx", false),
        ("README.md", false),
        ("src/gen/x.rs", false),
        ("SRC/a.rs", false),
        ("src/GEN/x.rs", false),
    ] {
        assert_eq!(edit.permits(path, &Path::new("/w").join(path)), may, "{path}");
    }
    assert!(rules.check("read", &json!({})).unwrap().permits("README.md", Path::new("/w/README.md")));
    assert!(rules.check("write", &json!({})).is_err(), "it is not in the list");
}

#[test]
fn servers_that_can_offer_nothing_are_not_started() {
    let none = rules(Some(&["Read"]), &[]).unwrap();
    assert!(!none.may_use_server("tracker"));
    for allow in ["mcp__tracker__list", "mcp__tracker", "mcp__*", "*", "mcp__tr*"] {
        assert!(rules(Some(&[allow]), &[]).unwrap().may_use_server("Tracker"), "{allow}");
    }
    assert!(!rules(None, &["mcp__tracker"]).unwrap().may_use_server("tracker"));
    assert!(rules(None, &["mcp__tracker__delete"]).unwrap().may_use_server("tracker"));
}

#[test]
fn names_of_no_tool_are_told() {
    let rules = rules(Some(&["Read", "WebFetch", "mcp__a__b"]), &[]).unwrap();
    assert_eq!(rules.notes(&["read", "bash"]), ["\"WebFetch\" is allowed, and there is no such tool here"]);
}

#[test]
fn a_limit_that_a_shell_gets_around_is_told() {
    let notes = rules(None, &["Read(private/*)"]).unwrap().notes(&["read", "bash"]);
    assert_eq!(notes, ["Read(private/*) limits file tools; commands of bash are not held by it"]);
    assert!(rules(None, &["Read(private/*)", "bash"]).unwrap().notes(&["read", "bash"]).is_empty());
}
