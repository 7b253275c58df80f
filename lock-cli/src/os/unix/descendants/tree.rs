//! The processes below this one, as /proc shows them (proc(5)).

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::process::{self, Pid};

use crate::os::Found;

/// The source of a process's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The kernel lists the children of each thread.
    ChildrenOfThreads,
    /// All processes of the machine are looked at, and each names its parent.
    ParentsOfAll,
}

/// Reads /proc.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    source: Source,
    /// Our number in the namespace of /proc. That may be an outer namespace, as after `unshare --pid` alone.
    own: i32,
}

/// A process below this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The number of the process in the namespace of /proc.
    pub(super) number: i32,
    /// Where its parent is among all that were found; `None` for a child of ours.
    pub(super) parent: Option<usize>,
}

impl Reader {
    pub(super) fn new() -> io::Result<Reader> {
        let own = fs::read_link("/proc/self")?;
        let own = own.to_str().and_then(|own| own.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        // Needs CONFIG_PROC_CHILDREN.
        let source = match fs::exists("/proc/thread-self/children")? {
            true => Source::ChildrenOfThreads,
            false => Source::ParentsOfAll,
        };
        Ok(Reader { source, own })
    }

    /// Finds all processes below this one except `strangers` and what is below them. Each comes after its parent. One
    /// that is started meanwhile, or whose sibling ends meanwhile, may be missing.
    pub(super) fn look(self, strangers: &[Pid]) -> io::Result<Vec<Node>> {
        let all = match self.source {
            Source::ChildrenOfThreads => HashMap::new(),
            Source::ParentsOfAll => children_of_all()?,
        };
        let children = |number: i32| match self.source {
            Source::ChildrenOfThreads => children_of_threads(number),
            Source::ParentsOfAll => Ok(all.get(&number).cloned().unwrap_or_default()),
        };
        let mut found: Vec<Node> = Vec::new();
        for number in children(self.own)? {
            if !self.pid(number).is_some_and(|pid| strangers.contains(&pid)) {
                found.push(Node { number, parent: None });
            }
        }
        let mut next = 0;
        while let Some(node) = found.get(next) {
            // A process that has ended meanwhile has no children any more.
            let children = children(node.number).unwrap_or_default();
            found.extend(children.into_iter().map(|number| Node { number, parent: Some(next) }));
            next += 1;
        }
        Ok(found)
    }

    /// Returns the number of a process in our own namespace.
    pub(super) fn pid(self, number: i32) -> Option<Pid> {
        if self.own == process::getpid().as_raw_nonzero().get() {
            return Pid::from_raw(number);
        }
        let level = numbers("self")?.len() - 1;
        Pid::from_raw(*numbers(&number.to_string())?.get(level)?)
    }

    /// Returns whether a process is a child of ours, or of the process `parent`.
    pub(super) fn is_child(self, number: i32, parent: i32) -> bool {
        State::of(number).is_some_and(|state| state.parent == parent || state.parent == self.own)
    }
}

/// The identity of a process, and whether any code of it can still run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    parent: i32,
    name: Vec<u8>,
    pub(super) lives: bool,
}

impl State {
    /// Returns `None` if there is no such process.
    pub(super) fn of(number: i32) -> Option<State> {
        State::parse(&read(&format!("/proc/{number}/stat")).ok()?)
    }

    /// Parses proc_pid_stat(5). The name may contain anything, also parentheses.
    fn parse(stat: &[u8]) -> Option<State> {
        let begin = stat.iter().position(|byte| *byte == b'(')?;
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = str::from_utf8(stat.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let threads: u32 = fields.get(17)?.parse().ok()?;
        // A process whose first thread has ended goes on with its others.
        let lives = !["Z", "X"].contains(fields.first()?) || threads > 1;
        Some(State { parent: fields.get(1)?.parse().ok()?, name: stat[begin + 1..end].to_owned(), lives })
    }

    pub(super) fn found(&self, pid: u32) -> Found {
        Found::new(pid, &self.name)
    }
}

/// Also returns children that have ended and are not reaped yet.
fn children_of_threads(number: i32) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    let folder = format!("/proc/{number}/task");
    // Two links of its own, and one for each thread. Most processes have a single thread, which has their number.
    if fs::metadata(&folder)?.nlink() == 3 {
        add_children(&format!("{folder}/{number}"), &mut children);
        return Ok(children);
    }
    for thread in fs::read_dir(folder)? {
        add_children(&thread?.path().display().to_string(), &mut children);
    }
    Ok(children)
}

/// Adds the children of a thread. One that has ended meanwhile has handed its children to another thread.
fn add_children(thread: &str, children: &mut Vec<i32>) {
    let list = read(&format!("{thread}/children")).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    children.extend(list.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
}

/// Reads a file of /proc, which has no size to ask for.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let (mut file, mut text, mut filled) = (File::open(path)?, vec![0; 1024], 0);
    loop {
        match file.read(&mut text[filled..])? {
            0 => break,
            bytes => filled += bytes,
        }
        if filled == text.len() {
            text.resize(2 * filled, 0);
        }
    }
    text.truncate(filled);
    Ok(text)
}

fn children_of_all() -> io::Result<HashMap<i32, Vec<i32>>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(state) = State::of(number) {
            children.entry(state.parent).or_default().push(number);
        }
    }
    Ok(children)
}

/// Returns the numbers of a process in the namespace of /proc and in each inner one that the process is in. The last of
/// our own numbers is the one in our namespace; a child of ours has a number there, too.
fn numbers(process: &str) -> Option<Vec<i32>> {
    // A name may not be valid UTF-8, because the kernel cuts it at 15 bytes.
    let status = fs::read(format!("/proc/{process}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn a_name_hides_no_field() {
        let fields = "S 800 812 812 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 99";
        let state = State::parse(format!("812 (a) Z 1 (b) {fields}\n").as_bytes()).unwrap();
        assert_eq!(state, State { parent: 800, name: b"a) Z 1 (b".to_vec(), lives: true });
        let ended = |state, threads| {
            let stat =
                format!("812 (x) {state} 800 812 812 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 99\n");
            !State::parse(stat.as_bytes()).unwrap().lives
        };
        assert!(ended("Z", 1) && ended("Z", 0) && ended("X", 0));
        // Its first thread has ended; the others go on.
        assert!(!ended("Z", 2) && !ended("D", 1) && !ended("t", 1));
    }

    #[test]
    fn both_ways_to_look_find_the_same_processes() {
        // Each shell waits for the next one, and the last for its input.
        let script = "sh -c 'sh -c \"read line\"; :'; :";
        let mut child =
            Command::new("sh").args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let reader = Reader::new().unwrap();
        let look = |source| below(Reader { source, ..reader }, &child);
        let (mut by_children, mut by_parents) = (Vec::new(), Vec::new());
        for _ in 0..10_000 {
            (by_children, by_parents) = (look(Source::ChildrenOfThreads), look(Source::ParentsOfAll));
            if by_children.len() == 3 && by_children == by_parents {
                break;
            }
        }
        // The child, the shell below it, and the one below that.
        assert_eq!((by_children.len(), &by_children), (3, &by_parents));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// Returns the numbers of `child` and of all below it.
    fn below(reader: Reader, child: &Child) -> Vec<i32> {
        let number = i32::try_from(child.id()).unwrap();
        let nodes = reader.look(&[]).unwrap();
        let belongs = |mut node: Node| loop {
            match (node.number == number, node.parent) {
                (true, _) => return true,
                (false, None) => return false,
                (false, Some(parent)) => node = nodes[parent],
            }
        };
        nodes.iter().filter(|node| belongs(**node)).map(|node| node.number).collect()
    }
}
