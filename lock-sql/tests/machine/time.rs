//! Time namespaces: processes of one boot that see different clocks.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

use super::{LIMIT, NotRun, Outcome, block_on, lock_path, program, rights, run, url};
use lock_conformance::timing::still_held;

/// RULE j1: in a time namespace the boot id is the same, and the clock is not.
pub(crate) fn a_time_namespace_changes_no_lease() -> Outcome {
    program()?;
    let lock = lock_path()?;
    // With a clock ahead, all leases of processes outside seem to be over. With a clock behind, the leases of processes
    // inside seem to be over to processes outside.
    for offset in ["100000", "-100"] {
        let inside = ["unshare", "--time", "--boottime", offset, "--"];
        rights(&[&inside[..], &["true"]].concat())?;
        let uptime = rights(&[&inside[..], &["cat", "/proc/uptime"]].concat())?;
        assert_ne!(uptime.split('.').next(), fs::read_to_string("/proc/uptime").unwrap().split('.').next());
        let folder = TempDir::new().unwrap();
        let url = url(&folder.path().join("locks.db"));
        let try_it = [lock.as_str(), "run", "--on", &url, "--name", "a", "--no-wait", "--", "true"];
        let in_there = [&inside[..], &try_it].concat();
        let client = block_on(async {
            let client = lock_sql::sqlite::connect(&url).await.unwrap();
            let lock = client.lock("a").ttl(LIMIT).build().unwrap();
            let guard = lock.acquire().await.unwrap();
            assert_eq!(run(&in_there)?.status.code(), Some(75), "held outside, {offset} s");
            assert_eq!(guard.release().await, lock_core::Ending::Released);
            assert_eq!(run(&in_there)?.status.code(), Some(0), "free");
            Ok::<_, NotRun>(lock)
        })?;
        drop(client);
        let hold = [
            &inside[..],
            &[lock.as_str(), "run", "--on", &url, "--name", "a", "--", "sh", "-c", "echo held; sleep 60"],
        ];
        let mut held = Command::new("unshare");
        held.args(&hold.concat()[1..]).stdout(Stdio::piped());
        let mut holder = held.spawn().unwrap();
        let mut line = [0; 5];
        holder.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        let tried = run(&try_it);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(tried?.status.code(), Some(75), "held inside, {offset} s");
    }
    Ok(())
}

/// RULE j1: `timens_offsets` is the offset of future children, and not of the process itself.
pub(crate) fn a_time_namespace_of_children_changes_no_lease() -> Outcome {
    // The kernel refuses a negative offset on a machine that has not been up for that long.
    rights(&["unshare", "--time", "--boottime", "-100", "--", "true"])?;
    let folder = TempDir::new().unwrap();
    let url = url(&folder.path().join("locks.db"));
    block_on(async {
        let client = lock_sql::sqlite::connect(&url).await.unwrap();
        for offset in ["-100", "100000"] {
            let lock = |name: &str| client.lock(name).ttl(LIMIT).build().unwrap();
            let outside = format!("outside {offset}");
            let guard = lock(&outside).acquire().await.unwrap();
            let tried = Other::start(&[], offset, &outside, &url);
            assert_eq!(tried.said, "held", "{outside}");
            still_held(&guard);
            let inside = format!("inside {offset}");
            let holder = Other::start(&[], offset, &inside, &url);
            assert_eq!(holder.said, "taken", "{inside}");
            assert!(lock(&inside).try_acquire().await.unwrap().is_none(), "{inside}");
        }
        // In another namespace than the kernel's first one, the process's own offset can't be read any more.
        let inside = ["unshare", "--time", "--boottime", "50", "--"];
        let said = &Other::start(&inside, "7", "b", &url).said;
        assert!(said.starts_with("Unsupported") && said.contains("time namespace"), "{said}");
    });
    Ok(())
}

/// The variable with seconds, a URL, and a name. This program, started again with it, creates a time namespace with
/// that offset for its children, and stays in its own.
const ORDER: &str = "LOCK_TEST_UNSHARES";

/// That process, and what it printed. It is killed when this is dropped.
struct Other {
    said: String,
    process: Child,
}

impl Other {
    fn start(before: &[&str], offset: &str, name: &str, url: &str) -> Other {
        let this = std::env::current_exe().unwrap().display().to_string();
        let command = [before, &[this.as_str()]].concat();
        let mut process = Command::new(command[0]);
        process.args(&command[1..]).env(ORDER, format!("{offset};{url};{name}"));
        let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Other { said: said.trim_end().to_owned(), process }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns whether this process is such a process. If so, it has done its part.
pub(crate) fn is_another_process() -> bool {
    /// The kernel's number for the flag, for which nix has no name.
    const CLONE_NEWTIME: i32 = 0x80;
    let Ok(order) = std::env::var(ORDER) else { return false };
    let mut words = order.splitn(3, ';');
    let mut word = || words.next().unwrap();
    let (offset, url, name) = (word(), word(), word());
    unshare(CloneFlags::from_bits_retain(CLONE_NEWTIME)).unwrap();
    fs::write("/proc/self/timens_offsets", format!("boottime {offset} 0\n")).unwrap();
    block_on(try_it(url, name));
    true
}

/// Prints `taken` and keeps the lock, or prints `held`, or why neither is possible.
async fn try_it(url: &str, name: &str) {
    let client = match lock_sql::sqlite::connect(url).await {
        Ok(client) => client,
        Err(e) => return println!("{:?}: {}", e.kind(), e.message()),
    };
    let lock = client.lock(name).ttl(LIMIT).build().unwrap();
    let Some(guard) = lock.try_acquire().await.unwrap() else { return println!("held") };
    println!("taken");
    // Until it is killed.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(guard);
}
