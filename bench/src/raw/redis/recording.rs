//! The commands that the library sends for one cycle, recorded with the server's MONITOR, so that the floor sends
//! exactly the same.
//!
//! Two cycles of the same name are recorded. The words that differ between them are made anew for every acquisition:
//! the owner, and the deadline in the server's time. All other words are sent again as they were.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use lock_core::{Client, Ending, Owner, Random};
use redis::{Cmd, ProtocolVersion};

use super::monitor::Seen;
use super::{PATIENCE, Server, send};
use crate::Outcome;

/// The commands of one acquisition and its release.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) grant: Template,
    pub(crate) release: Template,
    /// The channel on which the release is published.
    pub(crate) channel: Vec<u8>,
    /// The command that raises a token between the two, if this server was sent one.
    pub(crate) raise: Option<Raise>,
}

/// A command that raises the token of a grant. Its script is the same for every server; its other words are the
/// grant's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raise {
    script: Vec<u8>,
}

/// A command with words that are to be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A word that is sent as it was.
    Fixed(Vec<u8>),
    /// The owner in hexadecimal digits, followed by the label.
    Owner { label: Vec<u8> },
    /// A time of the server, in microseconds, that is late enough for every request. On a busy machine a request may
    /// arrive after the library's own deadline, and a refusal can't be compared with anything.
    Deadline,
}

impl Recording {
    /// Records what `ours` sends for `name`, and leaves the lock free.
    pub(crate) async fn of(ours: &Client, server: &Server, name: &str) -> Outcome<Recording> {
        let first = Cycle::learned(ours, server, name).await?;
        let second = Cycle::learned(ours, server, name).await?;
        Ok(Recording {
            grant: Template::between(&first.grant, &second.grant)?,
            release: Template::between(&first.release, &second.release)?,
            channel: first.channel,
            raise: first.raise.or(second.raise).map(|seen| Raise { script: seen.words[1].clone() }),
        })
    }

    /// Returns what the library sends for another name: the same, with this name in place of the recorded one.
    pub(crate) fn renamed(&self, recorded: &str, name: &str) -> Recording {
        let of_template = |template: &Template| template.renamed(recorded, name);
        Recording {
            grant: of_template(&self.grant),
            release: of_template(&self.release),
            channel: replaced(&self.channel, recorded, name),
            raise: self.raise.clone(),
        }
    }
}

/// Returns a word with `new` in place of each `old`.
fn replaced(word: &[u8], old: &str, new: &str) -> Vec<u8> {
    let (mut rest, mut all) = (word, Vec::with_capacity(word.len() + new.len()));
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(old.as_bytes()) {
            Some(behind) if !old.is_empty() => {
                all.extend_from_slice(new.as_bytes());
                rest = behind;
            }
            _ => {
                all.push(*first);
                rest = after;
            }
        }
    }
    all
}

impl Raise {
    /// Returns the command for this owner's grant, which was sent from the template `grant`.
    pub(crate) fn fill(&self, grant: &Template, owner: &Owner, granted: i64, token: i64) -> Outcome<Cmd> {
        let [
            Part::Fixed(eval),
            _,
            Part::Fixed(count),
            Part::Fixed(lock),
            Part::Fixed(last),
            Part::Fixed(marker),
            Part::Fixed(quarantine),
            Part::Owner { label },
            ..,
            Part::Fixed(max_ttl),
        ] = &grant.0[..]
        else {
            return Err("the library's grant doesn't have the words that its raise is made of".into());
        };
        let mut command = Cmd::with_capacity(12, 512);
        for word in [eval, &self.script, count, lock, last, marker, quarantine] {
            command.arg(word.as_slice());
        }
        command.arg([owner.to_string().as_bytes(), label].concat());
        command.arg(granted).arg(token).arg("").arg(max_ttl.as_slice());
        Ok(command)
    }
}

impl Template {
    /// Returns the command for this owner, at this time of the server.
    pub(crate) fn fill(&self, owner: &Owner, now: Duration) -> Cmd {
        let mut command = Cmd::with_capacity(self.0.len(), 512);
        for part in &self.0 {
            match part {
                Part::Fixed(word) => command.arg(word.as_slice()),
                Part::Owner { label } => command.arg([owner.to_string().as_bytes(), label].concat()),
                Part::Deadline => command.arg((now + PATIENCE).as_micros().to_string()),
            };
        }
        command
    }

    fn renamed(&self, recorded: &str, name: &str) -> Template {
        let part = |part: &Part| match part {
            Part::Fixed(word) => Part::Fixed(replaced(word, recorded, name)),
            made_anew => made_anew.clone(),
        };
        Template(self.0.iter().map(part).collect())
    }

    fn between(first: &Seen, second: &Seen) -> Outcome<Template> {
        if first.words.len() != second.words.len() {
            return Err("two cycles of the library sent commands of different lengths".into());
        }
        let parts = first.words.iter().zip(&second.words).map(|(a, b)| match a == b {
            true => Ok(Part::Fixed(a.clone())),
            false => Part::fresh(b),
        });
        parts.collect::<Outcome<_>>().map(Template)
    }
}

impl Part {
    /// Returns what a word stands for that is made anew for every acquisition.
    fn fresh(word: &[u8]) -> Outcome<Part> {
        let text = str::from_utf8(word).unwrap_or_default();
        if text.parse::<u64>().is_ok() {
            return Ok(Part::Deadline);
        }
        match word.split_at_checked(OWNER_DIGITS) {
            Some((owner, label)) if owner.iter().all(u8::is_ascii_hexdigit) => {
                Ok(Part::Owner { label: label.to_vec() })
            }
            _ => Err(format!(
                "the library sends {text:?} anew each time, and the floor doesn't know what it is"
            )
            .into()),
        }
    }
}

/// An [`Owner`] is 16 bytes.
const OWNER_DIGITS: usize = 32;

/// What the server saw of one cycle.
struct Cycle {
    grant: Seen,
    raise: Option<Seen>,
    release: Seen,
    channel: Vec<u8>,
}

/// How many more cycles are recorded until one is as expected. A server learns a script when it is first asked to run
/// it, and one of several servers may be asked only in a later cycle: such a cycle differs from all later ones. So does
/// a cycle in which a server on a busy machine took too long.
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
            while !over || !seen.iter().any(Seen::tells) {
                let Some(line) = lines.next().await else { break };
                match Seen::parse(&line) {
                    Some(last) if last.concerns(&end) => over = true,
                    Some(one) if one.concerns(name) => seen.push(one),
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
        let told = seen.iter().find(|seen| seen.tells());
        let channel = told.and_then(|publish| publish.words.get(1)).cloned();
        let commands: Vec<Seen> = seen.into_iter().filter(|seen| !seen.in_script).collect();
        match (&commands[..], channel) {
            ([grant, between @ .., release], Some(channel))
                if between.len() < 2 && commands.iter().all(|command| command.is("evalsha")) =>
            {
                let raise = between.first().cloned();
                Ok(Cycle { grant: grant.clone(), raise, release: release.clone(), channel })
            }
            (_, told) => Err(format!(
                "a cycle of the library has to be two scripts, the second of which publishes, and on one of several \
                 servers one more; the server saw {commands:?}, and published to {told:?}"
            )
            .into()),
        }
    }
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

    const FIRST: &str = r#"100.000000 [0 h] "EVALSHA" "5a" "1" "key" "00112233445566778899aabbccddeeff me" "30000" "105000000""#;
    const SECOND: &str = r#"101.500000 [0 h] "EVALSHA" "5a" "1" "key" "ff112233445566778899aabbccddeeff me" "30000" "106500000""#;

    fn words(command: &Cmd) -> Vec<String> {
        let word = |arg| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        command.args_iter().map(word).collect()
    }

    #[test]
    fn what_is_made_afresh_is_made_afresh() {
        let [first, second] = [FIRST, SECOND].map(|line| Seen::parse(line).unwrap());
        let owner = Owner::mint(&Random::system());
        let command = Template::between(&first, &second).unwrap().fill(&owner, Duration::from_secs(200));
        let value = format!("{owner} me");
        assert_eq!(words(&command), ["EVALSHA", "5a", "1", "key", &value, "30000", "205000000"]);
    }

    #[test]
    fn another_name_has_the_same_commands_with_its_own_keys() {
        let [first, second] = [FIRST, SECOND].map(|line| Seen::parse(line).unwrap());
        let recorded = Template::between(&first, &second).unwrap();
        let owner = Owner::mint(&Random::system());
        let filled = |template: &Template| words(&template.fill(&owner, Duration::from_secs(200)));
        let mut expected = filled(&recorded);
        expected[3] = "name:7".to_owned();
        assert_eq!(filled(&recorded.renamed("key", "name:7")), expected);
        assert_eq!(replaced(b"{a:1}:lock a:1", "a:1", "a:22"), b"{a:22}:lock a:22");
        assert_eq!(replaced(b"", "a", "b"), b"");
    }

    #[test]
    fn what_is_not_understood_is_not_sent() {
        let [first, mut second] = [FIRST, SECOND].map(|line| Seen::parse(line).unwrap());
        second.words[3] = b"another".to_vec();
        assert!(Template::between(&first, &second).is_err());
        second.words.pop();
        assert!(Template::between(&first, &second).is_err());
    }

    #[test]
    fn a_cycle_is_two_commands() {
        let told = r#"1.5 [0 lua] "PUBLISH" "chan" "released""#;
        let seen = |lines: &[&str]| lines.iter().map(|line| Seen::parse(line).unwrap()).collect();
        assert_eq!(Cycle::among(seen(&[FIRST, SECOND, told])).unwrap().channel, b"chan");
        let get = r#"1.5 [0 h] "GET" "key""#;
        for wrong in [&[FIRST, told][..], &[FIRST, SECOND], &[FIRST, SECOND, get, told], &[FIRST, get, told]]
        {
            assert!(Cycle::among(seen(wrong)).is_err());
        }
    }
}
