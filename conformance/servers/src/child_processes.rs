//! The child processes of a process, and the state of a process.

use std::io;

use rustix::process::Pid;

/// The state of a process, as the letter that `ps` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(char);

impl State {
    /// It has ended, or is a zombie.
    pub(super) fn is_dead(self) -> bool {
        matches!(self.0, 'Z' | 'X')
    }

    /// It is stopped by a signal.
    pub(super) fn is_stopped(self) -> bool {
        self.0 == 'T'
    }
}

/// Returns the children of a process.
pub(super) fn children(of: Pid) -> io::Result<Vec<Pid>> {
    let child_processes = all()?.into_iter().filter(|process| process.parent == of.as_raw_nonzero().get());
    Ok(child_processes.filter_map(|process| Pid::from_raw(process.id)).collect())
}

/// Returns the state of a process; dead if there is none.
pub(super) fn state(of: Pid) -> io::Result<State> {
    Ok(one(of)?.map_or(State('X'), |process| process.state))
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    id: i32,
    parent: i32,
    state: State,
}

#[cfg(target_os = "linux")]
fn all() -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let id = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        found.extend(id.and_then(Pid::from_raw).map(one).transpose()?.flatten());
    }
    Ok(found)
}

#[cfg(target_os = "linux")]
fn one(id: Pid) -> io::Result<Option<Entry>> {
    let id = id.as_raw_nonzero().get();
    // A file that can't be read belongs to a process that has ended: every user may read it.
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return Ok(None) };
    // The process's name is in parentheses, and may contain some.
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let (state, parent) = (fields.next(), fields.next());
    let entry = || Some(Entry { id, parent: parent?.parse().ok()?, state: State(state?.chars().next()?) });
    let unknown = || io::Error::other(format!("/proc/{id}/stat has an unknown form: {stat}"));
    entry().map(Some).ok_or_else(unknown)
}

#[cfg(not(target_os = "linux"))]
fn all() -> io::Result<Vec<Entry>> {
    let output = std::process::Command::new("ps").args(["-A", "-o", "pid=,ppid=,stat="]).output()?;
    let table = String::from_utf8_lossy(&output.stdout);
    let entry = |line: &str| {
        let mut fields = line.split_whitespace();
        let (id, parent) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Entry { id, parent, state: State(fields.next()?.chars().next()?) })
    };
    Ok(table.lines().filter_map(entry).collect())
}

#[cfg(not(target_os = "linux"))]
fn one(id: Pid) -> io::Result<Option<Entry>> {
    Ok(all()?.into_iter().find(|process| process.id == id.as_raw_nonzero().get()))
}
