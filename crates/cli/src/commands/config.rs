//! `subagent config`: the settings of the running daemon.

use clap::{Args, Subcommand};
use subagent_model::ErrorCode;
use subagent_runtime::{Limits, Runtime};

use crate::config;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;

/// Show or change settings of the running daemon
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Limits(LimitsArgs),
}

/// Show or change the limits in force
///
/// A change counts for what is decided from now on: nothing that runs or waits is turned away. It lasts until the daemon
/// ends; what lasts is the section "limits" of config.toml.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent config limits
  subagent config limits running=8
  subagent config limits per_provider.claude=2 per_model.opus=1
  subagent config limits per_provider.claude=none")]
struct LimitsArgs {
    /// A limit and its new value; a limit by name, such as that of one provider, also takes none
    #[arg(value_name = "KEY=VALUE")]
    changes: Vec<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &ConfigArgs, console: &Console) -> Result<u8, Failure> {
    let What::Limits(args) = &args.what;
    // What is wrong with a change is told before a daemon is started for it.
    change(&mut Limits::default(), &args.changes)?;
    let session = Session::open(console).await?;
    let mut limits = session.client.limits().await?;
    if !args.changes.is_empty() {
        change(&mut limits, &args.changes)?;
        limits = session.client.set_limits(&session.caller, limits).await?;
    }
    if console.json {
        console.document(&limits);
        return Ok(exit::DONE);
    }
    let rows: Vec<_> = lines(&limits)
        .into_iter()
        .map(|(key, value)| vec![Cell::painted(&key, Paint::Dim), Cell::plain(&value)])
        .collect();
    console.rows(&rows);
    if !args.changes.is_empty() {
        let file = session.paths.config.display();
        console.aside(&format!("in force until this daemon ends; what lasts stands in {file}"));
    }
    Ok(exit::DONE)
}

fn change(limits: &mut Limits, changes: &[String]) -> Result<(), Failure> {
    for change in changes {
        let (key, value) = change.split_once('=').ok_or_else(|| {
            Failure::new(ErrorCode::InvalidRequest, format!("{change}: expected KEY=VALUE"))
                .hint("Such as running=8. `subagent config limits` lists the keys.")
        })?;
        config::set_limit(limits, key.trim(), value.trim())?;
    }
    Ok(())
}

/// Every limit as config.toml writes it.
fn lines(limits: &Limits) -> Vec<(String, String)> {
    let all = serde_json::to_value(limits).unwrap_or_default();
    let mut lines = Vec::new();
    for (key, value) in all.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(named) => {
                lines.extend(named.iter().map(|(name, value)| (format!("{key}.{name}"), value.to_string())));
            }
            None => lines.push((key.clone(), value.to_string())),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{change, lines};
    use subagent_runtime::Limits;

    fn changed(changes: &[&str]) -> Result<Limits, String> {
        let mut limits = Limits::default();
        let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
        change(&mut limits, &changes).map(|()| limits).map_err(|failure| failure.full())
    }

    #[test]
    fn queue_02_limits_are_changed_by_the_rules_of_the_file() {
        let limits =
            changed(&["running=8", "per_provider.claude=2", "per_model.x=1", "per_model.x=none"]).unwrap();
        assert_eq!((limits.running, limits.per_provider["claude"]), (8, 2));
        assert!(limits.per_model.is_empty());
        for (wrong, part) in [
            ("running=-1", "from 1 to 1024"),
            ("running=2.5", "from 1 to 1024"),
            ("runing=2", "no limit runing"),
            ("running", "expected KEY=VALUE"),
            ("per_provider.=1", "no limit per_provider."),
            ("per_provider.a=x", "from 0 to 1024"),
        ] {
            let error = changed(&[wrong]).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_limit_is_shown_and_can_be_typed_back() {
        let mut limits = Limits::default();
        limits.per_provider.insert(String::from("claude"), 2);
        limits.running = 3;
        let typed: Vec<_> = lines(&limits).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut again = Limits::default();
        change(&mut again, &typed).unwrap();
        assert_eq!(again, limits);
    }
}
