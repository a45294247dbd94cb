//! The real weights, where `SUBAGENT_MODELS` has them (`cargo xtask weights`). Ignored by default: it computes for a minute.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use serde_json::json;
use subagent_local_model::chat::{self, Answer};
use subagent_local_model::engine::{Engine, Event, Job};
use tokio::sync::mpsc;

#[test]
#[ignore = "needs the weights of `cargo xtask weights`, in the directory SUBAGENT_MODELS"]
fn a_real_model_calls_the_tool_that_was_asked_for() {
    let models = std::env::var_os("SUBAGENT_MODELS").unwrap_or_else(|| "../../target/models".into());
    let file = File::open(PathBuf::from(models).join("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")).unwrap();
    let engine = Engine::start(&mut BufReader::new(file), 1024, 1).unwrap();
    let request = json!({"messages": [{"role": "user", "content": "Read the file docs/ARCHITECTURE.md"}],
        "tools": [{"type": "function", "function": {"name": "read", "description": "Read a file.",
            "parameters": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}}}]});
    let asked = chat::ask(&serde_json::from_value(request).unwrap()).unwrap();
    let (to, mut events) = mpsc::unbounded_channel();
    let prompt = engine.encode(&asked.pieces).unwrap();
    let job =
        Job { prompt, grammar: asked.grammar, most: 60, temperature: 0.0, seed: 0, stops: Vec::new(), to };
    engine.submit(job).unwrap();
    let mut written = String::new();
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Text(text) => written.push_str(&text),
            Event::Done { whole, .. } => assert!(whole, "{written}"),
            Event::Failed(why) => assert_eq!(why, ""),
        }
    }
    let call = Answer::Call("read".to_owned(), r#"{"path":"docs/ARCHITECTURE.md"}"#.to_owned());
    assert_eq!(chat::read(asked.reading, &written), Some(call));
}
