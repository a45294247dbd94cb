//! `subagent ls`: which subagents there are.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use subagent_model::request::{DamagedRow, ListFilter, Page};
use subagent_model::{Cursor, ErrorCode, InnerSubagent, Status, SubagentId, SubagentRecord};
use subagent_runtime::Runtime;

use super::inner::{self, Inners};
use super::outcome;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::{self, Cell};
use crate::view::{text, time};

/// How many of the newest are shown beside the live ones.
const NEWEST: u32 = 20;
/// Records of one request.
const PAGE: u32 = 1_000;
/// How often a watched list is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// List subagents
///
/// Shows those that are live and the 20 newest; --all shows every one there is. Within a subagent, only its own children
/// are listed unless --all is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent ls
  subagent ls --status error --all
  subagent ls --tree --watch
  subagent ls --all --json | jq -r '.items[].handle'

Statuses: queued, running, idle, waiting, stopping, completed, steered, aborted, stopped, error, lost.")]
pub(crate) struct LsArgs {
    /// Every subagent, however old, of every requester
    #[arg(short, long)]
    all: bool,
    /// Show who spawned whom, and the agents that run inside of a subagent, as it tells of them
    #[arg(long)]
    tree: bool,
    /// Only those with this status; may be repeated
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,
    /// Draw the list anew whenever something changes, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// Carries it out.
pub(crate) async fn run(args: &LsArgs, console: &Console) -> Result<u8, Failure> {
    if args.watch && !console.out.terminal && !console.json {
        let message = "--watch draws on a terminal, and standard output is none";
        return Err(Failure::new(ErrorCode::InvalidRequest, message)
            .hint("Add --json: it prints one line for each change."));
    }
    let session = Session::open(console).await?;
    if args.watch {
        return watch(args, &session).await;
    }
    let listed = fetch(args, &session).await?;
    if console.json {
        console.document(&listed);
        return Ok(exit::DONE);
    }
    for line in table(&listed, args.tree, console) {
        console.line(&line);
    }
    let page = listed.page;
    if page.items.is_empty() {
        console.aside("no subagents; `subagent run -- CMD` makes one");
    } else if page.next.is_some() && args.all {
        console.aside("there are more; raise --limit");
    }
    tell_damaged(&page.damaged, console);
    Ok(exit::DONE)
}

fn tell_damaged(damaged: &[DamagedRow], console: &Console) {
    for row in damaged {
        console.note(&format!("damaged record {}: {}", text::line(&row.id), text::line(&row.reason)));
    }
}

/// What is listed.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    page: Page,
    /// With --tree: the agents that run inside of a subagent.
    #[serde(skip_serializing_if = "Inners::is_empty")]
    inner: Inners,
}

async fn fetch(args: &LsArgs, session: &Session<'_>) -> Result<Listed, Failure> {
    let page = records(args, session).await?;
    let inner = if args.tree { inner::of(session, &page.items).await } else { Inners::new() };
    Ok(Listed { page, inner })
}

/// The records that were asked for, newest first.
async fn records(args: &LsArgs, session: &Session<'_>) -> Result<Page, Failure> {
    let own = session.own_id.is_some() && !args.all;
    let base = ListFilter {
        status: args.status.clone(),
        requester: own.then(|| session.caller.requester.to_string()),
        ..ListFilter::default()
    };
    let most = args.limit.unwrap_or(if args.all { u32::MAX } else { NEWEST });
    let mut page = pages(session, &base, most).await?;
    if !args.all {
        let live = pages(session, &ListFilter { live: true, ..base }, u32::MAX).await?;
        page.items.extend(live.items);
        page.items.sort_unstable_by_key(|record| std::cmp::Reverse(record.id));
        page.items.dedup_by_key(|record| record.id);
        page.damaged.extend(live.damaged);
        page.damaged.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        page.damaged.dedup();
        if let Some(limit) = args.limit {
            page.items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        page.next = None;
    }
    Ok(page)
}

/// As many pages as it takes.
pub(super) async fn pages(session: &Session<'_>, filter: &ListFilter, most: u32) -> Result<Page, Failure> {
    let mut all = Page { items: Vec::new(), next: None, damaged: Vec::new() };
    loop {
        let left = most.saturating_sub(u32::try_from(all.items.len()).unwrap_or(u32::MAX));
        let filter = ListFilter { before: all.next, limit: Some(left.min(PAGE)), ..filter.clone() };
        let page =
            session.steadily(async |client| client.list(&session.caller, filter.clone()).await).await?;
        let done = page.next.is_none() || page.items.is_empty();
        all.items.extend(page.items);
        all.damaged.extend(page.damaged);
        all.next = page.next;
        if done || u32::try_from(all.items.len()).unwrap_or(u32::MAX) >= most {
            return Ok(all);
        }
    }
}

async fn watch(args: &LsArgs, session: &Session<'_>) -> Result<u8, Failure> {
    let console = session.console;
    let mut cursor = session.steadily(async |client| client.health().await).await?.cursor;
    let mut drawn = 0;
    let mut listed = fetch(args, session).await?;
    loop {
        if console.json {
            console.json_line(&listed);
        } else {
            drawn = draw(&listed, args, console, drawn);
        }
        if console.closed() {
            return Ok(exit::DONE);
        }
        loop {
            let seen = cursor;
            cursor = news(session, cursor).await?;
            if cursor != seen {
                listed = fetch(args, session).await?;
            } else if args.tree {
                // What children tell of their own is no event.
                refresh(&mut listed, session).await;
            }
            // Ages move on a terminal; programs are told of changes only.
            if cursor != seen || !console.json {
                break;
            }
        }
    }
}

/// Looks again at what is inside of those that are live.
async fn refresh(listed: &mut Listed, session: &Session<'_>) {
    let live: Vec<_> = listed.page.items.iter().filter(|record| !record.status.is_final()).cloned().collect();
    listed.inner.extend(inner::of(session, &live).await);
}

/// Waits for events, no longer than until the next drawing, and reads all there are.
async fn news(session: &Session<'_>, mut cursor: Cursor) -> Result<Cursor, Failure> {
    let mut wait = Some(REDRAW);
    loop {
        let after = cursor;
        let asked = std::time::Instant::now();
        let page =
            session.steadily(async |client| client.events(&session.caller, after, PAGE, wait).await).await?;
        cursor = page.next.max(after);
        if page.items.is_empty() {
            if wait.is_some() {
                tokio::time::sleep(REDRAW.saturating_sub(asked.elapsed())).await;
            }
            return Ok(cursor);
        }
        // Bursts are drawn once.
        if wait.take().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Draws over what was drawn before; gives the lines that are there now.
fn draw(listed: &Listed, args: &LsArgs, console: &Console, before: usize) -> usize {
    let mut lines = table(listed, args.tree, console);
    let most = console.out.height().saturating_sub(1).max(1);
    if lines.len() > most {
        let hidden = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(format!("... {hidden} more"));
    }
    let up = if before > 0 { format!("\u{1b}[{before}A\r\u{1b}[J") } else { String::new() };
    console.data(&format!("{up}{}\n", lines.join("\n")));
    lines.len()
}

/// The lines of the table.
fn table(listed: &Listed, tree: bool, console: &Console) -> Vec<String> {
    let records = &listed.page.items;
    if records.is_empty() {
        return Vec::new();
    }
    let head = ["HANDLE", "STATUS", "AGE", "TYPE", "DESCRIPTION"]
        .map(|word| Cell::painted(word, Paint::Dim))
        .to_vec();
    let ordered: Vec<(String, Node<'_>)> = if tree {
        branches(records, &listed.inner)
    } else {
        records.iter().map(|record| (String::new(), Node::Record(record))).collect()
    };
    let body = ordered.into_iter().map(|(branch, node)| match node {
        Node::Record(record) => row(&branch, record, console),
        Node::Inner(inner) => inner::row(&branch, inner),
        Node::Left(left) => vec![Cell::exact(format!("{branch}... {left} more"), Paint::Dim)],
    });
    let rows: Vec<_> = std::iter::once(head).chain(body).collect();
    rows::aligned(&rows, console.out.width(), console.out.colour)
}

fn row(branch: &str, record: &SubagentRecord, console: &Console) -> Vec<Cell> {
    let kind = if record.agent_type == record.provider {
        record.provider.clone()
    } else {
        format!("{}/{}", record.agent_type, record.provider)
    };
    vec![
        Cell::exact(format!("{branch}{}", text::line(record.handle.as_str())), Paint::Bold),
        outcome::standing_cell(record, console),
        Cell::painted(&time::short(time::now().since(record.created_at)), Paint::Dim),
        Cell::plain(&kind),
        Cell::plain(&record.description),
    ]
}

/// What stands in a row.
#[derive(Debug, Clone, Copy)]
enum Node<'a> {
    Record(&'a SubagentRecord),
    /// One that runs inside of the record above.
    Inner(&'a InnerSubagent),
    /// So many of those are left out.
    Left(usize),
}

/// Parents before their children, each with the branch that leads to it. Whose parent is not in the list is a root here. What
/// runs inside of one stands before what it spawned.
fn branches<'a>(records: &'a [SubagentRecord], inners: &'a Inners) -> Vec<(String, Node<'a>)> {
    let known: HashMap<SubagentId, &SubagentRecord> =
        records.iter().map(|record| (record.id, record)).collect();
    let mut children: HashMap<SubagentId, Vec<&SubagentRecord>> = HashMap::new();
    let mut roots = Vec::new();
    for record in records {
        match record.parent.filter(|parent| known.contains_key(parent)) {
            Some(parent) => children.entry(parent).or_default().push(record),
            None => roots.push(record),
        }
    }
    let mut out = Vec::with_capacity(records.len());
    // Depth first, without recursion: the records come from a store and may be of any depth. Beside each inner one stands
    // whose it is.
    let mut open: Vec<(String, String, Option<SubagentId>, Node<'a>)> = roots
        .into_iter()
        .rev()
        .map(|root| (String::new(), String::new(), None, Node::Record(root)))
        .collect();
    while let Some((branch, below, of, node)) = open.pop() {
        out.push((branch, node));
        let (of, mut young) = match (node, of) {
            (Node::Record(record), _) => {
                let (shown, left) = inner::shown(inners.get(&record.id).map_or(&[], Vec::as_slice));
                let tops = shown.iter().filter(|inner| parent_of(inner, &shown).is_none());
                let mut young: Vec<_> = tops.map(|inner| Node::Inner(inner)).collect();
                young.extend((left > 0).then_some(Node::Left(left)));
                (Some(record.id), young)
            }
            (Node::Inner(inner), Some(of)) => {
                let (shown, _) = inner::shown(inners.get(&of).map_or(&[], Vec::as_slice));
                let below = shown.iter().filter(|child| {
                    parent_of(child, &shown).is_some_and(|parent| std::ptr::eq(parent, inner))
                });
                (Some(of), below.map(|child| Node::Inner(child)).collect())
            }
            _ => (None, Vec::new()),
        };
        if let Node::Record(record) = node {
            let mut spawned = children.remove(&record.id).unwrap_or_default();
            spawned.sort_unstable_by_key(|record| record.id);
            young.extend(spawned.into_iter().map(Node::Record));
        }
        let last = young.len();
        for (at, child) in young.into_iter().enumerate().rev() {
            let (own, further) = if at + 1 == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((format!("{below}{own}"), format!("{below}{further}"), of, child));
        }
    }
    out
}

/// The one that an inner one belongs to, where that is shown before it.
fn parent_of<'a>(inner: &InnerSubagent, shown: &[&'a InnerSubagent]) -> Option<&'a InnerSubagent> {
    let parent = inner.parent.as_ref()?;
    let before = shown.iter().take_while(|other| other.key != inner.key || other.attempt != inner.attempt);
    before.copied().find(|other| other.attempt == inner.attempt && other.key == *parent)
}

#[cfg(test)]
mod tests {
    use super::{Node, branches};
    use crate::commands::inner::Inners;
    use crate::commands::sample;
    use subagent_model::{AttemptNumber, InnerStatus, InnerSubagent, SubagentRecord, Timestamp};

    /// A record of which only id and parent matter.
    fn record(id: u8, parent: Option<u8>) -> SubagentRecord {
        let uuid = |id: u8| format!("01a22d21-9704-741f-afa1-3082d00295{id:02x}");
        let mut fields = serde_json::json!({"id": uuid(id), "handle": format!("h{id}"), "root": uuid(id)});
        if let Some(parent) = parent {
            fields["parent"] = uuid(parent).into();
        }
        sample(&fields)
    }

    fn drawn(records: &[SubagentRecord], inners: &Inners) -> Vec<String> {
        let word = |node| match node {
            Node::Record(record) => record.handle.to_string(),
            Node::Inner(inner) => inner.key.clone(),
            Node::Left(left) => format!("{left} more"),
        };
        branches(records, inners)
            .into_iter()
            .map(|(branch, node)| format!("{branch}{}", word(node)))
            .collect()
    }

    #[test]
    fn acp_14_what_runs_inside_of_one_stands_below_it_and_before_what_it_spawned() {
        let records = [(2, Some(1)), (1, None)].map(|(id, parent)| record(id, parent));
        let inner = |key: &str, parent: Option<&str>| InnerSubagent {
            key: key.to_owned(),
            attempt: AttemptNumber(1),
            parent: parent.map(str::to_owned),
            title: None,
            state: InnerStatus::Completed,
            can_stop: false,
            announced_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(1),
        };
        let own =
            vec![inner("a", None), inner("a1", Some("a")), inner("b", Some("gone")), inner("x", Some("x"))];
        let inners = Inners::from([(records[1].id, own)]);
        assert_eq!(drawn(&records, &inners), ["h1", "├─ a", "│  └─ a1", "├─ b", "├─ x", "└─ h2"]);
        let many = (0..30).map(|at| inner(&at.to_string(), None)).collect();
        let lines = drawn(&records, &Inners::from([(records[1].id, many)]));
        assert_eq!((lines.len(), lines[21].as_str()), (23, "├─ 10 more"), "{lines:?}");
    }

    #[test]
    fn a_tree_shows_parents_before_children_and_loses_nobody() {
        // Newest first, as they come; 9 has a parent that is not in the list.
        let records =
            [(9, Some(99)), (6, Some(2)), (5, Some(1)), (4, Some(3)), (3, Some(1)), (2, None), (1, None)]
                .map(|(id, parent)| record(id, parent));
        let lines = drawn(&records, &Inners::new());
        assert_eq!(lines, ["h9", "h2", "└─ h6", "h1", "├─ h3", "│  └─ h4", "└─ h5"]);
    }

    #[test]
    fn a_tree_of_any_depth_is_shown() {
        let records: Vec<_> = (0..=255).rev().map(|id: u8| record(id, id.checked_sub(1))).collect();
        assert_eq!(branches(&records, &Inners::new()).len(), 256);
    }
}
