//! Reading a result whole, however long it is: in parts, each handed on before the next is fetched.

use subagent_model::{BoundedText, RunNumber, SubagentId};
use subagent_runtime::Runtime;

use crate::fail::Failure;
use crate::session::Session;

/// Bytes of one part.
const PART: u32 = 1024 * 1024;

/// Hands the whole of `text` to `take`, which says whether to go on. Only a text that was cut is fetched.
pub(crate) async fn each_part(
    session: &Session<'_>,
    id: SubagentId,
    run: RunNumber,
    text: &BoundedText,
    mut take: impl FnMut(&str) -> bool,
) -> Result<(), Failure> {
    if !text.truncated {
        take(&text.preview);
        return Ok(());
    }
    let mut offset = 0;
    loop {
        let part = session
            .steadily(async |client| client.result(&session.caller, id, Some(run), offset, PART).await)
            .await?;
        if !take(&part.text) {
            return Ok(());
        }
        match part.next {
            // A part that does not lead on would be asked for for ever.
            Some(next) if next > offset => offset = next,
            _ => return Ok(()),
        }
    }
}

/// Prints the whole of `text`, ended by a new line. True when all of it was taken.
pub(crate) async fn print(
    session: &Session<'_>,
    id: SubagentId,
    run: RunNumber,
    text: &BoundedText,
) -> Result<bool, Failure> {
    let console = session.console;
    let mut last = None;
    each_part(session, id, run, text, |part| {
        console.childs_text(part);
        last = part.chars().next_back().or(last);
        !console.closed()
    })
    .await?;
    if last.is_some_and(|last| last != '\n') {
        console.data("\n");
    }
    Ok(console.flush())
}
