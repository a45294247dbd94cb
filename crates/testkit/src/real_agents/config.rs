//! What leads each agent to the scripted model and keeps it from everything else: files in its home, and its environment.

use serde_json::{Value, json};

use super::Agent;

/// The model that is asked for, where an agent has to name one.
pub(super) const MODEL: &str = "fake-model";
/// A key that opens nothing.
const KEY: &str = "sk-ant-dummy";

/// Files of the home: path and content.
pub(super) fn files(agent: Agent, url: &str) -> Vec<(&'static str, String)> {
    match agent {
        Agent::Claude | Agent::ClaudeAcp | Agent::Qwen => Vec::new(),
        Agent::Codex | Agent::CodexAcp => vec![(".codex/config.toml", codex(url))],
        Agent::Pi | Agent::PiAcp => vec![
            (".pi/agent/models.json", pi_models(url).to_string()),
            (
                ".pi/agent/settings.json",
                json!({"defaultProvider": "fake", "defaultModel": MODEL}).to_string(),
            ),
        ],
        Agent::Gemini => vec![(".gemini/settings.json", gemini().to_string())],
        Agent::Opencode => vec![(".config/opencode/opencode.json", opencode(url).to_string())],
    }
}

/// Variables beside `HOME`, `PATH` and the place for temporary files.
pub(super) fn environment(agent: Agent, url: &str, home: &str) -> Vec<(&'static str, String)> {
    let fixed = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    match agent {
        Agent::Claude | Agent::ClaudeAcp => fixed(&[
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", KEY),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            // Otherwise it tries for more than a minute, even where it is refused.
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
            // Otherwise root may not let it do as it likes.
            ("IS_SANDBOX", "1"),
        ]),
        Agent::Codex => fixed(&[("FAKE_KEY", "dummy"), ("CODEX_HOME", &format!("{home}/.codex"))]),
        Agent::CodexAcp => fixed(&[
            ("FAKE_KEY", "dummy"),
            ("OPENAI_API_KEY", "dummy"),
            ("CODEX_API_KEY", "dummy"),
            ("CODEX_HOME", &format!("{home}/.codex")),
        ]),
        Agent::Pi | Agent::PiAcp => fixed(&[("PI_OFFLINE", "1")]),
        Agent::Gemini => fixed(&[
            ("GEMINI_API_KEY", "dummy"),
            ("GOOGLE_GEMINI_BASE_URL", url),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            // Otherwise it starts itself once more and hears no signal.
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ]),
        Agent::Opencode => fixed(&[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ]),
        Agent::Qwen => fixed(&[
            ("OPENAI_API_KEY", "dummy"),
            ("OPENAI_BASE_URL", &format!("{url}/v1")),
            ("OPENAI_MODEL", MODEL),
        ]),
    }
}

/// Arguments of a run that does one task and ends; none where an agent is only spoken with.
pub(super) fn one_shot(agent: Agent, prompt: &str) -> Option<Vec<String>> {
    let words: &[&str] = match agent {
        Agent::Claude => {
            &["-p", "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose", prompt]
        }
        Agent::Codex => &["exec", "--json", "--skip-git-repo-check", prompt],
        Agent::Pi => &["--mode", "json", prompt],
        Agent::Gemini => &["-m", "gemini-2.5-flash", "-y", "-o", "stream-json", "-p", prompt],
        Agent::Opencode => &["run", "--format", "json", "--auto", prompt],
        Agent::Qwen => &["-y", "-o", "stream-json", "-p", prompt],
        Agent::PiAcp | Agent::ClaudeAcp | Agent::CodexAcp => return None,
    };
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Arguments with which an agent speaks ACP, if it does.
pub(super) fn acp(agent: Agent) -> Option<&'static [&'static str]> {
    match agent {
        Agent::PiAcp | Agent::ClaudeAcp | Agent::CodexAcp => Some(&[]),
        Agent::Gemini => Some(&["--acp", "-m", "gemini-2.5-flash"]),
        Agent::Opencode => Some(&["acp"]),
        Agent::Qwen => Some(&["--acp"]),
        Agent::Claude | Agent::Codex | Agent::Pi => None,
    }
}

fn codex(url: &str) -> String {
    format!(
        r#"model = "{MODEL}"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
requires_openai_auth = false
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false
"#
    )
}

fn pi_models(url: &str) -> Value {
    json!({"providers": {"fake": {"baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "dummy",
        "models": [{"id": MODEL, "input": ["text", "image"]}]}}})
}

fn gemini() -> Value {
    json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "general": {"disableAutoUpdate": true, "disableUpdateNag": true, "enableAutoUpdate": false,
            "checkpointing": {"enabled": false}},
    })
}

fn opencode(url: &str) -> Value {
    json!({
        "autoupdate": false, "share": "disabled",
        "model": format!("fake/{MODEL}"), "small_model": format!("fake/{MODEL}"), "enabled_providers": ["fake"],
        "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "fake",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "dummy"},
            "models": {MODEL: {"name": MODEL, "limit": {"context": 128_000, "output": 8_000}, "tool_call": true}}}},
        "permission": {"*": "allow"},
    })
}
