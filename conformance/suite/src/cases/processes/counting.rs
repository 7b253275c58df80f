//! Processes that count in a file which nothing but the lock protects.

use std::sync::Arc;

use super::{Holder, TTL, ended_too_soon, finished, is_not_renewed, start, started};
use crate::harness::{Command, Ended, Finished, LockProgram, Wait};
use crate::setting::Setting;

/// A counter in a file, without any protection of its own, and a list of the processes that counted.
struct Counter(tempfile::TempDir);

impl Counter {
    fn new() -> Counter {
        let counter = Counter(tempfile::tempdir().expect("the temporary folder is writable"));
        std::fs::write(counter.0.path().join("value"), "0").expect("it is new");
        counter
    }

    /// Returns a script that reads the counter, pauses, writes it back, adds an entry with its token, and prints a
    /// line. Each file changes in one step, so a process that is killed leaves no half-written file.
    fn script(&self, command_meanwhile: &str) -> String {
        let folder = self.0.path().display();
        format!(
            "cd {folder}; n=$(cat value); echo held; {command_meanwhile}; n=$((n+1)); \
             echo $n > value.$$ && mv value.$$ value && echo $n $LOCK_TOKEN >> list && echo counted"
        )
    }

    fn value(&self) -> usize {
        let text = std::fs::read_to_string(self.0.path().join("value")).expect("it is there");
        text.trim().parse().expect("a number")
    }

    /// Returns what each process counted, and with which token.
    fn entries(&self) -> Vec<(usize, u64)> {
        let list = std::fs::read_to_string(self.0.path().join("list")).expect("some have counted");
        let entry = |line: &str| {
            let (value, token) = line.split_once(' ')?;
            Some((value.parse().ok()?, token.parse().ok()?))
        };
        list.lines().map(|line| entry(line).unwrap_or_else(|| panic!("{line} is no entry"))).collect()
    }
}

pub(super) async fn processes_hand_the_lock_over(s: Setting, program: Arc<dyn LockProgram>) {
    const PROCESSES: usize = 16;
    let name = s.name();
    let (counter, url) = (Counter::new(), program.url());
    let run = ["sh", "-c", &counter.script("sleep 0.05")];
    let (ttl, wait) = (s.long(), Wait::Forever);
    let command = Command { on: &url, name: name.as_str(), ttl, wait, run: &run, time_zone: None };
    let holders = (0..PROCESSES).map(|_| program.run(&command).expect("the program lock starts"));
    // All are started before any of them is waited for.
    for holder in holders.collect::<Vec<_>>() {
        let Finished { ended, stdout, stderr } = finished(holder).await;
        assert_eq!((ended, stdout.len()), (Ended::Status(0), 2), "{stderr}");
    }
    assert_eq!(counter.value(), PROCESSES);
    assert!(s.is_free(&name).await);
}

/// The fate of a program `lock` in the storm while it holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Spared,
    Killed,
    /// Stopped for longer than its lease lasts; its command would count during that time.
    Stopped,
}

impl Fate {
    fn of(n: usize) -> Fate {
        match n % 6 {
            0 => Fate::Killed,
            3 => Fate::Stopped,
            _ => Fate::Spared,
        }
    }

    /// Returns what the command does in the meantime.
    fn command_meanwhile(self) -> &'static str {
        // It counts when it is told to, however late `lock` was stopped.
        if self == Fate::Stopped { "read -r told" } else { "sleep 0.05" }
    }

    async fn apply(self, mut holder: Holder) -> Holder {
        match self {
            Fate::Spared => {}
            Fate::Killed => holder.kill().expect("it was started"),
            Fate::Stopped => {
                if holder.pause().is_err() {
                    is_not_renewed(holder).await;
                }
                // The last renewal may be from right before the stop.
                tokio::time::sleep(TTL * 5 / 2).await;
                holder.tell("go on").expect("lock itself has not ended");
                tokio::time::sleep(TTL / 2).await;
                holder.resume().expect("it was stopped");
            }
        }
        holder
    }
}

pub(super) async fn a_storm_of_killed_processes_damages_nothing(s: Setting, program: Arc<dyn LockProgram>) {
    const PROCESSES: usize = 15;
    let name = s.name();
    let counter = Counter::new();
    let mut running = tokio::task::JoinSet::new();
    for fate in (0..PROCESSES).map(Fate::of) {
        let holder = start(&*program, &name, Wait::Forever, &counter.script(fate.command_meanwhile()));
        running.spawn(async move {
            let holder = started(holder).await;
            let holder = fate.apply(holder).await;
            let finished = finished(holder).await;
            let counted = finished.stdout.iter().any(|line| line == "counted");
            if fate == Fate::Spared && !counted {
                ended_too_soon("it does not count", &finished);
            }
            (fate, counted)
        });
    }
    let outcomes = running.join_all().await;
    let late = outcomes.iter().any(|(fate, counted)| *fate == Fate::Stopped && *counted);
    assert!(!late, "a command counts after its lease: {outcomes:?}");
    let counted = outcomes.iter().filter(|(_, counted)| *counted).count();
    // A process that was killed may have counted without having printed so. None may have overwritten another's count.
    assert!((counted..=PROCESSES).contains(&counter.value()), "{} of {counted}", counter.value());
    let entries = counter.entries();
    assert!(entries.len() >= counted, "{entries:?} of {counted}");
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "counts and tokens rise: {entries:?}");
}
