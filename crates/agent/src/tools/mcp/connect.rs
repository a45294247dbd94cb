//! A connection to a server: the program or the HTTP client, the protocol on top, and what is needed to end both.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use tokio::io::AsyncReadExt as _;

use super::super::context::Context;
use super::super::groups::Group;
use super::metered::{Allowance, Metered};
use super::{McpServer, McpTransport};

/// The longest message over HTTP: 16 MiB, as over streams.
const MAX_MESSAGE: usize = 16 << 20;
/// How much of the end of a server's error output is kept.
const MAX_SAID: usize = 2000;
/// How long a server may take to end once its input was closed.
const GRACE: Duration = Duration::from_secs(1);

/// A server that answers.
pub(super) struct Connection {
    pub(super) client: RunningService<RoleClient, ClientConfig>,
    process: Option<Process>,
}

/// The program behind a connection. Dropping it kills the group.
struct Process {
    group: Group,
    said: Arc<Mutex<String>>,
    allowance: Allowance,
}

impl Connection {
    /// Starts the server and greets it. Bounded by the caller; giving up ends the program.
    pub(super) async fn open(server: &McpServer, cx: &Context) -> Result<Self, String> {
        match &server.transport {
            McpTransport::Stdio { program, arguments, environment } => {
                let mut command = Command::new(program);
                command
                    .args(arguments)
                    .env_clear()
                    .envs(cx.environment.iter().map(|(name, value)| (name, value)))
                    .envs(environment.iter().map(|(name, value)| (name, value)))
                    .current_dir(cx.workspace.directory())
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .process_group(0);
                let mut child = command
                    .spawn()
                    .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
                let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
                let process =
                    Process { group: Group::of(child), said: Arc::default(), allowance: Allowance::new() };
                let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
                    return Err(String::from("the server has no streams"));
                };
                let wrapped =
                    |error: std::io::Error| format!("cannot use the streams of the server: {error}");
                let stdin = tokio::process::ChildStdin::from_std(stdin).map_err(wrapped)?;
                let stdout = tokio::process::ChildStdout::from_std(stdout).map_err(wrapped)?;
                let stderr = tokio::process::ChildStderr::from_std(stderr).map_err(wrapped)?;
                tokio::spawn(listen(stderr, Arc::clone(&process.said)));
                let metered = Metered { inner: stdout, allowance: process.allowance.clone() };
                let greeted = greet(AsyncRwTransport::new_client(metered, stdin)).await;
                match greeted {
                    Ok(client) => Ok(Self { client, process: Some(process) }),
                    Err(error) => Err(process.explained(error).await),
                }
            }
            McpTransport::Http { url, headers } => {
                check_url(url, !headers.is_empty())?;
                let client = greet(StreamableHttpClientTransport::with_client(
                    http_client()?,
                    StreamableHttpClientTransportConfig::with_uri(url.as_str())
                        .custom_headers(http_headers(headers)?)
                        .max_sse_event_size(MAX_MESSAGE)
                        .max_json_response_size(MAX_MESSAGE)
                        .max_error_response_size(64 * 1024),
                ))
                .await?;
                Ok(Self { client, process: None })
            }
        }
    }

    /// Whether it can be asked.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.client.peer().is_transport_closed()
    }

    /// A new request is made.
    pub(super) fn renew(&self) {
        if let Some(process) = &self.process {
            process.allowance.renew();
        }
    }

    /// Why a request failed, as far as the program has said it.
    pub(super) async fn explained(&self, error: String) -> String {
        match &self.process {
            Some(process) => process.explained(error).await,
            None => error,
        }
    }

    /// Says goodbye and ends the program.
    pub(super) async fn close(mut self) {
        // Closes the input of the program, which is how a server is told to end.
        let _ = self.client.close_with_timeout(GRACE).await;
        if let Some(mut process) = self.process {
            let _ = tokio::time::timeout(GRACE, process.group.leader_ended()).await;
            process.group.end(GRACE).await;
        }
    }
}

impl Process {
    async fn explained(&self, error: String) -> String {
        // What it says at its end may still be on its way.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut told = if self.allowance.is_used_up() {
            String::from("it has written too much and was cut off")
        } else {
            error
        };
        if let Some(how) = self.group.how() {
            let how = match how {
                super::super::groups::How::Code(code) => format!("exit code {code}"),
                super::super::groups::How::Signal(signal) => format!("signal {signal}"),
            };
            let _ = write!(told, "; the program has ended with {how}");
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.trim().is_empty() {
            let _ = write!(told, "; it said: {}", said.trim());
        }
        told
    }
}

/// Greets a server of any age: the newest first, then with a handshake.
async fn greet<T, E, A>(transport: T) -> Result<RunningService<RoleClient, ClientConfig>, String>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let about = Implementation::new("subagent", env!("CARGO_PKG_VERSION"));
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    ClientConfig::new(ClientCapabilities::default(), about)
        .serve_with_lifecycle(transport, lifecycle)
        .await
        .map_err(|error| super::super::text::one_line(&error.to_string(), 500))
}

async fn listen(mut stderr: tokio::process::ChildStderr, said: Arc<Mutex<String>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let text = String::from_utf8_lossy(&buffer[..count]);
        let text: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&text);
        let over = said.len().saturating_sub(MAX_SAID);
        let cut = (over..=said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
        said.drain(..cut);
    }
}

/// Headers hold keys, which do not travel in the open.
fn check_url(url: &str, has_headers: bool) -> Result<(), String> {
    let parsed = reqwest::Url::parse(url).map_err(|error| format!("its address is not right: {error}"))?;
    let here = match parsed.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    match parsed.scheme() {
        "https" => Ok(()),
        "http" if here || !has_headers => Ok(()),
        "http" => {
            Err(String::from("it has headers and its address is not https; keys are not sent in the open"))
        }
        _ => Err(String::from("its address is neither http nor https")),
    }
}

/// No redirects: headers with keys would go along.
fn http_client() -> Result<reqwest::Client, String> {
    // The first one counts; another part of the program may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(|error| format!("cannot make an HTTP client: {error}"))
}

fn http_headers(
    given: &[(String, String)],
) -> Result<HashMap<reqwest::header::HeaderName, reqwest::header::HeaderValue>, String> {
    given
        .iter()
        .map(|(name, value)| {
            let header = reqwest::header::HeaderName::try_from(name.as_str());
            let mut text = reqwest::header::HeaderValue::try_from(value.as_str())
                .map_err(|_| format!("the value of the header {name} is no header value"))?;
            text.set_sensitive(true);
            Ok((header.map_err(|_| format!("{name:?} is no name of a header"))?, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check_url;

    #[test]
    fn keys_do_not_travel_in_the_open() {
        assert!(check_url("https://mcp.example/x", true).is_ok());
        assert!(
            check_url("http://127.0.0.1:80/x", true).is_ok() && check_url("http://[::1]/x", true).is_ok()
        );
        assert!(check_url("http://mcp.example/x", false).is_ok());
        for url in ["http://mcp.example/x", "http://127.0.0.1.example/", "file:///etc/passwd", "x"] {
            assert!(check_url(url, true).is_err(), "{url}");
        }
    }
}
