//! The server over a tiny random model that the test makes: the whole way from HTTP to the network and back, without weights.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::Cursor;
use std::net::SocketAddr;

use candle_core::quantized::gguf_file::{self, Value as Meta};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::{Value, json};
use subagent_local_model::engine::Engine;
use subagent_local_model::server;

const CONTEXT: usize = 1024;

fn tiny() -> Vec<u8> {
    let mut names: Vec<String> = Vec::new();
    let mut next = 0x100;
    for byte in 0..=255_u8 {
        if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            names.push(char::from(byte).to_string());
        } else {
            names.push(char::from_u32(next).unwrap().to_string());
            next += 1;
        }
    }
    names.push("ab".to_owned());
    let controls = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    let kinds: Vec<Meta> = names.iter().map(|_| Meta::I32(1)).chain(controls.map(|_| Meta::I32(3))).collect();
    names.extend(controls.map(str::to_owned));
    let (count, size, feed) = (names.len(), 32, 64);
    let text = |text: &str| Meta::String(text.to_owned());
    let meta = [
        ("general.architecture", text("qwen2")),
        ("qwen2.attention.head_count", Meta::U32(4)),
        ("qwen2.attention.head_count_kv", Meta::U32(2)),
        ("qwen2.embedding_length", Meta::U32(32)),
        ("qwen2.context_length", Meta::U32(2048)),
        ("qwen2.block_count", Meta::U32(2)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("qwen2")),
        ("tokenizer.ggml.tokens", Meta::Array(names.iter().map(|name| text(name)).collect())),
        ("tokenizer.ggml.token_type", Meta::Array(kinds)),
        ("tokenizer.ggml.merges", Meta::Array(vec![text("a b")])),
        ("tokenizer.ggml.eos_token_id", Meta::U32(259)),
    ];
    let mut state = 1_u32;
    let mut random = |rows: usize, columns: usize| {
        let cells: Vec<f32> = (0..rows * columns)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from(u16::try_from(state >> 16).unwrap()) / 65536.0 - 0.5
            })
            .collect();
        let whole = Tensor::from_vec(cells, (rows, columns), &Device::Cpu).unwrap();
        QTensor::quantize(&whole, GgmlDType::F32).unwrap()
    };
    let ones = || {
        QTensor::quantize(&Tensor::ones(size, candle_core::DType::F32, &Device::Cpu).unwrap(), GgmlDType::F32)
            .unwrap()
    };
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), random(count, size)),
        ("output_norm.weight".to_owned(), ones()),
    ];
    for at in 0..2 {
        for (name, rows, columns) in [
            ("attn_q", size, size),
            ("attn_k", size / 2, size),
            ("attn_v", size / 2, size),
            ("attn_output", size, size),
            ("ffn_gate", feed, size),
            ("ffn_up", feed, size),
            ("ffn_down", size, feed),
        ] {
            tensors.push((format!("blk.{at}.{name}.weight"), random(rows, columns)));
        }
        for name in ["attn_norm", "ffn_norm"] {
            tensors.push((format!("blk.{at}.{name}.weight"), ones()));
        }
    }
    let mut file = Cursor::new(Vec::new());
    let meta: Vec<_> = meta.iter().map(|(name, value)| (*name, value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut file, &meta, &tensors).unwrap();
    file.into_inner()
}

async fn serve() -> SocketAddr {
    let engine = Engine::start(&mut Cursor::new(tiny()), CONTEXT, 1).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, server::router(engine, "tiny".to_owned())).await });
    at
}

async fn post(at: SocketAddr, body: Value) -> (u16, String) {
    tokio::task::spawn_blocking(move || {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut answer =
            agent.post(format!("http://{at}/v1/chat/completions")).send(body.to_string()).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    })
    .await
    .unwrap()
}

fn ask(more: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "abc"}], "max_tokens": 12});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cached_beginning_changes_nothing_but_the_usage() {
    let at = serve().await;
    let (first, second) = (post(at, ask(&json!({}))).await.1, post(at, ask(&json!({}))).await.1);
    let (first, second): (Value, Value) =
        (serde_json::from_str(&first).unwrap(), serde_json::from_str(&second).unwrap());
    assert_eq!(first["choices"], second["choices"]);
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let prompt = first["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], prompt - 1);
    assert!(first["usage"]["completion_tokens"].as_u64().unwrap() <= 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_says_what_the_whole_says() {
    let at = serve().await;
    let whole: Value = serde_json::from_str(&post(at, ask(&json!({}))).await.1).unwrap();
    let (_, stream) =
        post(at, ask(&json!({"stream": true, "stream_options": {"include_usage": true}}))).await;
    let events: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn even_a_random_model_keeps_to_the_schema_and_calls_the_tool() {
    let at = serve().await;
    let schema =
        json!({"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["fix", "docs"]}}});
    let format = json!({"max_tokens": 100, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}});
    let answer: Value = serde_json::from_str(&post(at, ask(&format)).await.1).unwrap();
    let content: Value =
        serde_json::from_str(answer["choices"][0]["message"]["content"].as_str().unwrap()).unwrap();
    assert!(content["kind"] == "fix" || content["kind"] == "docs");
    let tools = json!({"max_tokens": 200, "tool_choice": "required", "tools": [{"type": "function", "function": {"name": "read",
        "parameters": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string", "maxLength": 4}}}}}]});
    let answer: Value = serde_json::from_str(&post(at, ask(&tools)).await.1).unwrap();
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let call = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "read");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert!(arguments["path"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_served_is_said() {
    let at = serve().await;
    let long = json!({"messages": [{"role": "user", "content": "x".repeat(CONTEXT)}]});
    let (status, said) = post(at, long).await;
    assert!(status == 400 && said.contains("context_length_exceeded"), "{status} {said}");
    let (status, said) = post(at, ask(&json!({"temperature": 9}))).await;
    assert!(status == 400 && said.contains("invalid_temperature"), "{status} {said}");
    let (status, _) =
        post(at, json!({"messages": [{"role": "user", "content": "x".repeat(3 * 1024 * 1024)}]})).await;
    assert_eq!(status, 413);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_queue_it_is_busy_with_a_time_to_come_back() {
    let at = serve().await;
    let slow = json!({"max_tokens": 900, "response_format": {"type": "json_schema", "json_schema": {"schema":
        {"type": "string", "minLength": 5000}}}});
    let all: Vec<_> = (0..12).map(|_| tokio::spawn(post(at, ask(&slow)))).collect();
    let mut refused = 0;
    for one in all {
        let (status, said) = one.await.unwrap();
        assert!(status == 200 || (status == 429 && said.contains("queue_full")), "{status} {said}");
        refused += u32::from(status == 429);
    }
    assert!(refused > 0);
}
