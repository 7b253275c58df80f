//! The answer of `lock acquire`: variables for the steps of a job.

use std::time::Duration;

use onelock::{FencingToken, Name};
use serde_json::{Map, Value, json};

use super::handle::{Handle, variable};
use crate::acquisition::held;
use crate::look::millis;

/// The answer to the steps of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) token: u64,
    pub(super) valid_ms: u64,
    /// The keeper's process, if there is one.
    pub(super) pid: Option<u32>,
    pub(super) handle: String,
    /// The locks that the job holds now, for `LOCK_HELD`.
    pub(super) held: String,
}

impl Answer {
    pub(super) fn new(token: FencingToken, valid_for: Duration, handle: &Handle, held: String) -> Answer {
        let (token, valid_ms, handle) = (token.get(), millis(valid_for), handle.to_string());
        Answer { token, valid_ms, pid: None, handle, held }
    }

    /// Returns the variables that the steps need.
    fn variables(&self, name: &Name) -> [(String, String); 3] {
        [
            ("LOCK_TOKEN".to_owned(), self.token.to_string()),
            (variable(name), self.handle.clone()),
            (held::VARIABLE.to_owned(), self.held.clone()),
        ]
    }

    /// Returns what a shell evaluates.
    pub(super) fn for_a_shell(&self, name: &Name) -> String {
        let export = |(name, value): &(String, String)| format!("export {name}={}", quoted(value));
        self.variables(name).iter().map(export).collect::<Vec<_>>().join("\n")
    }

    /// Returns the object that a program reads.
    pub(super) fn for_a_program(&self, name: &Name) -> Value {
        let environment: Map<String, Value> =
            self.variables(name).into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        json!({
            "event": "held",
            "name": name.as_str(),
            "token": self.token,
            "valid_ms": self.valid_ms,
            "pid": self.pid,
            "environment": environment,
        })
    }

    /// Returns the line by which a keeper tells `lock acquire`.
    pub(super) fn to_line(&self) -> String {
        let Answer { token, valid_ms, pid, handle, held } = self;
        json!({ "token": token, "valid_ms": valid_ms, "pid": pid, "handle": handle, "held": held })
            .to_string()
    }

    pub(super) fn parse(line: &str) -> Option<Answer> {
        let value: Value = serde_json::from_str(line).ok()?;
        Some(Answer {
            token: value["token"].as_u64()?,
            valid_ms: value["valid_ms"].as_u64()?,
            pid: value["pid"].as_u64().and_then(|pid| pid.try_into().ok()),
            handle: value["handle"].as_str()?.to_owned(),
            held: value["held"].as_str()?.to_owned(),
        })
    }
}

/// Quotes a word for a shell, if that is necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_the_way() {
        let (handle, held) = ("keeper.00.01.02".to_owned(), "7 redis h a\n7 redis=b".to_owned());
        let answer = Answer { token: u64::MAX, valid_ms: 29_698, pid: Some(17), handle, held };
        assert_eq!(Answer::parse(&answer.to_line()), Some(answer));
        assert_eq!(Answer::parse(""), None);
    }

    #[test]
    fn a_word_that_a_shell_would_change_is_quoted() {
        assert_eq!(quoted("keeper.00ff.a"), "keeper.00ff.a");
        assert_eq!(quoted("/tmp/a b'c$(d)\ne"), "'/tmp/a b'\\''c$(d)\ne'");
    }
}
