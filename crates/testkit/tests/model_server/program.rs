//! The server as a program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use subagent_testkit::programs::model_server_program;

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(url: &str, prompt: &str) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}]}).to_string();
    let mut response = ureq::post(format!("{url}/v1/chat/completions")).send(&body).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn it_prints_where_it_is_and_plays_its_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let rules = json!([{"contains": "ruled", "times": 1, "script": "[[exactly:from the file]]"}]);
    file.write_all(rules.to_string().as_bytes()).unwrap();
    let mut command = Command::new(model_server_program());
    command.args(["--say", "REHEARSED", "--script"]).arg(file.path()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut url = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(said(url, "ruled"), "from the file");
    assert_eq!(said(url, "ruled"), "REHEARSED users=1 results=0 first='ruled'");
}

#[test]
fn it_listens_to_this_machine_alone() {
    let output = Command::new(model_server_program()).args(["--listen", "0.0.0.0:0"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("loopback"), "{output:?}");
}
