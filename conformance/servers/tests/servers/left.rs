//! Nothing is left of a server, whatever happens to it and to the test.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::subjects::{self, Subject};
use crate::{Stop, processes_in, refuses, until};

pub(crate) fn by_a_drop(on: &'static dyn Subject) -> Result<(), Stop> {
    let mut left = Vec::new();
    let server = on.start()?;
    let session = on.connect(server.url())?;
    left.push((server.port(), server.folder().to_owned()));
    drop(server);
    drop(session);

    let server = on.start()?;
    let session = on.connect(server.url())?;
    server.pause()?;
    left.push((server.port(), server.folder().to_owned()));
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        std::panic::resume_unwind(Box::new("as a failing case does"));
    }));
    assert!(panic.is_err());
    drop(session);

    for (port, folder) in left {
        assert!(refuses(port), "a server is left at {port}");
        assert_eq!(processes_in(&folder), Vec::<u32>::new());
        assert!(!folder.exists(), "{} is left", folder.display());
    }
    Ok(())
}

/// Kills a test whose server runs, and one whose server is stopped with an open connection: then no part of the server
/// can notice anything.
pub(crate) fn by_the_killed(on: &'static dyn Subject) -> Result<(), Stop> {
    drop(on.start()?);
    abandoned("abandon", on)?;
    abandoned("abandon-paused", on)
}

pub(crate) fn by_the_killed_at_work() -> Result<(), Stop> {
    let on = subjects::POSTGRES;
    drop(on.start()?);
    abandoned("abandon-at-work", on)
}

/// Plays a part, kills it, and waits until nothing is left.
fn abandoned(part: &str, on: &dyn Subject) -> Result<(), Stop> {
    let mut child = subjects::start(part, on, None)?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()));
    let (port, folder) = (line()?, line()?);
    let (port, folder) = (port.parse().expect("it is a port"), Path::new(&folder));
    assert!(!refuses(port) && folder.exists());
    if cfg!(target_os = "linux") {
        assert!(!processes_in(folder).is_empty(), "a server works in its folder");
    }
    child.kill()?;
    child.wait()?;
    until(|| refuses(port) && processes_in(folder).is_empty() && !folder.exists());
    Ok(())
}

/// What is in the system's memory has no folder that could be removed.
pub(crate) fn in_shared_memory(on: &'static dyn Subject) -> Result<(), Stop> {
    let server = on.start()?;
    let _session = on.connect(server.url())?;
    let id = server.process_id().expect("it is up");
    // What is in the server's own folder, which may itself be in memory, goes with the folder.
    let files: Vec<PathBuf> =
        shared_files(id).into_iter().filter(|file| !file.starts_with(server.data())).collect();
    server.kill()?;
    assert!(files.iter().all(|file| !file.exists()), "of {files:?} some is left");
    let Ok(segments) = fs::read_to_string("/proc/sysvipc/shm") else {
        return Err(Stop::NotRun("shared memory can't be looked at here".to_owned()));
    };
    // The fifth column is the process that made it.
    let of_the_server = |line: &&str| line.split_whitespace().nth(4) == Some(&id.to_string());
    assert_eq!(segments.lines().find(of_the_server), None);
    Ok(())
}

/// Returns the files in memory that a process has mapped.
fn shared_files(process: u32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| Some(&line[line.find("/dev/shm/")?..]));
    paths.map(PathBuf::from).collect()
}
