//! MCP servers, good and bad ones. They are small shell programs, so that each fault is seen in the text.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_agent::tools::{McpServer, McpTransport};
use tokio_util::sync::CancellationToken;

use super::{World, gone, pid_in};

/// A server that answers by what a line contains. `$id` is the id of the request, `say` answers it.
const SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
fail() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"%s"}}\n' "$id" "$1" "$2"; }
text() { say "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
hello() { say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'; }
list() { say "{\"tools\":[{\"name\":\"echo\",\"description\":\"says it\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}},\"annotations\":{\"readOnlyHint\":true}},{\"name\":\"odd name!\",\"inputSchema\":{\"type\":\"object\"}}$1]}"; }
serve() {
  while IFS= read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case "$line" in
      *'"method":"server/discover"'*) fail -32601 'no such method' ;;
      *'"method":"initialize"'*) hello ;;
      *'"method":"tools/list"'*) list "$extra" ;;
      *'"method":"tools/call"'*) call ;;
    esac
  done
}
"#;

fn server(script: &str) -> McpServer {
    let mut server = McpServer::new(
        "demo",
        McpTransport::Stdio {
            program: "sh".into(),
            arguments: vec!["-c".into(), format!("{SERVER}\n{script}")],
            environment: vec![("TOKEN".into(), "token-0123456789".into())],
        },
    );
    server.start_within = Duration::from_secs(20);
    server.call_within = Duration::from_secs(20);
    server
}

fn world(server: McpServer) -> World {
    World::with(|settings| settings.servers = vec![server])
}

async fn prepared(world: &World) -> Vec<String> {
    let cancel = CancellationToken::new();
    let notes = world.tools.prepare(&cancel);
    tokio::time::timeout(Duration::from_mins(1), notes).await.expect("a start that hangs")
}

fn names(world: &World) -> Vec<String> {
    world.tools.specs().into_iter().map(|spec| spec.name).filter(|name| name.starts_with("mcp__")).collect()
}

#[tokio::test]
async fn tools_are_announced_and_called() {
    let world = world(server(
        "echo $$ > pid; call() { text \"$line\" | tr -d '\\\\\\\\' >/dev/null; text 'hello'; }; serve",
    ));
    assert!(
        !world.root.join("pid").exists() && names(&world).is_empty(),
        "nothing is started before it is needed"
    );
    assert_eq!(prepared(&world).await, Vec::<String>::new());
    assert_eq!(names(&world), ["mcp__demo__echo", "mcp__demo__odd_name_"]);
    let spec = world.tools.specs().into_iter().find(|spec| spec.name == "mcp__demo__echo").unwrap();
    assert_eq!(
        (spec.description.as_str(), &spec.parameters["properties"]["text"]["type"]),
        ("says it", &json!("string"))
    );
    assert_eq!(world.done("mcp__demo__echo", json!({ "text": "x" })).await, "hello");
    assert_eq!(world.tools.title("mcp__demo__echo", &json!({ "text": "x" })), "demo echo: x");
    let pid = pid_in(world.root.join("pid")).await;
    world.tools.close().await;
    assert!(gone(pid).await);
    assert!(world.refused("mcp__demo__echo", json!({})).await.contains("the session is over"));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_with_all_it_has_started() {
    let mut silent = server("echo $$ > pid; sleep 300 & echo $! > child; cat >/dev/null; sleep 300");
    silent.start_within = Duration::from_millis(700);
    let world = world(silent);
    let before = Instant::now();
    let notes = prepared(&world).await;
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert!(notes[0].contains("demo: it was not ready within 0.7 s"), "{notes:?}");
    for name in ["pid", "child"] {
        let pid = pid_in(world.root.join(name)).await;
        assert!(gone(pid).await, "{name}");
    }
    // The others are there.
    assert!(world.tools.specs().iter().any(|spec| spec.name == "read"));
}

#[tokio::test]
async fn a_call_without_an_answer_is_bounded_and_can_be_cancelled() {
    let mut slow = server("call() { :; }; serve");
    slow.call_within = Duration::from_millis(300);
    let slow = world(slow);
    prepared(&slow).await;
    let said = slow.refused("mcp__demo__echo", json!({})).await;
    assert!(said.contains("no answer within 0.3 s"), "{said}");
    let world = world(server("call() { :; }; serve"));
    prepared(&world).await;
    let cancel = CancellationToken::new();
    let later = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(world.tools.call("mcp__demo__echo", json!({}), &cancel), later);
    assert!(output.failed && output.text.contains("cancelled"), "{}", output.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_floods_is_cut_off() {
    // Lines without end that are good JSON, then one line without end.
    for flood in [
        "yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"'$(printf %09000d 0)'\"}}'",
        "tr '\\0' x < /dev/zero",
    ] {
        let world = world(server(&format!("echo $$ > pid; call() {{ {flood}; }}; serve")));
        prepared(&world).await;
        let before = Instant::now();
        let said = world.refused("mcp__demo__echo", json!({})).await;
        assert!(said.contains("written too much") || said.contains("no answer within"), "{said}");
        assert!(before.elapsed() < Duration::from_secs(50), "{:?}", before.elapsed());
        let pid = pid_in(world.root.join("pid")).await;
        world.tools.close().await;
        assert!(gone(pid).await);
    }
}

#[tokio::test]
async fn a_server_that_dies_is_told_of_and_started_again() {
    let script = "echo x >> starts; call() { echo \"bad: $TOKEN\" >&2; exit 7; }; serve";
    let world = world(server(script));
    prepared(&world).await;
    for _ in 0..2 {
        let said = world.refused("mcp__demo__echo", json!({})).await;
        assert!(said.contains("exit code 7") && said.contains("bad: [hidden]"), "{said}");
        assert!(said.contains("Whether the tool did something is not known"), "{said}");
    }
    for _ in 0..5 {
        world.refused("mcp__demo__echo", json!({})).await;
    }
    // Not for ever.
    let said = world.refused("mcp__demo__echo", json!({})).await;
    assert!(said.contains("is not started again"), "{said}");
    assert_eq!(std::fs::read_to_string(world.root.join("starts")).unwrap().lines().count(), 5);
}

#[tokio::test]
async fn what_a_server_announces_is_bounded_and_within_the_lists() {
    let many: Vec<String> =
        (0..300).map(|n| format!(",{{\"name\":\"t{n}\",\"inputSchema\":{{\"type\":\"object\"}}}}")).collect();
    let long = format!(",{{\"name\":\"{}\",\"inputSchema\":{{}}}}", "x".repeat(80));
    let script = format!("extra='{long}{}'; call() {{ text x; }}; serve", many.concat());
    let world = World::with(|settings| {
        settings.servers = vec![server(&script)];
        settings.deny = vec!["mcp__demo__t1*".into()];
    });
    let notes = prepared(&world).await;
    assert!(notes.iter().any(|note| note.contains("has a name that no model takes")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("more than 128 tools")), "{notes:?}");
    let names = names(&world);
    assert!(names.len() < 128 && names.iter().all(|name| !name.starts_with("mcp__demo__t1")), "{names:?}");
    // PERM-07: known to the server, and not for this session.
    assert!(world.refused("mcp__demo__t1", json!({})).await.contains("may not be used"));
    assert_eq!(world.done("mcp__demo__t2", json!({})).await, "x");
}

#[tokio::test]
async fn answers_of_any_kind_are_told_and_bounded() {
    let script = r#"call() {
      n=$((n+1))
      case $n in
        1) say '{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"a"}]}' ;;
        2) say '{"content":[],"structuredContent":{"a":1}}' ;;
        3) say '{"content":[{"type":"text","text":"no"}],"isError":true}' ;;
        4) fail -32602 'bad arguments' ;;
        5) text "$(printf %0200000d 0)" ;;
        6) echo 'no json'; echo '{"jsonrpc":"2.0"}'; text 'still here' ;;
        *) say '{"content":[]}' ;;
      esac; }; serve"#;
    let world = world(server(script));
    prepared(&world).await;
    let call = || world.call("mcp__demo__echo", json!({}));
    assert_eq!(call().await.text, "[image, image/png, 3 bytes: not shown]\na");
    assert_eq!(call().await.text, "{\"a\":1}");
    let output = call().await;
    assert!(output.failed && output.text == "no");
    let output = call().await;
    assert!(output.failed && output.text.contains("it refused: bad arguments"), "{}", output.text);
    let output = call().await;
    assert!(output.text.len() < 52 * 1024 && output.text.contains("the whole output is in"));
    assert_eq!(call().await.text, "still here");
    assert_eq!(call().await.text, "[no output]");
    assert!(world.refused("mcp__demo__echo", json!([1])).await.contains("must be an object"));
}

#[tokio::test]
async fn a_program_that_is_not_there_and_one_that_cannot_speak() {
    let mut missing = server("");
    missing.transport =
        McpTransport::Stdio { program: "surely-not-there".into(), arguments: vec![], environment: vec![] };
    let world_1 = world(missing);
    assert!(prepared(&world_1).await[0].contains("cannot start surely-not-there"));
    let world_2 = world(server("echo usage >&2; exit 2"));
    let notes = prepared(&world_2).await;
    assert!(notes[0].contains("exit code 2") && notes[0].contains("it said: usage"), "{notes:?}");
}

#[tokio::test]
async fn perm_07_a_server_without_any_allowed_tool_is_not_started() {
    let world = World::with(|settings| {
        settings.servers = vec![server("touch started; serve")];
        settings.allow = Some(vec!["read".into()]);
    });
    assert!(prepared(&world).await.is_empty());
    assert!(!world.root.join("started").exists());
}

#[tokio::test]
async fn a_dropped_box_leaves_no_server_behind() {
    let world = world(server("echo $$ > pid; sleep 300 & echo $! > child; serve"));
    prepared(&world).await;
    let pids = [pid_in(world.root.join("pid")).await, pid_in(world.root.join("child")).await];
    drop(world);
    for pid in pids {
        assert!(gone(pid).await);
    }
}

/// A server over HTTP: one answer for each request, and it remembers the headers.
async fn http_server() -> (String, std::sync::Arc<std::sync::Mutex<String>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let heard = std::sync::Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let heard = std::sync::Arc::clone(&heard);
            tokio::spawn(async move {
                let mut buffer = Vec::new();
                loop {
                    let mut chunk = [0; 4096];
                    let end = loop {
                        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                            break at + 4;
                        }
                        match stream.read(&mut chunk).await {
                            Ok(count @ 1..) => buffer.extend_from_slice(&chunk[..count]),
                            _ => return,
                        }
                    };
                    let above = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
                    heard.lock().unwrap().push_str(&above);
                    let length = above
                        .lines()
                        .find_map(|line| line.strip_prefix("content-length:"))
                        .and_then(|length| length.trim().parse().ok())
                        .unwrap_or(0);
                    while buffer.len() < end + length {
                        match stream.read(&mut chunk).await {
                            Ok(count @ 1..) => buffer.extend_from_slice(&chunk[..count]),
                            _ => return,
                        }
                    }
                    let body: Value = serde_json::from_slice(&buffer[end..end + length]).unwrap_or_default();
                    buffer.drain(..end + length);
                    let (status, answer) = http_answer(&above, &body);
                    let reply = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
                        answer.len()
                    );
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, seen)
}

fn http_answer(head: &str, body: &Value) -> (&'static str, String) {
    let result = match body["method"].as_str() {
        Some("initialize") => {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "h", "version": "1" } })
        }
        Some("tools/list") => json!({ "tools": [{ "name": "time", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "noon" }] }),
        Some("server/discover") => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return ("200 OK", json!({ "jsonrpc": "2.0", "id": body["id"], "error": error }).to_string());
        }
        _ if head.starts_with("post") => return ("202 Accepted", String::new()),
        _ => return ("405 Method Not Allowed", String::new()),
    };
    ("200 OK", json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string())
}

#[tokio::test]
async fn a_server_over_http() {
    let (url, seen) = http_server().await;
    let headers = vec![("Authorization".into(), "Bearer key-0123456789".into())];
    let world = world(McpServer::new("web", McpTransport::Http { url, headers }));
    assert_eq!(prepared(&world).await, Vec::<String>::new());
    assert_eq!(names(&world), ["mcp__web__time"]);
    assert_eq!(world.done("mcp__web__time", json!({})).await, "noon");
    assert!(seen.lock().unwrap().contains("authorization: bearer key-0123456789"));
    world.tools.close().await;
}

#[tokio::test]
async fn a_server_over_http_that_is_not_there() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key=x", listener.local_addr().unwrap());
    // One that takes connections and never answers.
    let mut silent = McpServer::new(
        "web",
        McpTransport::Http { url, headers: vec![("X-Key".into(), "key-0123456789".into())] },
    );
    silent.start_within = Duration::from_millis(500);
    let world_1 = world(silent.clone());
    let notes = prepared(&world_1).await;
    assert!(notes[0].contains("not ready within 0.5 s"), "{notes:?}");
    drop(listener);
    silent.start_within = Duration::from_secs(10);
    let world_2 = world(silent);
    let notes = prepared(&world_2).await;
    assert!(!notes.is_empty() && !notes[0].contains("key-0123456789"), "{notes:?}");
}
