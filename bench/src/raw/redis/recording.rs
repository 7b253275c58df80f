//! The commands that the library sends for one cycle, recorded with the server's MONITOR, so that the floor sends
//! exactly the same.
//!
//! Two cycles of the same name are recorded. The words that differ between them are made anew for every acquisition:
//! the owner, the deadline in the server's time, and what some layouts add. All other words are sent again as they were.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use lock_core::{Client, Ending, Owner, Random};
use redis::ProtocolVersion;
use serde::{Deserialize, Serialize};

use super::monitor::Seen;
use super::template::{Template, is_latch, replaced};
use super::{Server, send};
use crate::Outcome;

/// The commands of one acquisition and its release.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recording {
    pub(crate) grant: Template,
    pub(crate) release: Template,
    /// The channel on which the release is published.
    pub(crate) channel: Vec<u8>,
    /// The command that deletes the answer to the release, which some layouts keep until the library has it. The library
    /// doesn't wait for it.
    pub(crate) forget: Option<Template>,
}

impl Recording {
    /// Records what `ours` sends for `name`, and leaves the lock free.
    pub(crate) async fn of(ours: &Client, server: &Server, name: &str) -> Outcome<Recording> {
        let first = Cycle::learned(ours, server, name).await?;
        let second = Cycle::learned(ours, server, name).await?;
        Recording::between(first, second)
    }

    fn between(first: Cycle, second: Cycle) -> Outcome<Recording> {
        let forget = match (&first.forget, &second.forget) {
            (Some(first), Some(second)) => Some(Template::between(first, second)?),
            (None, None) => None,
            _ => {
                return Err(
                    "only one of two cycles of the library has deleted the answer to its release".into()
                );
            }
        };
        Ok(Recording {
            grant: Template::between(&first.grant, &second.grant)?,
            release: Template::between(&first.release, &second.release)?,
            channel: first.channel,
            forget,
        })
    }

    /// Returns the same for several servers, to all of which the grant proposes one token.
    pub(crate) fn that_proposes(self) -> Outcome<Recording> {
        Ok(Recording { grant: self.grant.that_proposes()?, ..self })
    }

    /// Returns what the library sends for another name: the same, with this name in place of the recorded one.
    pub(crate) fn renamed(&self, recorded: &str, name: &str) -> Recording {
        let of_template = |template: &Template| template.renamed(recorded, name);
        Recording {
            grant: of_template(&self.grant),
            release: of_template(&self.release),
            channel: replaced(&self.channel, recorded, name),
            forget: self.forget.as_ref().map(of_template),
        }
    }
}

/// What the server saw of one cycle.
struct Cycle {
    grant: Seen,
    release: Seen,
    forget: Option<Seen>,
    channel: Vec<u8>,
}

/// How many more cycles are recorded until one is as expected. A server learns a script when it is first asked to run
/// it, and one of several servers may be asked only in a later cycle: such a cycle differs from all later ones. So does
/// a cycle in which a server on a busy machine took too long, or had to raise its token.
const LESSONS: usize = 16;
/// How long to wait for the release after the cycle. The cycle ends with the answers of a majority: one of several
/// servers may get the release later, or never, if its own part took too long for the library to wait for.
const STRAGGLER: Duration = Duration::from_secs(1);

impl Cycle {
    async fn learned(ours: &Client, server: &Server, name: &str) -> Outcome<Cycle> {
        let mut cycle = Cycle::watch(ours, server, name).await;
        for _ in 0..LESSONS {
            if cycle.is_ok() {
                break;
            }
            cycle = Cycle::watch(ours, server, name).await;
        }
        cycle
    }

    async fn watch(ours: &Client, server: &Server, name: &str) -> Outcome<Cycle> {
        let client = server.client(ProtocolVersion::RESP2)?;
        let mut lines = pin!(client.get_async_monitor().await?.into_on_message::<String>());
        let mut connection = server.connect().await?;
        cycle(ours, name).await?;
        // MONITOR shows everything that the cycle sent before this.
        let end = Owner::mint(&Random::system()).to_string();
        send(&mut connection, redis::cmd("ECHO").arg(&end)).await?;
        let (mut seen, mut over) = (Vec::new(), false);
        let watching = async {
            while !over || !is_complete(&seen) {
                let Some(line) = lines.next().await else { break };
                match Seen::parse(&line) {
                    Some(last) if last.concerns(&end) => over = true,
                    Some(one) if one.concerns(name) || one.waits() => seen.push(one),
                    _ => {}
                }
            }
        };
        // What was seen by then is judged, complete or not.
        let _: Result<(), _> = tokio::time::timeout(STRAGGLER, watching).await;
        Cycle::among(seen)
    }

    /// Finds the commands of one cycle in what the server saw.
    fn among(seen: Vec<Seen>) -> Outcome<Cycle> {
        let has_released = seen.iter().any(Seen::releases);
        let mut commands: Vec<Seen> = seen.into_iter().filter(|seen| !seen.in_script).collect();
        let forget = commands.pop_if(|last| last.is("del"));
        match &commands[..] {
            [grant, release]
                if has_released
                    && commands.iter().all(|command| command.is("evalsha"))
                    && latch_of(release) == forget.as_ref().and_then(latch_of) =>
            {
                let channel = release.argument(1).ok_or("a release without a channel")?.to_vec();
                Ok(Cycle { grant: grant.clone(), release: release.clone(), forget, channel })
            }
            _ => Err(format!(
                "a cycle of the library has to be two scripts, the second of which releases, and then the deletion of \
                 its answer if that is kept; the server saw {commands:?} \
                 and {forget:?}, and a release: {has_released}"
            )
            .into()),
        }
    }
}

/// Returns whether a release was seen, and the deletion of its answer if it keeps one: the library sends this in the
/// background.
fn is_complete(seen: &[Seen]) -> bool {
    let kept = seen.iter().filter(|seen| seen.is("evalsha")).find_map(latch_of);
    let forgotten = || seen.iter().any(|seen| !seen.in_script && seen.is("del") && latch_of(seen) == kept);
    seen.iter().any(Seen::releases) && (kept.is_none() || forgotten())
}

/// Returns the key that keeps the answer to a release, if the command has one.
fn latch_of(command: &Seen) -> Option<&[u8]> {
    command.words.iter().map(Vec::as_slice).find(|word| is_latch(word))
}

async fn cycle(ours: &Client, name: &str) -> Outcome<()> {
    match ours.lock(name).build()?.acquire().await?.release().await {
        Ending::Released => Ok(()),
        Ending::Expired => Err("a lock was lost while it was recorded".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANT: &str =
        r#"1.5 [0 h] "EVALSHA" "5a" "1" "key" "00112233445566778899aabbccddeeff me" "30000" "10500000""#;
    const RELEASE: &str =
        r#"1.5 [0 h] "EVALSHA" "5b" "1" "key" "00112233445566778899aabbccddeeff me" "chan""#;
    const TOLD: &str = r#"1.5 [0 lua] "PUBLISH" "chan" "released""#;

    fn seen(lines: &[&str]) -> Vec<Seen> {
        lines.iter().map(|line| Seen::parse(line).unwrap()).collect()
    }

    #[test]
    fn a_cycle_is_two_commands() {
        let cycle = Cycle::among(seen(&[GRANT, RELEASE, TOLD])).unwrap();
        assert_eq!((&cycle.channel[..], cycle.forget.is_none()), (&b"chan"[..], true));
        let [get, wait] = [r#"1.5 [0 h] "GET" "key""#, r#"1.5 [0 h] "WAIT" "1" "100""#];
        for wrong in [
            &[GRANT, TOLD][..],
            &[GRANT, RELEASE],
            &[GRANT, RELEASE, get, TOLD],
            &[GRANT, get, TOLD],
            &[GRANT, wait, RELEASE, TOLD],
        ] {
            assert!(Cycle::among(seen(wrong)).is_err());
        }
    }

    #[test]
    fn the_release_of_a_fair_lock_notifies_no_client_if_none_waits() {
        let counted = r#"1.5 [0 lua] "ZCARD" "order""#;
        assert!(is_complete(&seen(&[GRANT, RELEASE, counted])) && !is_complete(&seen(&[GRANT, RELEASE])));
        assert_eq!(Cycle::among(seen(&[GRANT, RELEASE, counted])).unwrap().channel, b"chan");
    }

    #[test]
    fn the_answer_of_a_release_is_deleted_by_a_third_command() {
        let latch = |digit: char| format!("latch:{{key}}:{digit}0112233445566778899aabbccddeeff");
        let line = |digit| format!(r#"1.5 [0 h] "EVALSHA" "5b" "2" "key" "{}" "f" "chan""#, latch(digit));
        let delete = |digit| format!(r#"1.6 [0 h] "DEL" "{}""#, latch(digit));
        let (release, forget, other) = (line('0'), delete('0'), delete('1'));
        let whole = [GRANT, &release, TOLD, &forget];
        assert!(is_complete(&seen(&whole)) && !is_complete(&seen(&whole[..3])));
        assert!(!is_complete(&seen(&[&other, GRANT, &release, TOLD])), "that of the cycle before");
        let cycle = || Cycle::among(seen(&whole)).unwrap();
        assert_eq!((&cycle().channel[..], cycle().forget.is_some()), (&b"chan"[..], true));
        for wrong in [&whole[..3], &[GRANT, &release, TOLD, &other], &[GRANT, RELEASE, TOLD, &forget]] {
            assert!(Cycle::among(seen(wrong)).is_err());
        }
        assert!(Recording::between(cycle(), cycle()).unwrap().forget.is_some());
        let plain = Cycle::among(seen(&[GRANT, RELEASE, TOLD])).unwrap();
        assert!(Recording::between(cycle(), plain).is_err());
    }
}
