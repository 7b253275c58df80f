//! Names that nobody uses any more cost nothing in the end, neither the server nor a client.

use std::time::Duration;

use lock_core::Ending;

use super::case;
use super::names::pass_through;
use crate::runner::Case;
use crate::setting::{Setting, ms, until};

pub(crate) const CASES: &[Case] =
    &[case!(names_that_are_used_once_leave_their_tokens_only, [B27, B28]; needs [Residue, Age]; load Heavy)];

/// Longer than any backend remembers a token.
const OLD: Duration = Duration::from_secs(48 * 3600);
/// Who releases so often sweeps up, if it sweeps at all.
const ROUND: usize = 100;

/// While the tokens are young they stay, one thing for each name; once they are old, they go by the time that as many
/// locks were released again.
async fn names_that_are_used_once_leave_their_tokens_only(s: Setting) {
    let names = s.size("names that are used once", 500, 100_000);
    let (client, run, again) = (s.client().await, s.name(), s.name());
    let residue = s.harness.residue().await;
    // What the first one leaves behind may be more: a session, a channel.
    pass_through(&s, &client, &again, ROUND).await;
    let (before, tasks) = (s.harness.kept().await, tasks());
    pass_through(&s, &client, &run, names).await;
    until("nothing but tokens is left", ms(5000), || async { s.harness.residue().await <= residue }).await;
    let left = s.harness.kept().await.saturating_sub(before);
    assert!(left <= names as u64, "{left} things are left of {names} names");
    until("no task is left", ms(4000), || async { self::tasks() <= tasks }).await;

    s.harness.age(OLD).await;
    let lock = s.lock(&client, &s.name()).build().expect("fine terms");
    for _ in 0..names / ROUND {
        for _ in 0..ROUND {
            assert_eq!(lock.acquire().await.expect("nobody else has it").release().await, Ending::Released);
        }
        if s.harness.kept().await <= before + 1 {
            return;
        }
    }
    // A sweep may end a little after the release that it comes with.
    until("old tokens are gone", ms(2000), || async { s.harness.kept().await <= before + 1 }).await;
}

/// Tasks of this process that have not ended.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
