//! A client: it asks, and reads streams of events.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use subagent_testkit::ModelServer;
use ureq::Agent;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
    /// Why it could not be read to its end.
    pub(crate) broken: Option<String>,
}

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Event {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

impl Heard {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.kind, "application/json", "{self:?}");
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// The events of a whole stream.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Event> {
        assert_eq!(self.broken, None, "{self:?}");
        self.beginning()
    }

    /// The events of a stream that may be broken.
    #[track_caller]
    pub(crate) fn beginning(&self) -> Vec<Event> {
        assert_eq!((self.status, self.kind.as_str()), (200, "text/event-stream"), "{self:?}");
        let event = |block: &str| {
            let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            Event { name: line("event: ").unwrap_or_default(), data: line("data: ").expect("data") }
        };
        self.text.split("\n\n").filter(|block| !block.is_empty()).map(event).collect()
    }

    /// The documents of a whole stream, without a closing `[DONE]`.
    #[track_caller]
    pub(crate) fn documents(&self) -> Vec<Value> {
        self.events().iter().filter(|event| event.data != "[DONE]").map(Event::json).collect()
    }
}

fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(Duration::from_secs(20))).build().into()
}

/// Posts a document.
pub(crate) fn ask(server: &ModelServer, path: &str, body: &Value) -> Heard {
    send(server, path, &[("content-type", "application/json")], body.to_string().as_bytes())
}

/// Posts these bytes.
pub(crate) fn send(server: &ModelServer, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Heard {
    let mut request = agent().post(format!("{}{path}", server.url()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    heard(request.send(body).expect("an answer"))
}

/// Gets a document.
pub(crate) fn get(url: &str) -> Heard {
    heard(agent().get(url).call().expect("an answer"))
}

fn heard(mut response: ureq::http::Response<ureq::Body>) -> Heard {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (kind, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
    let status = response.status().as_u16();
    let mut text = Vec::new();
    let broken = response.body_mut().as_reader().read_to_end(&mut text).err();
    Heard {
        status,
        kind,
        retry_after,
        text: String::from_utf8(text).expect("UTF-8"),
        broken: broken.map(|error| error.to_string()),
    }
}
