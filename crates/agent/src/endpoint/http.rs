//! Models over HTTP. The client is made with the first request: until then a child costs no memory for it.

use std::sync::OnceLock;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use subagent_model::ErrorCode;

use super::Model;
use super::config::Choice;
use crate::clock::now_ms;
use crate::failure::{self, Failure, Told};
use crate::wire::{Answer, Ask, Events, Part, Wire};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Most bytes of the body of a failure that are read.
const MOST_FAILURE_BYTES: usize = 64 * 1024;

/// A model behind an endpoint.
pub struct HttpModel {
    choice: Choice,
    key: Option<SecretString>,
    client: OnceLock<reqwest::Client>,
}

impl std::fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpModel").field("model", &self.choice.name()).finish_non_exhaustive()
    }
}

impl HttpModel {
    /// One that is asked with this key.
    pub fn new(choice: Choice, key: Option<SecretString>) -> Self {
        Self { choice, key, client: OnceLock::new() }
    }

    /// What was chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    fn client(&self) -> Result<&reqwest::Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        // Fails where somebody has installed one before: that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(Duration::from_secs(self.choice.silence_seconds.max(1)))
            .user_agent(concat!("subagent/", env!("CARGO_PKG_VERSION")))
            // A key must not follow to where an answer points.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Failure::new(ErrorCode::StartFailed, format!("no client for HTTP: {error}")))?;
        Ok(self.client.get_or_init(|| client))
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.choice.wire == Wire::Messages {
            headers
                .insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &self.key {
            let key = key.expose_secret();
            let (name, value) = match self.choice.wire {
                Wire::Chat => (AUTHORIZATION, format!("Bearer {key}")),
                Wire::Messages => (HeaderName::from_static("x-api-key"), key.to_owned()),
                Wire::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            };
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| Failure::new(ErrorCode::Auth, "the key has characters that no header has"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// The models that the endpoint lists, for a check.
    pub async fn models(&self) -> Result<serde_json::Value, Failure> {
        let path = if self.choice.wire == Wire::Messages { "/v1/models" } else { "/models" };
        let request = self.client()?.get(format!("{}{path}", self.choice.url)).headers(self.headers()?);
        let answer = request.timeout(CONNECT).send().await.map_err(|error| self.unreachable(&error))?;
        let answer = self.fine(answer).await?;
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body)
            .map_err(|_| Failure::new(ErrorCode::Protocol, "its list of models is no JSON document"))
    }

    /// An answer that is a success, or the failure that it is.
    async fn fine(&self, answer: reqwest::Response) -> Result<reqwest::Response, Failure> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let headers = answer.headers().clone();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let told = Told {
            retry_after: header("retry-after"),
            retry_after_ms: header("retry-after-ms"),
            unified_status: header("anthropic-ratelimit-unified-status"),
            unified_reset: header("anthropic-ratelimit-unified-reset"),
        };
        let mut body = Vec::new();
        let mut stream = answer.bytes_stream();
        while let Some(Ok(piece)) = stream.next().await {
            body.extend_from_slice(&piece);
            if body.len() > MOST_FAILURE_BYTES {
                break;
            }
        }
        let failure = failure::of_answer(status.as_u16(), &told, &String::from_utf8_lossy(&body), now_ms());
        Err(self.told(failure))
    }

    fn told(&self, failure: Failure) -> Failure {
        match &self.key {
            Some(key) => failure.without(key.expose_secret()),
            None => failure,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        // The last cause says it: the others say that there was one.
        let why = causes.pop().unwrap_or_else(|| error.without_url_text());
        let url = &self.choice.url;
        self.told(if error.is_connect() {
            Failure::new(
                ErrorCode::Timeout,
                format!("{url} cannot be reached: {why}; is the endpoint running, and its address right?"),
            )
        } else if error.is_timeout() {
            Failure::new(ErrorCode::Timeout, format!("{url} did not answer in time"))
        } else {
            Failure::new(ErrorCode::Overloaded, format!("the answer of {url} broke off: {why}"))
        })
    }
}

/// What an error says without the address, which may hold what is not for everybody.
trait WithoutUrl {
    fn without_url_text(&self) -> String;
}

impl WithoutUrl for reqwest::Error {
    fn without_url_text(&self) -> String {
        let text = self.to_string();
        match self.url() {
            Some(url) => text.replace(url.as_str(), "the endpoint"),
            None => text,
        }
    }
}

impl Model for HttpModel {
    fn ask<'a>(
        &'a self,
        ask: Ask<'a>,
        show: &'a mut (dyn FnMut(Part) + Send),
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let wire = self.choice.wire;
            let url = format!("{}{}", self.choice.url, wire.path(ask.model));
            let body = serde_json::to_vec(&wire.body(&ask)).map_err(|error| {
                Failure::new(ErrorCode::Protocol, format!("the request cannot be written: {error}"))
            })?;
            let request = self.client()?.post(url).headers(self.headers()?).body(body);
            let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
            let mut stream = self.fine(answer).await?.bytes_stream();
            let (mut events, mut reader) = (Events::default(), wire.reader(ask.number));
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| self.unreachable(&error))?;
                for event in events.take(&piece)? {
                    reader
                        .event(&event)
                        .map_err(|failure| self.told(failure))?
                        .into_iter()
                        .for_each(&mut *show);
                }
            }
            if let Some(event) = events.rest() {
                reader.event(&event).map_err(|failure| self.told(failure))?.into_iter().for_each(&mut *show);
            }
            reader.finish()
        })
    }

    fn clean(&self, text: String) -> String {
        match &self.key {
            Some(key) if text.contains(key.expose_secret()) => text.replace(key.expose_secret(), "[key]"),
            _ => text,
        }
    }
}
