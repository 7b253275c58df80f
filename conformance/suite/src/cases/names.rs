//! Distinct names never exclude each other; the same name always does; anything else is refused at construction.

use std::ops::Range;
use std::time::{Duration, Instant};

use lock_core::{Client, DEFAULT_TTL, ErrorKind, Guard, LockBuilder, MAX_NAME, Name};
use tokio::task::JoinSet;

use crate::case::{Case, case};
use crate::setting::{Contend, Setting, holder_of, is_full_run, lost_eventually, ms};
use crate::timing::{Answered, released, still_held, until};

pub(crate) const CASES: &[Case] = &[
    case!(distinct_names_are_all_held_at_once, "names", [B23, B27]; load Heavy),
    case!(a_client_forgets_each_name_it_has_finished, "names", [B27]; load Heavy),
    case!(a_name_that_cannot_be_is_refused_at_construction, "names, error-kinds", [B23]),
    case!(a_ttl_that_cannot_be_is_refused_at_construction, "refused-terms, default-ttl", [B24]),
    case!(a_wait_of_any_length_is_fine, "short-waits", [B24]; load Heavy),
    case!(the_shortest_ttl_is_held_and_ends, "default-ttl", [B24]),
];

/// Names that some system has taken for one another, by what they have in common.
const DIFFICULT: [&[&str]; 10] = [
    // Case, white space, and characters that end a line or a text.
    &["job", "JOB", "Job", "job ", " job", "jób", "jo\u{301}b", "j\u{f3}b", "job\0", "job\n", "job\t"],
    // Paths.
    &["a/b", "a//b", "a/", "/a", "..", ".", "a/../b"],
    // Redis' hash tags.
    &["{}", "{a}", "{a}b", "a{b}", "}{", "{{a}}", "{a", "a}"],
    // Patterns of SQL and of files.
    &["%", "_", "%%", "a%b", "a_b", "axb", "*", "?", "[a]", "a*"],
    // Quotes, comments and variables.
    &["'", "\"", "`", "\\", "\\\\", "--", ";", "$1", "$name", "#"],
    // Separators.
    &[":", "::", "a:b", "a;b"],
    // Characters that fold into others, or have two forms.
    &["🔒", "🔒🔒", "ß", "ss", "ẞ", "ı", "i", "I", "İ", "ﬁ", "fi", "Å", "Å"],
    // Numbers and other values.
    &["0", "00", "1", "01", "1.0", "1e0", "true", "null", "NULL"],
    // Names that look like those beside a lock.
    &[":lock~", ":lock~1", "a:lock~tt", "lock", "lock~"],
    // Characters that are not seen.
    &["\u{feff}", "\u{200b}", "a\u{200b}", "\u{1}", "\u{7f}"],
];

/// Returns the difficult names, and some that are long, or have the same hash in Java.
fn difficult_names() -> Vec<String> {
    let mut names: Vec<String> = DIFFICULT.concat().into_iter().map(String::from).collect();
    for length in [63, 64, 65, 127, 128, 191, 192, 193, 254, 255, 256, 257, 511, MAX_NAME] {
        names.push("x".repeat(length));
        names.push(format!("{}y", "x".repeat(length - 1)));
    }
    names.push("é".repeat(MAX_NAME / 2));
    names.extend((0..100).map(|n| format!("Aa{n}BB")));
    names.extend((0..100).map(|n| format!("BB{n}Aa")));
    names.sort();
    names.dedup();
    names
}

async fn distinct_names_are_all_held_at_once(s: Setting) {
    let (a, b) = (s.client().await, s.client().await);
    let ttl = Duration::from_secs(20).max(s.ttl());
    let mut acquiring = JoinSet::new();
    let names = difficult_names();
    for name in &names {
        // Every run uses these same names. A run that failed a moment ago may have left them held.
        let lock = b.lock(name).built();
        until("no earlier run holds it", ttl + ms(5000), || async { holder_of(&lock).await.is_none() }).await;
    }
    for name in &names {
        let lock = a.lock(name).ttl(ttl).built();
        acquiring.spawn(async move { (lock.name().clone(), lock.try_acquire().answered().await) });
    }
    let mut guards = Vec::new();
    for (name, guard) in acquiring.join_all().await {
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} is taken for another name")));
    }
    for name in &names {
        let second = b.lock(name).ttl(ttl).built().try_acquire().answered().await;
        assert!(second.is_none(), "{name:?} is not the same name to another client");
    }
    for guard in guards {
        guard.release().await;
    }
}

/// Many names, one after the other, besides some that are held, and failures. No table of the client may forget, mix up
/// or grow.
async fn a_client_forgets_each_name_it_has_finished(s: Setting) {
    let (names, began) = (s.size("names of one client", 4_001, 100_001), Instant::now());
    let (run, client, other) = (s.name(), s.client().await, s.client().await);
    // The debug output of a driver shows what it remembers.
    let remembered =
        |whose: &str| format!("{:?}", client.driver()).matches(&format!("{run} {whose}")).count();
    let ours = hold_many(&s, &client, &run, "ours").await;
    let theirs = hold_many(&s, &other, &run, "theirs").await;
    assert!(queues(&client) >= HELD, "{} of {HELD}", queues(&client));

    for first in (0..names).step_by(PORTION) {
        if first >= LEAST_NAMES && began.elapsed() > LONG_ENOUGH && !is_full_run() {
            println!("{}: {first} of them in {:.0?}", s.harness.name(), began.elapsed());
            break;
        }
        pass_through(&s, &client, &run, first..names.min(first + PORTION)).await;
    }
    for n in 0..1000 {
        let held = numbered(&s, &client, &run, ["ours", "theirs"][n % 2], n % HELD).wait(ms(0)).built();
        until("it is refused", ms(4000), || async {
            let kind = held.acquire().await.expect_err("it is held").kind();
            // A late answer must leave nothing behind either.
            assert!(matches!(kind, ErrorKind::Timeout | ErrorKind::Unavailable { .. }), "{kind:?}");
            kind == ErrorKind::Timeout
        })
        .await;
    }
    until("nothing is remembered but what is held", ms(4000), || async {
        // A later acquisition removes what is no longer needed.
        pass_through(&s, &client, &run, 0..1).await;
        remembered("passing") <= 1 && remembered("theirs") == 0 && queues(&client) <= HELD + 1
    })
    .await;
    for (guards, elsewhere) in [(ours, &other), (theirs, &client)] {
        for guard in guards {
            still_held(&guard);
            assert!(!s.is_free_for(elsewhere, guard.name()).await);
            released(guard).await;
        }
    }
}

/// Returns of how many names the client has a queue, as its debug output says.
fn queues(client: &Client) -> usize {
    let shown = format!("{client:?}");
    let (_, behind) = shown.split_once("queues: ").expect("it says how many queues there are");
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

const HELD: usize = 100;
/// On a slow server there are fewer names, but at least these.
const LEAST_NAMES: usize = 1000;
/// The number of names that are used between two checks of the time.
const PORTION: usize = 500;
const LONG_ENOUGH: Duration = Duration::from_secs(20);
/// The number of tasks that acquire and release at the same time.
const TASKS: usize = 50;

fn numbered(s: &Setting, client: &Client, run: &Name, whose: &str, n: usize) -> LockBuilder {
    client.lock(format!("{run} {whose} {n}")).ttl(s.ttl() * 20)
}

async fn hold_many(s: &Setting, client: &Client, run: &Name, whose: &str) -> Vec<Guard> {
    let mut held = Vec::new();
    for n in 0..HELD {
        held.push(numbered(s, client, run, whose, n).held().await);
    }
    held
}

/// Acquires and releases each name once, without any contention.
pub(super) async fn pass_through(s: &Setting, client: &Client, run: &Name, names: Range<usize>) {
    let mut tasks = JoinSet::new();
    for first in names.clone().take(TASKS) {
        let locks = (first..names.end).step_by(TASKS).map(|n| numbered(s, client, run, "passing", n));
        let locks: Vec<_> = locks.map(|lock| lock.wait(ms(5000))).collect();
        tasks.spawn(async move {
            for lock in locks {
                released(lock.held().await).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn a_name_that_cannot_be_is_refused_at_construction(s: Setting) {
    let client = s.client().await;
    for name in ["", &"x".repeat(MAX_NAME + 1), &"é".repeat(257), "a:lock~t", "lock~w"] {
        is_refused(client.lock(name));
    }
}

/// Checks that there is no lock with these terms.
fn is_refused(terms: LockBuilder) {
    let refused = terms.build().map(drop).expect_err("such terms are not allowed");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

async fn a_ttl_that_cannot_be_is_refused_at_construction(s: Setting) {
    let client = s.client().await;
    let lock = || client.lock("ttl");
    let beyond = [s.info.max_ttl + ms(1), Duration::from_millis(u64::MAX), Duration::MAX];
    let below = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(1),
        s.info.min_ttl - Duration::from_nanos(1),
    ];
    for ttl in beyond.into_iter().chain(below) {
        is_refused(lock().ttl(ttl));
    }
    // Its lease ends before it may be released, it may not be held at all, or it has to be held for longer than it may.
    is_refused(lock().ttl(s.ttl()).fixed_lease().min_hold(s.ttl()));
    is_refused(lock().max_hold(Duration::ZERO));
    is_refused(lock().max_hold(ms(10)).min_hold(ms(20)));
    for bound in [s.info.min_ttl, s.info.max_ttl] {
        lock().ttl(bound).built();
    }
    let default = client.lock(s.name().as_str()).built();
    assert_eq!(default.ttl(), DEFAULT_TTL.clamp(s.info.min_ttl, s.info.max_ttl));
    let guard = default.try_acquire().await.expect("and the server takes it").expect("the lock is free");
    released(guard).await;
}

/// The server has 100 ms for its first answer, so no other case may keep it busy meanwhile.
async fn a_wait_of_any_length_is_fine(s: Setting) {
    for wait in
        [Duration::ZERO, Duration::from_nanos(1), ms(1), Duration::from_millis(u64::MAX), Duration::MAX]
    {
        released(s.lock_elsewhere(&s.name()).await.wait(wait).held().await).await;
    }
}

async fn the_shortest_ttl_is_held_and_ends(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    for odd in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
        let guard = client.lock(name.as_str()).ttl(s.info.min_ttl + odd).fixed_lease().held().await;
        lost_eventually(&guard).await;
        assert!(!guard.is_held());
        drop(guard);
    }
}
