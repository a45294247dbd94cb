//! Any lines of an agent, heard by two codecs: one lives through it, the other reads what the first one wrote.

#![no_main]

use libfuzzer_sys::fuzz_target;
use subagent_model::{AttemptKey, AttemptNumber, BoundedText, Requester, RunNumber, SpawnSpec, SubagentId};
use subagent_provider::{Job, Order, Provider};
use subagent_provider_acp::AcpProvider;

fuzz_target!(|lines: Vec<Vec<u8>>| {
    let Some(prompt) = BoundedText::whole("x") else { return };
    let spec = SpawnSpec::new("acp", prompt.clone(), "/work".into());
    let subagent = SubagentId::from_uuid(uuid::Uuid::nil());
    let key = AttemptKey { subagent, run: RunNumber(1), attempt: AttemptNumber(1) };
    let job = Job { key, spec: spec.into(), prompt, prompt_text: None, dir: "/jobs".into(), session: None };
    let provider = AcpProvider::any();
    let (Some(mut live), Some(mut anew)) = (provider.codec(&job), provider.codec(&job)) else { return };
    live.open(&job);
    anew.open(&job);
    let opening: [&[u8]; 2] = [
        br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#,
        br#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#,
    ];
    for line in opening {
        assert_eq!(live.hear(line), anew.hear(line));
    }
    let order = Order::Prompt { number: None, from: Requester::from("me"), text: String::new() };
    for line in lines {
        if let Ok(told) = live.tell(&order) {
            anew.recall(&told);
        }
        let heard = live.hear(&line);
        assert_eq!(heard, anew.hear(&line));
        for reply in heard.reply.split_inclusive(|byte| *byte == b'\n') {
            anew.recall(reply);
        }
    }
});
