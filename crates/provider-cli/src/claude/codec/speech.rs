//! What it says for its model: messages, thoughts, tools and what they used. What inner subagents say is theirs.

use subagent_provider::Said;

use super::super::ends::Quota;
use super::super::frames::{Assistant, Stream, User};
use super::super::inner;
use super::{Claude, NAME_BYTES};

impl Claude {
    pub(super) fn message(&mut self, message: Assistant, said: &mut Vec<Said>) {
        if message.parent_tool_use_id.is_some() {
            return;
        }
        if message.error.is_some() || message.is_api_error_message {
            // Its text is in the result as well, and nothing that the model said.
            self.fault.class = message.error.filter(|class| class.len() <= NAME_BYTES);
            if let Some(limit) = message.rate_limit_info {
                self.fault.quota = Quota::used_up(&limit);
            }
            return;
        }
        for block in message.message.blocks() {
            let text = |text: Option<String>| text.filter(|text| !text.is_empty());
            match &*block.kind {
                // What was broken off is no message; its parts were told.
                "text" if !message.aborted => said.extend(text(block.text).map(Said::Message)),
                "thinking" => said.extend(text(block.thinking).map(Said::Thought)),
                "tool_use" => {
                    if let (Some(id), Some(name)) = (block.id, block.name) {
                        let input = block.input.map(|input| input.get().to_owned());
                        said.push(Said::ToolStarted { id, name, input });
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn stream(&mut self, stream: Stream, said: &mut Vec<Said>) {
        if stream.parent_tool_use_id.is_some() {
            return;
        }
        let event = stream.event;
        match &*event.kind {
            "message_start" => self.ledger.begins(event.message.and_then(|message| message.usage)),
            "content_block_delta" => {
                let text =
                    event.delta.filter(|delta| delta.kind == "text_delta").and_then(|delta| delta.text);
                said.extend(text.filter(|text| !text.is_empty()).map(Said::Delta));
            }
            "message_delta" => {
                let Some(why) = event.delta.and_then(|delta| delta.stop_reason) else { return };
                if let Some(used) = self.ledger.finished(event.usage) {
                    said.push(Said::Used(used));
                    said.push(Said::Turn { more: matches!(&*why, "tool_use" | "pause_turn") });
                }
            }
            _ => {}
        }
    }
}

/// What came of its tools.
pub(super) fn tool_results(user: &User, said: &mut Vec<Said>) {
    if user.parent_tool_use_id.is_some() {
        return;
    }
    for block in user.message.blocks() {
        if let ("tool_result", Some(id)) = (&*block.kind, &block.tool_use_id) {
            let output = block.content.as_ref().map(|content| inner::text_of(content));
            said.push(Said::ToolEnded { id: id.clone(), failed: block.is_error, output });
        }
    }
}
