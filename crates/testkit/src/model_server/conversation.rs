//! What a request says, whatever wire format it came in: the prompts of the person, what tools gave back, and which tools
//! there are.

use serde::Serialize;
use serde_json::Value;

use super::prompts;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini `generateContent`.
    Gemini,
}

/// A tool that a request declares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Takes free text, not arguments.
    pub free: bool,
    /// JSON Schema of its arguments; null when it has none.
    #[serde(skip)]
    pub schema: Value,
}

/// A request, read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conversation {
    /// The format that it came in.
    pub format: Format,
    /// The model asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Instructions of the agent to the model.
    #[serde(skip)]
    pub system: String,
    /// Tools that may be called.
    pub tools: Vec<Tool>,
    /// What a person said, first to last; what agents add on their own is left out.
    pub prompts: Vec<String>,
    /// What tools gave back since the last prompt.
    pub results: Vec<String>,
    /// JSON Schema that the answer is to have.
    #[serde(skip)]
    pub schema: Option<Value>,
}

impl Conversation {
    /// With nothing said yet.
    pub(super) fn new(format: Format, model: &str, stream: bool) -> Self {
        Self {
            format,
            model: model.to_owned(),
            stream,
            system: String::new(),
            tools: Vec::new(),
            prompts: Vec::new(),
            results: Vec::new(),
            schema: None,
        }
    }

    /// Takes the texts of one message of the user. They are a prompt if anything of them comes from a person.
    pub(super) fn said<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        let real: Vec<String> = texts.into_iter().filter_map(prompts::real).collect();
        if !real.is_empty() {
            self.prompts.push(real.join("\n"));
            self.results.clear();
        }
    }

    /// Takes what a tool gave back.
    pub(super) fn gave(&mut self, result: String) {
        self.results.push(result);
    }

    /// Declares a tool.
    pub(super) fn offer(&mut self, name: &str, free: bool, schema: &Value) {
        self.tools.push(Tool { name: name.to_owned(), free, schema: schema.clone() });
    }

    /// The last thing that a person said.
    pub fn prompt(&self) -> &str {
        self.prompts.last().map_or("", String::as_str)
    }

    /// A tool by its name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}
