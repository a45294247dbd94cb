//! Programs as subagents, through the command line.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use subagent_testkit::Home;

#[test]
fn prov_21_standard_output_is_the_result_and_a_bad_exit_is_an_error_with_what_there_is() {
    let home = Home::new();
    let mixed = "echo out 1; echo err 1 >&2; echo out 2; echo err 2 >&2";
    let good = home.run(&["run", "--", "sh", "-c", mixed]).ended(0);
    assert_eq!(good.out, "out 1\nout 2\n", "nothing of the error output is mixed in");
    let bad = home.run(&["run", "--json", "--", "sh", "-c", &format!("{mixed}; exit 3")]).ended(1).json();
    assert_eq!((&bad["status"], &bad["error"]["exit"]["code"]), (&"error".into(), &3.into()), "{bad:#}");
    assert_eq!(bad["result"]["preview"], "out 1\nout 2\n", "{bad:#}");
    assert_eq!(bad["quality"], "partial", "{bad:#}");
    let detail = bad["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("err 2") && !detail.contains("out 2"), "{bad:#}");
    let logs = home.run(&["logs", bad["id"].as_str().unwrap()]).ended(0);
    let all = format!("{}{}", logs.out, logs.err);
    assert!(all.contains("err 1") && all.contains("out 1"), "both can be read: {logs:#?}");
}
