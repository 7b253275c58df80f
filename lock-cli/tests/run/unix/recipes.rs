//! The recipes of `docs/guide/recipes.md` do what they say. They are taken from that page.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use lock_test_servers::Owned;
use serde_json::Value;
use tempfile::TempDir;

use super::WhereAllowed;
use super::call::{Call, Done, lock, program, shell};

pub(crate) const CASES: &[WhereAllowed] = &[
    ("the recipe for cron runs once, and mails nothing of a skipped job", cron),
    ("the recipes for systemd start what they say", systemd_commands),
    ("systemd finds nothing wrong with its recipes", systemd_units),
    ("the recipes for GitHub Actions hold over all their steps", github),
    ("the recipe for GitLab holds over all its lines", gitlab),
    ("the recipes for Kubernetes and compose start what they say", containers),
];

/// The script of the recipes' commands: they say what they are, and that they have a token.
const WORK: &str = "#!/bin/sh\necho \"$(basename \"$0\") ${LOCK_TOKEN:+with a token}\"\n";

/// A machine on which a recipe is tried.
struct Machine<'a> {
    server: &'a Owned,
    folder: TempDir,
}

impl<'a> Machine<'a> {
    fn of(server: &'a Owned) -> Machine<'a> {
        let folder = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_lock"), folder.path().join("lock")).unwrap();
        for name in ["report", "mailer", "migrate", "build.sh", "deploy.sh"] {
            let file = folder.path().join(name);
            fs::write(&file, WORK).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(folder.path().join("url"), format!("{}\n", server.url())).unwrap();
        Machine { server, folder }
    }

    /// Replaces the recipe's paths by those of this machine, and its long times by short ones.
    fn here(&self, recipe: &str) -> String {
        let folder = self.folder.path().display();
        recipe
            .replace("/usr/local/bin/lock", &format!("{folder}/lock"))
            .replace("/etc/onelock/url", &format!("{folder}/url"))
            .replace("/opt/app/", &format!("{folder}/"))
            // The slot begins now, so that it doesn't end in the middle of the test.
            .replace("--once-per 24h", &format!("--once-per 24h --at-offset {}s", seconds_of_this_day()))
    }

    fn on(&self, call: Call) -> Call {
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = self.folder.path();
        call.env("PATH", format!("{}:{path}", folder.display()))
            .env("LOCK_URL", self.server.url())
            .within(folder)
    }

    /// Runs a line of a recipe by the shell.
    fn runs(&self, line: &str) -> Done {
        self.on(shell(&self.here(line))).finish()
    }

    /// Runs a command of a recipe without a shell.
    fn starts(&self, command: &Value) -> Done {
        let words: Vec<&str> =
            command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        self.on(program(words[0], &words[1..])).finish()
    }
}

/// Returns the code blocks of one section of the page.
fn blocks(section: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/recipes.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|part| part.lines().next() == Some(section)).expect(section);
    let mut blocks = Vec::new();
    let mut parts = section.split("\n```");
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        blocks.push(block.split_once('\n').unwrap().1.to_owned());
    }
    assert!(!blocks.is_empty(), "{section}");
    blocks
}

/// Parses YAML. Returns the reason if this machine has nothing that does.
fn yaml(text: &str) -> Result<Value, String> {
    const PARSER: &str = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
    let has = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return Err("python3 with PyYAML is missing".to_owned());
    }
    let mut parser = Command::new("python3")
        .args(["-c", PARSER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let parsed = parser.wait_with_output().unwrap();
    assert!(parsed.status.success(), "{text}");
    Ok(serde_json::from_slice(&parsed.stdout).unwrap())
}

fn cron(server: &Owned) -> Result<(), String> {
    let machine = Machine::of(server);
    let table = &blocks("cron")[0];
    let command = table.split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
    let done = machine.runs(&command);
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "report with a token\n", ""));
    let skipped = machine.runs(&command);
    assert_eq!((skipped.status, skipped.stdout.as_str(), skipped.stderr.as_str()), (0, "", ""));
    gives_up(server, "report");
    Ok(())
}

fn exec_start(unit: &str) -> &str {
    unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap()
}

fn systemd_commands(server: &Owned) -> Result<(), String> {
    let machine = Machine::of(server);
    let report = &blocks("systemd: a timer and its service")[0];
    let done = machine.runs(exec_start(report));
    assert_eq!((done.status, done.stdout.as_str()), (0, "report with a token\n"), "{done:?}");
    assert_eq!(machine.runs(exec_start(report)).status, 75, "the unit takes it for a success");
    gives_up(server, "report");
    let mailer = &blocks("systemd: one active machine, others in reserve")[0];
    let done = machine.runs(exec_start(mailer));
    assert_eq!((done.status, done.stdout.as_str()), (0, "mailer with a token\n"), "{done:?}");
    Ok(())
}

fn systemd_units(server: &Owned) -> Result<(), String> {
    let machine = Machine::of(server);
    let timer = blocks("systemd: a timer and its service");
    let reserve = blocks("systemd: one active machine, others in reserve");
    let units = [("report.service", &timer[0]), ("report.timer", &timer[1]), ("mailer.service", &reserve[0])];
    let folder = machine.folder.path();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (name, unit) in units {
        fs::write(folder.join(name), machine.here(unit)).unwrap();
        verify.arg(folder.join(name));
    }
    let verified = verify.output().map_err(|e| format!("systemd-analyze can't be run: {e}"))?;
    let says = String::from_utf8_lossy(&verified.stderr);
    // What it says of other units of this machine does not count.
    let ours: Vec<&str> =
        says.lines().filter(|line| line.contains("report.") || line.contains("mailer.")).collect();
    assert!(ours.is_empty(), "{says}");
    Ok(())
}

fn github(server: &Owned) -> Result<(), String> {
    let machine = Machine::of(server);
    let blocks = blocks("GitHub Actions");
    let steps = |block: &str| {
        let workflow = yaml(block)?;
        Ok::<_, String>(workflow["jobs"]["deploy"]["steps"].as_array().unwrap().clone())
    };
    let one = machine.runs(steps(&blocks[0])?[0]["run"].as_str().unwrap());
    assert_eq!((one.status, one.stdout.as_str()), (0, "deploy.sh with a token\n"), "{one:?}");

    let (mut printed, handed_on) = (String::new(), tempfile::tempdir().unwrap());
    for step in steps(&blocks[1])? {
        // Each step is a shell of its own.
        let run = step["run"].as_str().unwrap();
        let done = machine.on(shell(run)).env("RUNNER_TEMP", handed_on.path()).finish();
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{step}: {done:?}");
        printed += &done.stdout;
        let held = lock(["status", "deploy", "--on", server.url()]).finish().status;
        assert_eq!(held, i32::from(run.contains("lock release deploy")), "{step}");
    }
    assert_eq!(printed, "build.sh with a token\ndeploy.sh with a token\n");
    Ok(())
}

fn gitlab(server: &Owned) -> Result<(), String> {
    let machine = Machine::of(server);
    let jobs = yaml(&blocks("GitLab")[0])?;
    for (job, prints) in
        [("deploy", "build.sh with a token\ndeploy.sh with a token\n"), ("migrate", "migrate with a token\n")]
    {
        let lines = jobs[job]["script"].as_array().unwrap().iter();
        let script: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
        let done = machine.runs(&format!("set -e\n{}", script.join("\n")));
        assert_eq!((done.status, done.stdout.as_str()), (0, prints), "{done:?}");
        assert_eq!(lock(["status", job, "--on", server.url()]).finish().status, 1, "it is released");
    }
    Ok(())
}

fn containers(server: &Owned) -> Result<(), String> {
    let machine = Machine::of(server);
    let job = yaml(&blocks("Kubernetes: a job")[0])?;
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let deployment = yaml(&blocks("Kubernetes: an init container")[0])?;
    let compose = yaml(&blocks("docker compose")[0])?;
    for (command, prints) in [
        (&pod["containers"][0]["command"], "report with a token\n"),
        (&deployment["spec"]["template"]["spec"]["initContainers"][0]["command"], "migrate with a token\n"),
        (&compose["services"]["mailer"]["command"], "mailer with a token\n"),
    ] {
        let done = machine.starts(command);
        assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, prints, ""), "{command}");
    }
    gives_up(server, "report");
    Ok(())
}

/// Takes a kept slot from the run that keeps it, so that the next recipe finds its lock free.
fn gives_up(server: &Owned, name: &str) {
    lock(["break", name, "--on", server.url(), "--yes", "--now"]).finish().expect(0, &[]);
}

/// Returns how much of this day has passed, in UTC.
fn seconds_of_this_day() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() % 86_400
}
