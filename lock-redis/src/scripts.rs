//! The scripts. Each is one atomic step on the server; its first comment says what it answers.

use std::sync::OnceLock;

use lock_core::driver::UnixTime;
use lock_core::{Error, Result};
use redis::{Arg, Cmd, Value};

macro_rules! script {
    ($($file:literal),+) => {
        Script::new(&[$(include_str!(concat!("scripts/", $file))),+])
    };
}

/// The scripts with which one layout takes, keeps, releases and shows a lock.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) grant: Script,
    /// `None` where a lock goes to the next task by a release and a grant.
    pub(crate) take_over: Option<Script>,
    pub(crate) renew: Script,
    pub(crate) release: Script,
    pub(crate) revoke: Script,
    pub(crate) inspect: Script,
    pub(crate) try_rights: Script,
}

pub(crate) static OWN: Scripts = Scripts {
    grant: script!("reading.lua", "mint.lua", "grant.lua"),
    take_over: Some(script!("reading.lua", "mint.lua", "take_over.lua")),
    renew: script!("renew.lua"),
    release: script!("release.lua"),
    revoke: script!("revoke.lua"),
    inspect: script!("reading.lua", "inspect.lua"),
    try_rights: script!("try.lua", "try_rights.lua"),
};

pub(crate) static FAIR: Scripts = Scripts {
    grant: script!("reading.lua", "mint.lua", "fair/queue.lua", "fair/mend.lua", "fair/grant.lua"),
    take_over: None,
    renew: script!("renew.lua"),
    release: script!("reading.lua", "fair/queue.lua", "fair/release.lua"),
    revoke: script!("reading.lua", "fair/queue.lua", "fair/revoke.lua"),
    inspect: script!("reading.lua", "fair/inspect.lua"),
    try_rights: script!("try.lua", "fair/try_rights.lua"),
};

pub(crate) static REDISSON: Scripts = Scripts {
    grant: script!("reading.lua", "mint.lua", "redisson/read_write.lua", "redisson/grant.lua"),
    take_over: None,
    renew: script!("reading.lua", "redisson/read_write.lua", "redisson/renew.lua"),
    release: script!("reading.lua", "redisson/release.lua"),
    revoke: script!("reading.lua", "redisson/read_write.lua", "redisson/revoke.lua"),
    inspect: script!("reading.lua", "redisson/read_write.lua", "redisson/inspect.lua"),
    try_rights: script!("try.lua", "redisson/try_rights.lua"),
};

/// Takes the lock's key alone, which leads it to the server that has the lock.
pub(crate) static TELL_TIME: Script = script!("reading.lua", "tell_time.lua");

pub(crate) static FENCED_WRITE: Script = script!("fenced_write.lua");

/// A script, and the digest by which the server knows it.
#[derive(Debug)]
pub struct Script {
    parts: &'static [&'static str],
    sha: OnceLock<String>,
}

impl Script {
    /// Creates a script of these parts, whose answers end in the server's time in microseconds.
    pub const fn new(parts: &'static [&'static str]) -> Script {
        Script { parts, sha: OnceLock::new() }
    }

    /// Returns the command that runs the script on `keys`, by its digest. The caller adds the arguments.
    pub(crate) fn on(&self, keys: &[impl AsRef<[u8]>]) -> Cmd {
        let mut command = Cmd::with_capacity(8, 512);
        command.arg("EVALSHA").arg(self.sha()).arg(keys.len());
        keys.iter().for_each(|key| _ = command.arg(key.as_ref()));
        command
    }

    fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(&self.parts.concat()).get_hash().to_owned())
    }

    /// Returns the same command for a server that does not know the digest. Afterwards the server knows it.
    pub(crate) fn in_full(&self, command: &Cmd) -> Cmd {
        let mut full = Cmd::new();
        full.arg("EVAL").arg(self.parts.concat());
        for argument in command.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                full.arg(argument);
            }
        }
        full
    }
}

/// An answer that consists of numbers: the last is the server's time in microseconds, the others are the fields.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) fields: Vec<i64>,
    pub(crate) now: i64,
}

impl Answer {
    pub(crate) fn parse(value: &Value) -> Result<Answer> {
        let Value::Array(items) = value else { return Err(unexpected(value)) };
        let number = |item: &Value| if let Value::Int(n) = item { Some(*n) } else { None };
        let mut fields: Vec<i64> =
            items.iter().map(number).collect::<Option<_>>().ok_or_else(|| unexpected(value))?;
        let now = fields.pop().ok_or_else(|| unexpected(value))?;
        Ok(Answer { fields, now })
    }

    /// Returns the error for an answer that our scripts do not give.
    pub(crate) fn unexpected(&self) -> Error {
        unexpected(&self.fields)
    }
}

/// Returns the server's time, which is the last part of every answer.
pub(crate) fn time_of(answer: &Value) -> Result<UnixTime> {
    match answer {
        Value::Array(items) => match items.last() {
            Some(Value::Int(now)) => Ok(UnixTime::from_micros(*now)),
            _ => Err(unexpected(answer)),
        },
        _ => Err(unexpected(answer)),
    }
}

/// The error for an answer that the script cannot have given. It comes from a proxy, or from a server that is not Redis
/// or Valkey.
pub(crate) fn unexpected(answer: &impl std::fmt::Debug) -> Error {
    Error::rejected(format!(
        "the server answered {answer:?}, which no script of this library answers; is it Redis or Valkey?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Cmd) -> Vec<Vec<u8>> {
        command
            .args_iter()
            .map(|arg| if let Arg::Simple(arg) = arg { arg.to_vec() } else { Vec::new() })
            .collect()
    }

    #[test]
    fn in_full_is_the_same_call_with_the_source() {
        let mut command = OWN.renew.on(&[&b"key"[..], b"\xff"]);
        command.arg("value").arg(30_000);
        let by_digest = words(&command);
        let in_full = words(&OWN.renew.in_full(&command));
        assert_eq!((by_digest[0].as_slice(), by_digest[1].len()), (b"EVALSHA".as_slice(), 40));
        assert_eq!(
            (in_full[0].as_slice(), in_full[1].as_slice()),
            (b"EVAL".as_slice(), OWN.renew.parts.concat().as_bytes())
        );
        assert_eq!(by_digest[2..], in_full[2..]);
        assert_eq!(
            by_digest[2..],
            [b"2".to_vec(), b"key".to_vec(), vec![0xff], b"value".to_vec(), b"30000".to_vec()]
        );
    }

    #[test]
    fn an_answer_ends_in_the_servers_time() {
        let answer =
            Answer::parse(&Value::Array(vec![Value::Int(0), Value::Int(29), Value::Int(7)])).unwrap();
        assert_eq!((answer.fields.as_slice(), answer.now), ([0, 29].as_slice(), 7));
        let shown = Value::Array(vec![Value::Nil, Value::Int(-2), Value::Array(vec![]), Value::Int(7)]);
        assert_eq!(time_of(&shown).unwrap(), UnixTime::from_micros(7));
        assert!(time_of(&Value::Array(vec![])).is_err() && time_of(&Value::Int(7)).is_err());
        assert!(Answer::parse(&Value::Array(vec![])).is_err());
        assert!(Answer::parse(&Value::Array(vec![Value::Nil, Value::Int(1)])).is_err());
        assert!(Answer::parse(&Value::Okay).is_err());
    }
}
