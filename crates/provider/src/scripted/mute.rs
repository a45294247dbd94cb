//! A scripted child that cannot be spoken with: it gets its prompt and answers, as a closure does.

use subagent_model::Requester;
use tokio::sync::mpsc;

use super::Scripted;
use super::player::Player;
use super::world::Begin;
use crate::{LastMessage, Link, Order, Said, TaskContext, TaskEnd, TaskFailure, TurnEnd};

pub(super) async fn play(fake: Scripted, begin: Begin, context: TaskContext) -> TaskEnd {
    let (tell, orders) = mpsc::unbounded_channel();
    let (say, mut said) = mpsc::unbounded_channel();
    let from = Requester::from("runtime");
    // It holds the other end, so that this cannot fail.
    let _ =
        tell.send(Order::Prompt { number: None, from, text: context.prompt.to_string(), attached: vec![] });
    let mut last = LastMessage::default();
    let listen = async {
        let mut end = None;
        while let Some(said) = said.recv().await {
            match said {
                Said::Delta(text) => last.delta(&text),
                Said::Message(text) => last.message(&text),
                Said::Done(done) => end = Some(done),
                Said::Broken(text) => end = Some(TurnEnd::Failed(super::player::broken(text))),
                _ => {}
            }
            if end.is_some() {
                break;
            }
        }
        // Nothing more will come: it ends.
        drop(tell);
        end
    };
    let play = Player::new(fake, begin, context, Link { orders, say }).play();
    let (end, ()) = tokio::join!(listen, play);
    let partial = || last.text().map(str::to_owned);
    match end {
        Some(TurnEnd::Finished { answer, .. }) => Ok(answer.or_else(partial).unwrap_or_default()),
        Some(TurnEnd::Failed(error)) => {
            Err(TaskFailure { message: error.message, retryable: error.retryable, partial: partial() })
        }
        Some(TurnEnd::CutOff(limit)) => Err(TaskFailure {
            partial: partial(),
            ..TaskFailure::new(format!("cut off by a limit: {limit:?}"))
        }),
        Some(TurnEnd::Cancelled) | None => {
            Err(TaskFailure { partial: partial(), ..TaskFailure::new("cancelled") })
        }
    }
}
