//! The reference of the command line as Markdown, from the tree of commands itself, so that it cannot say
//! anything the program does not do.

use std::fmt::Write as _;

use clap::{Arg, Command};

const NOTE: &str = "<!-- Written by `cargo xtask gen` from the commands in crates/cli. -->\n\n";

/// Commands that clap adds by itself.
const OWN: &[&str] = &["help", "version"];

/// The whole reference.
pub(crate) fn markdown(mut root: Command) -> String {
    root.build();
    let mut text = format!("{NOTE}# Command line\n\n");
    contents(&root, 0, &mut text);
    text.push('\n');
    section(&root, true, &mut text);
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The list of all commands at the top.
fn contents(command: &Command, depth: usize, text: &mut String) {
    let name = full_name(command);
    let about =
        command.get_about().map(|about| format!(": {}", flat(&about.to_string()))).unwrap_or_default();
    let _ = writeln!(text, "{:indent$}- [`{name}`](#{}){about}", "", anchor(&name), indent = depth * 2);
    for child in shown(command) {
        contents(child, depth + 1, text);
    }
}

fn section(command: &Command, is_root: bool, text: &mut String) {
    let usage = command.clone().render_usage().to_string();
    let _ = write!(text, "## `{}`\n\n", full_name(command));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _ = write!(text, "{}\n\n", about.to_string().trim());
    }
    let _ = write!(text, "```text\n{}\n```\n\n", usage.trim_start_matches("Usage:").trim());
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !OWN.contains(&arg.get_id().as_str()))
        // What holds everywhere is said once.
        .filter(|arg| is_root || !arg.is_global_set())
        .collect();
    if !arguments.is_empty() {
        text.push_str("| Argument | Meaning |\n|---|---|\n");
        for arg in arguments {
            let _ = writeln!(text, "| `{}` | {} |", spelling(arg), meaning(arg));
        }
        text.push('\n');
    }
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let _ = write!(text, "{}\n\n", after.to_string().trim());
    }
    for child in shown(command) {
        section(child, false, text);
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set() && !OWN.contains(&child.get_name()))
}

fn full_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// How common Markdown renderers name a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

/// An argument as one types it.
fn spelling(arg: &Arg) -> String {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|word| format!("--{word}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let mut text = flags.join(", ");
    if arg.is_positional() || arg.get_action().takes_values() {
        let names =
            arg.get_value_names().map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let names = names.unwrap_or_else(|| vec![arg.get_id().as_str().to_uppercase()]).join(" ");
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&names);
        if arg.is_positional() && arg.get_num_args().is_some_and(|count| count.max_values() > 1) {
            text.push_str("...");
        }
    }
    text.replace('|', "\\|")
}

/// Help, choices and default in one cell.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(|help| flat(&help.to_string()));
    let mut text = help.unwrap_or_default();
    let takes_values = arg.is_positional() || arg.get_action().takes_values();
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| takes_values && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .filter(|_| takes_values)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    for (label, values) in [("one of", choices), ("default", defaults)] {
        if !values.is_empty() {
            let _ = write!(text, " ({label}: {})", values.join(", "));
        }
    }
    text.replace('|', "\\|")
}

/// Several lines as one, since a cell has no others.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    #[test]
    fn a_tree_of_commands_becomes_a_page() {
        let run = Command::new("run")
            .about("Run it")
            .arg(Arg::new("prompt").required(true).help("The task"))
            .arg(
                Arg::new("mode")
                    .short('m')
                    .long("mode")
                    .value_parser(["a", "b"])
                    .default_value("a")
                    .help("How\n or |"),
            )
            .arg(Arg::new("secret").long("secret").hide(true));
        let root = Command::new("subagent")
            .about("Delegates")
            .arg(Arg::new("json").long("json").global(true).action(ArgAction::SetTrue).help("As JSON"))
            .subcommand(run)
            .subcommand(Command::new("inner").hide(true));
        let page = markdown(root);
        let expected = "# Command line\n\n\
            - [`subagent`](#subagent): Delegates\n  - [`subagent run`](#subagent-run): Run it\n\n\
            ## `subagent`\n\nDelegates\n\n```text\nsubagent [OPTIONS] [COMMAND]\n```\n\n\
            | Argument | Meaning |\n|---|---|\n| `--json` | As JSON |\n\n\
            ## `subagent run`\n\nRun it\n\n```text\nsubagent run [OPTIONS] <prompt>\n```\n\n\
            | Argument | Meaning |\n|---|---|\n| `PROMPT` | The task |\n\
            | `-m, --mode MODE` | How or \\| (one of: `a`, `b`) (default: `a`) |\n";
        assert_eq!(page.strip_prefix(NOTE), Some(expected));
    }
}
