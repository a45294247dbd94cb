//! Whether an agent is logged in, as its own program says it. No model is called for it, and nothing of a credential goes
//! further than the program's own answer.

/// What a program is asked: a command of it that looks and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginQuestion {
    /// Its arguments.
    pub args: &'static [&'static str],
    /// Variables added to its environment.
    pub env: &'static [(&'static str, &'static str)],
    /// How one logs in.
    pub how: &'static str,
}

/// What a program answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginAnswer {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// How it stands with the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// It has credentials: of what kind, or for which services. Whether they are accepted is known at the next use.
    In(String),
    /// It has none.
    Out,
    /// Its answer was not understood.
    Unknown,
}
