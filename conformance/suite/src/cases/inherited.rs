//! A child process inherits nothing of a lock from its parent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crate::case::{Case, case};
use crate::harness::Processes;
use crate::part::{Order, Part, PartProcess};
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Net, Setting, ms};
use crate::timing::{Returned, assert_in_time, released};

pub(crate) const CASES: &[Case] = &[
    // On other systems the files of a process can't be listed.
    #[cfg(target_os = "linux")]
    case!(a_program_that_is_started_has_no_connection, "child-program, holder-forks", [B33]; load Heavy),
    case!(a_fork_holds_nothing_and_releases_nothing, "fork, holder-forks", [B33]),
    case!(a_fork_that_keeps_the_runtime_releases_nothing, "fork-with-runtime, holder-forks", [B33]),
    case!(a_fork_of_a_busy_process_waits_for_nothing, "fork-waits-for-nothing, holder-forks", [B33]),
];

/// Returns the sockets of a program that this process starts now.
async fn sockets_of_a_child() -> BTreeSet<String> {
    let list = "for fd in /proc/$$/fd/*; do readlink $fd; done; true";
    let listed = on_a_thread(move || std::process::Command::new("sh").args(["-c", list]).output()).await;
    let links = String::from_utf8(listed.expect("there is a shell").stdout).expect("plain");
    assert!(links.contains('/') || links.contains(':'), "no files at all: {links:?}");
    links.lines().filter(|link| link.starts_with("socket:")).map(str::to_owned).collect()
}

/// Returns the sockets of this process.
fn sockets_here() -> BTreeSet<String> {
    let files = std::fs::read_dir("/proc/self/fd").expect("Linux");
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    links.map(|link| link.display().to_string()).filter(|link| link.starts_with("socket:")).collect()
}

async fn a_program_that_is_started_has_no_connection(s: Setting, _: Net) {
    // The process that started this test may have left it some sockets.
    let (before, here) = (sockets_of_a_child().await, sockets_here());
    let (name, waited) = (s.name(), s.name());
    let guard = s.hold(&name).await;
    let other = s.hold(&waited).await;
    let waiter = s.lock_elsewhere(&waited).await.waits();
    tokio::time::sleep(ms(50)).await;
    let connections = sockets_here().difference(&here).count();
    assert!(connections >= 3, "{connections} connections of three clients");
    let inherited: Vec<_> = sockets_of_a_child().await.difference(&before).cloned().collect();
    assert!(inherited.is_empty(), "a child has {inherited:?}");
    released(other).await;
    released(waiter.await.returned().expect("the server is up")).await;
    released(guard).await;
}

/// Starts a process that holds the lock and forks, and checks that its children wait for nothing, and that the parent keeps
/// the lock for longer than its lease, and releases it.
async fn forks_and_keeps_it(s: &Setting, processes: &dyn Processes, part: Part) {
    let name = s.name();
    let mut process = Order { part, name: name.to_string(), ttl: s.ttl() * 2 }.start(processes);
    process.holds().await;
    for child in 0..=part.last_child() {
        assert_eq!(process.says().await, format!("child {child} ends"));
    }
    let end = Instant::now() + s.ttl() * 3;
    while Instant::now() < end {
        if s.is_free(&name).await {
            let said = parents_ending(&mut process).await;
            assert_in_time!(said != "parent: Released", "asked when the parent had released it");
            panic!("the child has released its parent's lock, or this: {said}");
        }
        tokio::time::sleep(s.ttl() / 8).await;
    }
    assert_eq!(parents_ending(&mut process).await, "parent: Released");
    assert!(s.is_free(&name).await);
}

/// Returns the last line of the parent. It holds until it releases, so only the server's answer can have come too late.
async fn parents_ending(part: &mut PartProcess) -> String {
    let said = part.says().await;
    assert_in_time!(said != "parent: Expired", "{said}");
    said
}

async fn a_fork_holds_nothing_and_releases_nothing(s: Setting, processes: Arc<dyn Processes>) {
    forks_and_keeps_it(&s, &*processes, Part::Forks).await;
}

async fn a_fork_that_keeps_the_runtime_releases_nothing(s: Setting, processes: Arc<dyn Processes>) {
    forks_and_keeps_it(&s, &*processes, Part::ForksInside).await;
}

/// A fork has copies of the parent's mutexes, and some of them stay locked for ever: by a thread that is not in the fork.
async fn a_fork_of_a_busy_process_waits_for_nothing(s: Setting, processes: Arc<dyn Processes>) {
    forks_and_keeps_it(&s, &*processes, Part::ForksBusy).await;
}
