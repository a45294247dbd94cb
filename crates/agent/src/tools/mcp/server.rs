//! One server through a session: started when it is needed, started again when it has died, within a bound, and ended
//! at the end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, PaginatedRequestParams};
use rmcp::service::ServiceError;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::super::context::Context;
use super::super::{Output, Tool, text};
use super::connect::Connection;
use super::tool::McpTool;
use super::{McpServer, McpTransport, answer};

/// The most tools that one server may announce, and the most pages.
const MAX_TOOLS: usize = 128;
const MAX_PAGES: usize = 32;
/// How often a server is started in one session.
const MAX_STARTS: u32 = 5;
/// How long the end of a session waits for a start.
const CLOSING: Duration = Duration::from_secs(3);
/// The shortest value that is kept out of messages.
const SHORTEST_SECRET: usize = 6;

/// A server and its connection, if there is one.
pub(in super::super) struct Server {
    about: McpServer,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    starts: u32,
    closed: bool,
}

impl Server {
    pub(in super::super) fn new(about: McpServer) -> Self {
        Self { about, state: Mutex::default() }
    }

    pub(in super::super) fn name(&self) -> &str {
        &self.about.name
    }

    /// Starts it and asks for its tools. What did not work is said; nothing of it is left running then.
    pub(in super::super) async fn announce(
        self: Arc<Self>,
        cx: &Context,
    ) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
        let asked = async {
            let connection = self.connected(cx).await?;
            self.list(&connection).await
        };
        let within = self.about.start_within;
        let listed = tokio::select! {
            listed = tokio::time::timeout(within, asked) => listed,
            () = cx.cancel.cancelled() => Ok(Err(String::from("cancelled"))),
        };
        let failed =
            match listed {
                Ok(Ok((announced, more))) => {
                    let (mut tools, mut notes) = (Vec::<Arc<dyn Tool>>::new(), Vec::new());
                    for tool in &announced {
                        match McpTool::new(&self, tool) {
                            Ok(tool) => tools.push(Arc::new(tool)),
                            Err(why) => notes.push(self.said(&why)),
                        }
                    }
                    if more {
                        notes.push(self.said(&format!(
                            "it announces more than {MAX_TOOLS} tools; the others are left out"
                        )));
                    }
                    return (tools, notes);
                }
                Ok(Err(why)) => why,
                Err(_) => format!("it was not ready within {} s", within.as_secs_f32()),
            };
        self.drop_connection().await;
        (Vec::new(), vec![self.said(&failed)])
    }

    /// Calls a tool. A server that has died is started again, for this call and not for one that it may have begun.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>, cx: &Context) -> Output {
        let within = self.about.start_within;
        let connection = tokio::select! {
            connected = tokio::time::timeout(within, self.connected(cx)) => match connected {
                Ok(Ok(connection)) => connection,
                Ok(Err(why)) => return Output::failed(self.said(&why)),
                Err(_) => {
                    return Output::failed(self.said(&format!("it was not ready within {} s", within.as_secs_f32())));
                }
            },
            () = cx.cancel.cancelled() => return Output::failed("cancelled"),
        };
        connection.renew();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let within = self.about.call_within;
        let answered = tokio::select! {
            answered = tokio::time::timeout(within, connection.client.call_tool(params)) => answered,
            // Dropping the call tells the server.
            () = cx.cancel.cancelled() => return Output::failed("cancelled; the server was told"),
        };
        match answered {
            Ok(Ok(result)) => {
                Output { text: answer::told(&result, &cx.spill), failed: result.is_error.unwrap_or(false) }
            }
            Ok(Err(ServiceError::McpError(error))) => {
                let said = text::one_line(&error.message, 2000);
                Output::failed(self.said(&format!("it refused: {said}")))
            }
            Ok(Err(error)) => {
                let why = connection.explained(text::one_line(&error.to_string(), 500)).await;
                drop(connection);
                self.drop_connection().await;
                Output::failed(self.said(&format!("{why}. Whether the tool did something is not known")))
            }
            Err(_) => Output::failed(self.said(&format!(
                "no answer within {} s; it was told to give up. Whether the tool did something is not known",
                within.as_secs_f32()
            ))),
        }
    }

    /// Ends it for good.
    pub(in super::super) async fn close(&self) {
        // A start that is under way holds the state; it is given up with its call, and ends its program itself.
        if let Ok(mut state) = tokio::time::timeout(CLOSING, self.state.lock()).await {
            state.closed = true;
            drop(state);
            self.drop_connection().await;
        }
    }

    async fn connected(&self, cx: &Context) -> Result<Arc<Connection>, String> {
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(String::from("the session is over"));
        }
        if let Some(connection) = &state.connection {
            if connection.is_open() {
                return Ok(Arc::clone(connection));
            }
            // Dropping it ends what is left of the program.
            state.connection = None;
        }
        if state.starts >= MAX_STARTS {
            return Err(format!(
                "it was started {MAX_STARTS} times and always ended; it is not started again"
            ));
        }
        state.starts += 1;
        let connection = Arc::new(Connection::open(&self.about, cx).await?);
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn list(&self, connection: &Connection) -> Result<(Vec<rmcp::model::Tool>, bool), String> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = match connection.client.peer().list_tools(Some(params)).await {
                Ok(page) => page,
                Err(error) => {
                    return Err(connection.explained(text::one_line(&error.to_string(), 500)).await);
                }
            };
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if tools.len() > MAX_TOOLS {
                tools.truncate(MAX_TOOLS);
                return Ok((tools, true));
            }
            if cursor.is_none() {
                return Ok((tools, false));
            }
        }
        Ok((tools, true))
    }

    async fn drop_connection(&self) {
        let connection = self.state.lock().await.connection.take();
        let Some(mut connection) = connection else { return };
        // Calls that are still under way hold it for a moment.
        for _ in 0..50 {
            match Arc::try_unwrap(connection) {
                Ok(alone) => return alone.close().await,
                Err(shared) => connection = shared,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A sentence about this server, without its secrets.
    fn said(&self, what: &str) -> String {
        let secrets = match &self.about.transport {
            McpTransport::Stdio { environment, .. } => environment,
            McpTransport::Http { headers, .. } => headers,
        };
        let mut told = format!("the MCP server {}: {what}", self.about.name);
        for (_, secret) in secrets {
            // `Bearer x` is also a secret without its first word.
            for part in [secret.as_str()].into_iter().chain(secret.split_whitespace()) {
                if part.len() >= SHORTEST_SECRET {
                    told = told.replace(part, "[hidden]");
                }
            }
        }
        told
    }
}
