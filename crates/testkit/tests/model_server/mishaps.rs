//! Connections that are cut, answers that hang, and what waits at gates.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_testkit::ModelServer;
use subagent_testkit::model_server::{Gate, Outcome, Reply};
use subagent_testkit::until;

use crate::asking::{ask, get};

const CHAT: &str = "/v1/chat/completions";

fn request(prompt: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]})
}

/// Asks and leaves the answer to the caller, line by line.
fn open(server: &ModelServer, body: &Value) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let body = body.to_string();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: model\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    BufReader::new(stream)
}

#[track_caller]
fn read_until(reader: &mut impl BufRead, part: &str) {
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "it ended before {part}");
    }
}

#[track_caller]
fn outcome(server: &ModelServer, number: usize, expected: Outcome) {
    until("the outcome", || {
        let found = server.requests().iter().any(|it| it.number == number && it.outcome == expected);
        found.then_some(())
    });
}

#[test]
fn a_cut_stream_has_a_beginning_and_no_end() {
    let server = ModelServer::start();
    let heard = ask(&server, CHAT, &request("[[drop*1]] [[exactly:abcdef]]", true));
    assert!(heard.broken.is_some(), "{heard:?}");
    let said: Vec<_> =
        heard.beginning().iter().map(|it| it.json()["choices"][0]["delta"]["content"].clone()).collect();
    assert_eq!(said, ["", "ab"]);
    outcome(&server, 1, Outcome::Cut);
    // Once was asked for.
    let heard = ask(&server, CHAT, &request("[[drop*1]] [[exactly:abcdef]]", true));
    assert_eq!(heard.events().last().unwrap().data, "[DONE]");
    outcome(&server, 2, Outcome::Answered);
}

#[test]
fn a_cut_document_is_half_of_one() {
    let server = ModelServer::start();
    let heard = ask(&server, CHAT, &request("[[drop]]", false));
    assert!(heard.broken.is_some() && heard.text.starts_with('{'), "{heard:?}");
    assert!(serde_json::from_str::<Value>(&heard.text).is_err());
}

#[test]
fn garbage_is_no_event() {
    let server = ModelServer::start();
    let heard = ask(&server, CHAT, &request("[[garbage]]", true));
    assert!(
        heard
            .events()
            .iter()
            .any(|event| serde_json::from_str::<Value>(&event.data).is_err() && event.data != "[DONE]")
    );
}

#[test]
fn who_leaves_a_hanging_stream_is_noticed() {
    let server = ModelServer::start();
    let mut reader = open(&server, &request("[[hang]] [[exactly:abcdef]]", true));
    read_until(&mut reader, "\"ab\"");
    assert_eq!(get(&format!("{}/_stats", server.url())).json()["open"], 1);
    drop(reader);
    outcome(&server, 1, Outcome::Left);
}

#[test]
fn who_leaves_a_mute_server_is_noticed() {
    let server = ModelServer::start();
    let mut reader = open(&server, &request("[[mute]]", true));
    server.wait_for("the request", |request| request.prompt() == "[[mute]]");
    reader.get_ref().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(reader.fill_buf().is_err(), "not even a head may come");
    drop(reader);
    outcome(&server, 1, Outcome::Left);
}

#[test]
fn a_named_gate_holds_an_answer_back() {
    let server = ModelServer::start();
    let mut reader = open(&server, &request("[[gate:here]] [[exactly:through]]", true));
    server.gate("here").reached_by(1);
    assert_eq!(get(&format!("{}/_gates", server.url())).json(), json!({"here": 1}));
    assert_eq!(server.requests()[0].status, None);
    ask(&server, "/_gates/here", &json!({}));
    read_until(&mut reader, "thr");
    assert_eq!(server.gate("here").waiting(), 0);
}

#[test]
fn a_gate_in_the_middle_of_a_text() {
    let server = ModelServer::start();
    let gate = Gate::new();
    let reply = Reply::text("before").then_gate(&gate).and_text("behind");
    server.when(|_| true).answer(reply);
    let mut reader = open(&server, &request("x", true));
    read_until(&mut reader, "before");
    gate.reached_by(1);
    reader.get_ref().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    read_until_quiet(&mut reader);
    gate.open();
    reader.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    read_until(&mut reader, "behind");
}

/// Reads what there is; it must not be the end.
#[track_caller]
fn read_until_quiet(reader: &mut impl BufRead) {
    let mut line = String::new();
    while let Ok(length) = reader.read_line(&mut line) {
        assert!(length > 0 && !line.contains("behind"), "{line}");
    }
}

#[test]
fn words_take_their_time() {
    let server = ModelServer::start();
    let begun = Instant::now();
    let heard =
        ask(&server, CHAT, &request("[[slow:5*20]] [[drip:2*10]] [[exactly:abcd]]", true)).documents();
    assert!(begun.elapsed() >= Duration::from_millis(120), "{:?}", begun.elapsed());
    let said: Vec<_> = heard.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(said, ["", "w0 ", "w1 ", "w2 ", "w3 ", "w4 ", "ab", "cd"]);
}

#[test]
fn a_server_that_is_dropped_is_gone_with_its_connections() {
    let server = ModelServer::start();
    let mut reader = open(&server, &request("[[hang]]", true));
    read_until(&mut reader, "FAKE");
    let address = server.address();
    drop(server);
    let mut rest = Vec::new();
    // An end or a reset: only not a connection that stays.
    let _ = std::io::Read::read_to_end(&mut reader, &mut rest)
        .map_err(|error| assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock));
    assert!(TcpStream::connect(address).is_err());
}
