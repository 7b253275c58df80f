//! Flags and commands of other programs (flock(1), `consul lock`, `etcdctl lock`, timeout(1) and the like),
//! and what they are called here.

/// Flags, and what to write instead.
const FLAGS: &[(&[&str], &str)] = &[
    (
        &[
            "url",
            "uri",
            "server",
            "host",
            "redis",
            "redis-url",
            "connect",
            "connection",
            "dsn",
            "address",
            "addr",
        ],
        "the server's URL goes after `--on`: --on URL",
    ),
    (&["endpoints", "endpoint", "http-addr"], "the servers go after `--on`, separated by commas: --on URL"),
    (&["url-file", "on-url-file", "file", "config"], "a file with the server's URL goes after `--on-file`"),
    (&["key", "lock", "lock-name", "resource"], "the lock's name goes after `--name`"),
    (&["n", "nb", "nonblock", "non-block", "nonblocking", "no-block", "nowait", "fail-fast"], NO_WAIT),
    (&["try", "t"], "to give up at once: --no-wait; after some time: --wait 30s"),
    (
        &["w", "timeout", "lock-timeout", "wait-timeout", "wait-time", "max-wait", "command-timeout"],
        "how long to wait for the lock goes after `--wait`, with a unit: --wait 30s",
    ),
    (
        &["lease", "lease-time", "expire", "expires", "expiry", "expiration", "lock-ttl", "session-ttl"],
        "how long the lock is kept without a renewal goes after `--ttl`, with a unit: --ttl 30s",
    ),
    (
        &["max-time", "run-timeout", "time-limit", "max-runtime"],
        "how long the command may hold the lock goes after `--max-hold`, with a unit: --max-hold 1h",
    ),
    (
        &["k", "kill-after", "grace"],
        "the time between SIGTERM and SIGKILL goes after `--kill-grace`: --kill-grace 5s",
    ),
    (&["owner", "holder", "id", "description"], "how the holder is shown goes after `--label`"),
    (&["s", "shared", "read", "limit"], "a lock has one holder here: there are no shared locks"),
    (&["x", "e", "exclusive"], "each lock is exclusive: leave the flag out"),
    (&["u", "unlock"], "a lock is released at the end of its command, or by `lock release NAME`"),
    (&["f", "force"], "to take a lock from its holder: lock break NAME --yes"),
    (&["y", "assume-yes", "confirm"], "the confirmation is `--yes`"),
    (&["silent"], "to say less: --quiet"),
    (&["shell", "pass-shell"], "a line for the shell goes after `-c`: lock run --name NAME -c 'LINE'"),
    (&["on-conflict", "exit-code"], "the exit status if another client has the lock goes after `-E`: -E 0"),
];

const NO_WAIT: &str = "to give up at once if another client has the lock: --no-wait";

/// Commands, and what to write instead.
const VERBS: &[(&[&str], &str)] = &[
    (
        &[
            "force-unlock",
            "force-release",
            "steal",
            "kill",
            "revoke",
            "delete",
            "del",
            "rm",
            "remove",
            "clear",
        ],
        "to take a lock from its holder: lock break NAME --yes",
    ),
    (
        &["unlock", "free", "drop"],
        "what `lock acquire` holds is released by `lock release NAME`; to take a lock from its holder: lock break NAME --yes",
    ),
    (&["exec", "execute", "with", "do", "lock", "flock"], RUN),
    (
        &["take", "get-lock", "obtain", "elect", "campaign"],
        "to hold a lock for several steps: lock acquire NAME",
    ),
    (
        &["get", "show", "inspect", "who", "holder", "owner", "query"],
        "to see who holds a lock: lock status NAME",
    ),
    (&["ls", "locks", "ps"], "to see all locks: lock list"),
    (
        &["monitor", "observe", "subscribe", "tail", "follow"],
        "to see each change of a lock's holder: lock watch NAME",
    ),
    (
        &["doctor", "ping", "test", "verify", "health"],
        "to see whether the server is fit for locks: lock check",
    ),
    (&["setup", "migrate", "create", "install"], "to set up what the server needs: lock init --yes"),
    (
        &["renew", "refresh", "extend", "keepalive"],
        "a held lock is renewed by itself, for as long as it is held",
    ),
    (&["version"], "the version: lock --version"),
];

pub(super) const RUN: &str = "to run a command under a lock: lock run --name NAME -- CMD";

/// Returns what to write instead of a flag of another program.
pub(super) fn flag(word: &str) -> Option<&'static str> {
    let name = word.split('=').next().unwrap_or(word).trim_start_matches('-').to_ascii_lowercase();
    find(FLAGS, &name.replace('_', "-"))
}

/// Returns what to write instead of a command of another program.
pub(super) fn verb(word: &str) -> Option<&'static str> {
    find(VERBS, &word.to_ascii_lowercase().replace('_', "-"))
}

fn find(table: &[(&[&str], &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Args;
    use super::*;

    #[test]
    fn foreign_words_are_neither_ours_nor_listed_twice() {
        let args = Args::command();
        let verbs: Vec<&str> = args.get_subcommands().map(clap::Command::get_name).collect();
        let words = |table: &[(&'static [&'static str], &str)]| -> Vec<&'static str> {
            table.iter().flat_map(|(words, _)| words.iter().copied()).collect()
        };
        for (i, word) in words(VERBS).iter().enumerate() {
            assert!(!verbs.contains(word), "{word} is a command of this program");
            assert!(!words(VERBS)[..i].contains(word), "{word} is told twice");
        }
        let run = args.find_subcommand("run").unwrap();
        let longs: Vec<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        for (i, word) in words(FLAGS).iter().enumerate() {
            assert!(!longs.contains(word), "--{word} is a flag of this program");
            assert!(!words(FLAGS)[..i].contains(word), "{word} is told twice");
        }
    }
}
