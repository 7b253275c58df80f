//! A holder process can be killed and stopped.

use std::io;
use std::time::Duration;
use std::{fs, thread};

use lock_test_servers::{self as servers, Ended, Holder, Program, Wait};

use crate::{LIMIT, Stop, until};

pub(crate) fn holder() -> Result<(), Stop> {
    if cfg!(not(unix)) {
        return Err(Stop::NotRun("it is a shell script here".to_owned()));
    }
    let folder = tempfile::tempdir()?;
    let lock = folder.path().join("lock");
    // Prints its arguments, then runs what stands behind the `--`.
    fs::write(
        &lock,
        "#!/bin/sh\necho \"$@\"; while [ \"$1\" != -- ]; do shift; done; shift; \"$@\"; exit $?\n",
    )?;
    #[cfg(unix)]
    fs::set_permissions(&lock, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let program = Program::at(&lock);
    let run = |command: &[&str], wait| -> io::Result<Holder> {
        let ttl = Duration::from_millis(1500);
        let holder = program.run(&servers::Command {
            on: "redis://h",
            name: "n",
            ttl,
            wait,
            run: command,
            time_zone: None,
        })?;
        let told = holder.line(LIMIT)?;
        let waits = match wait {
            Wait::Forever => "",
            Wait::AtMost(_) => "--wait 250ms ",
            Wait::No => "--no-wait ",
        };
        assert_eq!(told, format!("run --on redis://h --name n --ttl 1500ms {waits}-- {}", command.join(" ")));
        Ok(holder)
    };

    let ended = run(&["sh", "-c", "echo out; echo err >&2; exit 75"], Wait::No)?.finish(LIMIT)?;
    assert_eq!(
        (ended.ended, ended.stdout, ended.stderr.trim()),
        (Ended::Status(75), vec!["out".to_owned()], "err")
    );

    let counting = ["sh", "-c", "while :; do echo tick; sleep 0.01; done"];
    let holder = run(&counting, Wait::AtMost(Duration::from_millis(250)))?;
    assert_eq!(holder.line(LIMIT)?, "tick");
    holder.process().pause()?;
    assert_eq!(holder.process().ended()?, None);
    holder.process().resume()?;
    holder.process().kill()?;
    assert_eq!(holder.process().ended()?, Some(Ended::Signal(9)));
    assert!(holder.process().pause().is_err(), "a dead process can't be stopped");
    while holder.line(Duration::ZERO).is_ok() {}
    assert_eq!(holder.line(LIMIT)?, "tick", "more than the process was killed");

    let file = folder.path().join("ticks");
    let ticking = format!("while :; do echo >> {}; sleep 0.01; done", file.display());
    let holder = run(&["sh", "-c", &ticking], Wait::Forever)?;
    until(|| file.exists());
    drop(holder);
    fs::remove_file(&file)?;
    thread::sleep(Duration::from_millis(100));
    assert!(!file.exists(), "the command outlives the holder that was dropped");
    Ok(())
}
