//! Every example of the help, of README and of the guide runs, and none does its work without the lock.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lock_test_servers::Owned;
use tempfile::TempDir;

use super::call::{Call, Done, lock, program};
use super::usage::NOWHERE;
use super::waits::connection;
use super::{Case, WhereAllowed};

pub(crate) const CASES: &[WhereAllowed] =
    &[("every example of help and pages runs, and none without the lock", examples)];

pub(crate) const WITHOUT_SERVER: &[Case] = &[("what README shows first works in a clone", first)];

/// The programs that the examples run under a lock: each leaves a line in a file.
const WORK: &[&str] = &[
    "report.sh",
    "deploy.sh",
    "build.sh",
    "backup.sh",
    "hourly.sh",
    "nightly.sh",
    "report",
    "deploy",
    "build",
    "migrate",
    "restart",
    "extract",
    "render",
    "mailer",
];

/// Programs beside `lock` that examples call, and what a test does in their place.
const OTHERS: &[(&str, &str)] =
    &[("cargo", "true"), ("docker", "true"), ("psql", "cat >/dev/null"), ("man", "cat >/dev/null")];

/// The times that examples wait or keep for, and something shorter.
const SHORTER: &[(&str, &str)] = &[
    ("--wait 30m", "--wait 1s"),
    ("--wait 5m", "--wait 1s"),
    ("--wait 30d", "--wait 1s"),
    ("--min-hold 1m", "--min-hold 100ms"),
    ("sleep 60", "sleep 0.2"),
    ("lock watch", "timeout 1 lock watch"),
];

/// The servers that examples name.
const SERVERS: &[&str] =
    &["redis://localhost", "redis://host", "postgres://app@db/app", "postgres://admin@db/app"];

/// An example, and where it is.
struct Example {
    place: String,
    script: String,
}

/// Returns a file or folder of the clone.
fn of_clone(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns the code blocks of a page, each with its language.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut parts = page.split("\n```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), text.to_owned()));
    }
    blocks
}

/// Returns the commands of a code block: a script, the commands of a cron table, or what a unit starts.
fn commands(language: &str, block: &str) -> Vec<String> {
    let is_of_lock = |text: &str| text.contains("lock ");
    match language {
        "sh" => Vec::from([block.to_owned()]),
        "ini" => {
            block.lines().filter_map(|line| line.strip_prefix("ExecStart=")).map(str::to_owned).collect()
        }
        "text" => {
            let jobs = block.lines().filter(|line| line.contains(" * * * "));
            jobs.map(|job| job.split_whitespace().skip(5).collect::<Vec<_>>().join(" ")).collect()
        }
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|text| is_of_lock(text))
    .collect()
}

fn of_pages() -> Vec<Example> {
    let mut pages: Vec<PathBuf> = ["README.md", "lock-cli/README.md", "docs/static.md"].map(of_clone).into();
    let guide = fs::read_dir(of_clone("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(guide.filter(|path| path.extension().is_some_and(|of| of == "md")));
    let mut examples = Vec::new();
    for page in pages {
        for (language, block) in blocks(&fs::read_to_string(&page).unwrap()) {
            let place = page.file_name().unwrap().to_string_lossy().into_owned();
            let all = commands(&language, &block).into_iter();
            examples.extend(all.map(|script| Example { place: place.clone(), script }));
        }
    }
    examples
}

/// Returns the examples of the help: what stands behind `Examples:`, up to a line without a space before it. An empty
/// line is between two of them.
fn of_help() -> Vec<Example> {
    let top = lock(["--help"]).finish().stdout;
    let verbs = top.split("Commands:\n").nth(1).unwrap().lines().take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    let mut helps = vec![("lock --help".to_owned(), top.clone())];
    helps.extend(verbs.map(|verb| (format!("lock {verb} --help"), lock([verb, "--help"]).finish().stdout)));
    let mut examples = Vec::new();
    for (place, help) in helps {
        let Some((_, behind)) = help.split_once("\nExample") else { continue };
        // "s:" and lines of their own, or ": " and the example.
        let behind = behind.strip_prefix("s:\n").or_else(|| behind.strip_prefix(":\n")).map_or_else(
            || behind.strip_prefix(": ").unwrap().to_owned(),
            |lines| {
                lines
                    .lines()
                    .take_while(|line| line.is_empty() || line.starts_with("  "))
                    .collect::<Vec<_>>()
                    .join("\n")
            },
        );
        let scripts = behind.split("\n\n").filter(|script| !script.is_empty());
        examples.extend(scripts.map(|script| Example { place: place.clone(), script: script.to_owned() }));
    }
    examples
}

/// A machine on which examples run.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn with(url: &str) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path();
        symlink(env!("CARGO_BIN_EXE_lock"), there.join("lock")).unwrap();
        let work = WORK.iter().map(|name| (*name, "echo \"${0##*/}\" >> \"$HOME/worked\""));
        for (name, does) in work.chain(OTHERS.iter().copied()) {
            let file = there.join(name);
            fs::write(&file, format!("#!/bin/sh\n{does}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir_all(there.join(".local/share/bash-completion/completions")).unwrap();
        fs::write(there.join("url"), format!("{url}\n")).unwrap();
        Machine { folder }
    }

    fn call(&self, url: &str, script: &str) -> Call {
        let folder = self.folder.path().display();
        let mut here = script
            .replace("/usr/local/bin/lock", "lock")
            .replace("/etc/onelock/url", &format!("{folder}/url"))
            .replace("/opt/app/", "./")
            .replace("/var/reports/", &format!("{folder}/"));
        for (long, short) in SHORTER {
            here = here.replace(long, short);
        }
        for server in SERVERS {
            here = here.replace(server, url);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        // With an open stdin, as at a terminal: some examples hold as long as it is open.
        program("bash", ["-c", &format!("sleep 0.5 | {{ {here}\n}}")])
            .env("PATH", format!("{folder}:{path}"))
            .env("HOME", self.folder.path())
            .env("LOCK_URL", url)
            .env("OLD", url)
            .env("NEW", format!("{url}?prefix=new:"))
            .within(self.folder.path())
    }

    /// Runs an example. Returns how it ended, and what was done.
    fn runs(&self, url: &str, script: &str) -> (Done, String) {
        let worked = self.folder.path().join("worked");
        drop(fs::remove_file(&worked));
        let done = self.call(url, script).finish();
        (done, fs::read_to_string(worked).unwrap_or_default())
    }
}

/// Returns the work that a script names.
fn work_of(script: &str) -> Vec<&'static str> {
    let words: Vec<&str> = script.split(|c: char| c.is_whitespace() || ";'\"".contains(c)).collect();
    let is_named = |name: &&&str| {
        words.iter().any(|word| *word == format!("./{name}") || *word == format!("/opt/app/{name}"))
    };
    WORK.iter().filter(is_named).copied().collect()
}

fn examples(server: &Owned) -> Result<(), String> {
    let bash = Command::new("bash").arg("--version").stdout(Stdio::null()).status();
    bash.map_err(|e| format!("bash can't be run: {e}"))?;
    let (helps, pages) = (of_help(), of_pages());
    assert!(helps.len() >= 6 && pages.len() >= 15, "{} and {}", helps.len(), pages.len());
    for Example { place, script } in helps.iter().chain(&pages) {
        redis::cmd("FLUSHALL").exec(&mut connection(server)).unwrap();
        let (done, worked) = Machine::with(server.url()).runs(server.url(), script);
        assert!(![2, 64, 126, 127].contains(&done.status), "{place}: {script}\n{done:?}");
        for name in work_of(script) {
            assert!(worked.lines().any(|line| line == name), "{place}: {script}\n{done:?}");
        }
        assert!(!done.stderr.contains("not found"), "{place}: {script}\n{done:?}");
        let (done, worked) = Machine::with(NOWHERE).runs(NOWHERE, script);
        assert_eq!(worked, "", "{place}, with a server that is down: {script}\n{done:?}");
    }
    Ok(())
}

/// The first command runs on this machine alone. It is cargo's, which builds the program that this test has.
fn first() {
    let page = fs::read_to_string(of_clone("README.md")).unwrap();
    let blocks = blocks(&page);
    let shown: Vec<&str> =
        blocks.iter().filter(|(language, _)| language == "sh").map(|(_, block)| block.trim()).collect();
    assert_eq!(shown[1], "cargo xtask test");
    let args = shown[0].strip_prefix("cargo run -p lock-cli -- ").expect("cargo builds it, and runs it");
    let folder = tempfile::tempdir().unwrap();
    let runs = |args: &str| {
        let call = program("sh", ["-c", &format!("exec \"$LOCK\" {args}")]);
        call.env("HOME", folder.path()).without("XDG_STATE_HOME").finish()
    };
    let done = runs(args);
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "I hold the lock\n", ""));
    // And what the text says to put in its place.
    let (command, other) = ("echo \"I hold the lock\"", "sleep 20");
    assert!(page.contains(&format!("`{other}`")) && args.ends_with(command), "{args}");
    assert_eq!(runs(&args.replace(command, "sleep 0.1")).status, 0);
}
