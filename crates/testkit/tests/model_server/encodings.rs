//! Bodies that come packed.

use std::io::Write;

use subagent_testkit::ModelServer;

use crate::asking::send;

const BODY: &[u8] = br#"{"model": "m", "input": "packed"}"#;

#[track_caller]
fn understood(encoding: &str, body: &[u8]) {
    let server = ModelServer::start();
    let headers = [("content-encoding", encoding), ("content-type", "application/json")];
    let heard = send(&server, "/v1/responses", &headers, body).json();
    assert_eq!(heard["output"][0]["content"][0]["text"], "FAKE-OK users=1 results=0 first='packed'");
    assert_eq!(server.requests()[0].bytes, BODY.len());
}

#[test]
fn gzip() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(BODY).unwrap();
    understood("gzip", &packer.finish().unwrap());
}

#[test]
fn zstandard() {
    understood("zstd", &zstd::encode_all(BODY, 3).unwrap());
}

#[test]
fn what_is_not_what_it_says() {
    let server = ModelServer::start();
    assert_eq!(send(&server, "/v1/responses", &[("content-encoding", "gzip")], BODY).status, 400);
}

#[test]
fn in_chunks() {
    let server = ModelServer::start();
    let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
    let mut reader = BODY;
    let request = agent.post(format!("{}/v1/responses", server.url()));
    let status = request.send(ureq::SendBody::from_reader(&mut reader)).unwrap().status();
    assert_eq!((status.as_u16(), server.requests()[0].header("transfer-encoding")), (200, Some("chunked")));
    assert_eq!(server.requests()[0].bytes, BODY.len());
}
