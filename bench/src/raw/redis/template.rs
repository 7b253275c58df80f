//! A command of the library with words that are made anew for every acquisition.

use std::time::Duration;

use lock_core::Owner;
use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::PATIENCE;
use super::monitor::Seen;
use crate::Outcome;

/// A command with words that are to be filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    /// A word that is sent as it was.
    Fixed(Vec<u8>),
    /// The owner in hexadecimal digits, followed by the label.
    Owner { label: Vec<u8> },
    /// The owner as a uuid, followed by the number of its thread: the field of Redisson's hash.
    Field { thread: Vec<u8> },
    /// The owner's place among the waiters of a fair lock: what is the same for its client, its own digits, and the label.
    Place { client: Vec<u8>, label: Vec<u8> },
    /// The key that keeps the answer to a release, which ends in digits that the library mints for each release. The
    /// owner's digits are as unique, and cost no second minting.
    Latch { key: Vec<u8> },
    /// A time of the server, in microseconds, that is late enough for every request. On a busy machine a request may
    /// arrive after the library's own deadline, and a refusal can't be compared with anything.
    Deadline,
    /// The token that is proposed to several servers: a time, too, and the same for all of them.
    Proposal,
}

impl Template {
    /// Compares the same command of two cycles: the words that differ are made anew for every acquisition.
    pub(super) fn between(first: &Seen, second: &Seen) -> Outcome<Template> {
        if first.words.len() != second.words.len() {
            return Err("two cycles of the library sent commands of different lengths".into());
        }
        let parts = first.words.iter().zip(&second.words).map(|(a, b)| match a == b {
            true => Ok(Part::Fixed(a.clone())),
            false => Part::fresh(a, b),
        });
        parts.collect::<Outcome<_>>().map(Template)
    }

    /// Returns the same command, with a proposed token in place of the second time in it.
    pub(super) fn that_proposes(mut self) -> Outcome<Template> {
        let times = self.0.iter_mut().filter(|part| **part == Part::Deadline);
        match &mut times.collect::<Vec<_>>()[..] {
            [_, second] => **second = Part::Proposal,
            _ => return Err("a grant on several servers has a deadline and a proposed token".into()),
        }
        Ok(self)
    }

    /// Returns the command for this owner, at this time of the server.
    pub(crate) fn fill(&self, owner: &Owner, now: Duration) -> Cmd {
        self.propose(owner, now, now)
    }

    /// Returns the command for this owner, at this time of the server, with the token that is proposed to all servers.
    pub(crate) fn propose(&self, owner: &Owner, now: Duration, proposed: Duration) -> Cmd {
        let mut command = Cmd::with_capacity(self.0.len(), 512);
        for part in &self.0 {
            match part {
                Part::Fixed(word) => command.arg(word.as_slice()),
                Part::Owner { label } => command.arg([owner.to_string().as_bytes(), label].concat()),
                Part::Field { thread } => command.arg([uuid(owner).as_bytes(), thread].concat()),
                Part::Place { client, label } => {
                    command.arg([client, owner.to_string().as_bytes(), label].concat())
                }
                Part::Latch { key } => command.arg([key, owner.to_string().as_bytes()].concat()),
                Part::Deadline => command.arg((now + PATIENCE).as_micros().to_string()),
                Part::Proposal => command.arg(proposed.as_micros().to_string()),
            };
        }
        command
    }

    /// Returns the same command with `name` in place of the recorded one.
    pub(super) fn renamed(&self, recorded: &str, name: &str) -> Template {
        let part = |part: &Part| match part {
            Part::Fixed(word) => Part::Fixed(replaced(word, recorded, name)),
            Part::Latch { key } => Part::Latch { key: replaced(key, recorded, name) },
            made_anew => made_anew.clone(),
        };
        Template(self.0.iter().map(part).collect())
    }
}

/// Returns a word with `new` in place of each `old`.
pub(super) fn replaced(word: &[u8], old: &str, new: &str) -> Vec<u8> {
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

/// Returns whether a word is the key of a release's answer, which the library deletes after the release.
pub(super) fn is_latch(word: &[u8]) -> bool {
    matches!(Part::of(word), Some(Part::Latch { .. }))
}

impl Part {
    /// Returns what a word stands for that is made anew for every acquisition: in both cycles the same, but for what is
    /// filled in.
    fn fresh(first: &[u8], second: &[u8]) -> Outcome<Part> {
        Part::of(second).filter(|part| Part::of(first).as_ref() == Some(part)).ok_or_else(|| {
            let text = String::from_utf8_lossy(second);
            format!("the library sends {text:?} anew each time, and the floor doesn't know what it is").into()
        })
    }

    fn of(word: &[u8]) -> Option<Part> {
        if str::from_utf8(word).is_ok_and(|text| text.parse::<u64>().is_ok()) {
            return Some(Part::Deadline);
        }
        if let Some((_, thread)) = word.split_at_checked(UUID).filter(|(uuid, _)| is_uuid(uuid)) {
            return Some(Part::Field { thread: thread.to_vec() });
        }
        if let Some(place) = place(word) {
            return Some(place);
        }
        if let Some((_, label)) = word.split_at_checked(OWNER_DIGITS).filter(|(digits, _)| are_digits(digits))
        {
            return Some(Part::Owner { label: label.to_vec() });
        }
        let (key, digits) = word.split_at(word.len().checked_sub(OWNER_DIGITS)?);
        (key.ends_with(b":") && are_digits(digits)).then(|| Part::Latch { key: key.to_vec() })
    }
}

/// Reads a place: the grace and a colon, the digits of the client, those of the owner, and the label.
fn place(word: &[u8]) -> Option<Part> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let (client, rest) = word.split_at_checked(colon + 1 + CLIENT_DIGITS)?;
    let (owner, label) = rest.split_at_checked(OWNER_DIGITS)?;
    let is_place = client[..colon].iter().all(u8::is_ascii_digit)
        && are_digits(&client[colon + 1..])
        && are_digits(owner);
    is_place.then(|| Part::Place { client: client.to_vec(), label: label.to_vec() })
}

/// An [`Owner`] is 16 bytes.
const OWNER_DIGITS: usize = 32;
/// The half of an [`Owner`] names a client.
const CLIENT_DIGITS: usize = 16;
const UUID: usize = 36;
/// Where a uuid has its dashes.
const DASHES: [usize; 4] = [8, 13, 18, 23];

fn are_digits(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_hexdigit)
}

fn is_uuid(word: &[u8]) -> bool {
    word.iter().enumerate().all(|(at, byte)| match DASHES.contains(&at) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    })
}

fn uuid(owner: &Owner) -> String {
    let mut text = owner.to_string();
    DASHES.into_iter().for_each(|dash| text.insert(dash, '-'));
    text
}

#[cfg(test)]
mod tests {
    use lock_core::Random;

    use super::*;

    const NOW: Duration = Duration::from_secs(200);

    fn template(first: &[&str], second: &[&str]) -> Outcome<Template> {
        let seen = |words: &[&str]| Seen {
            in_script: false,
            words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        };
        Template::between(&seen(first), &seen(second))
    }

    fn words(command: &Cmd) -> Vec<String> {
        let word = |arg| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        command.args_iter().map(word).collect()
    }

    fn owner() -> Owner {
        Owner::mint(&Random::system())
    }

    const FIRST: [&str; 6] =
        ["EVALSHA", "5a", "key", "00112233445566778899aabbccddeeff me", "30000", "105000000"];
    const SECOND: [&str; 6] =
        ["EVALSHA", "5a", "key", "ff112233445566778899aabbccddeeff me", "30000", "106500000"];

    #[test]
    fn what_is_made_afresh_is_made_afresh() {
        let owner = owner();
        let command = template(&FIRST, &SECOND).unwrap().fill(&owner, NOW);
        assert_eq!(words(&command), ["EVALSHA", "5a", "key", &format!("{owner} me"), "30000", "205000000"]);
    }

    #[test]
    fn the_second_time_of_a_grant_on_several_servers_is_a_proposal() {
        let [first, second] = [["EVALSHA", "105000000", "100050000"], ["EVALSHA", "106500000", "101550000"]];
        let proposes = template(&first, &second).unwrap().that_proposes().unwrap();
        let command = proposes.propose(&owner(), NOW, NOW + Duration::from_millis(50));
        assert_eq!(words(&command), ["EVALSHA", "205000000", "200050000"]);
        assert!(template(&FIRST, &SECOND).unwrap().that_proposes().is_err());
    }

    #[test]
    fn another_name_has_the_same_commands_with_its_own_keys() {
        let (recorded, owner) = (template(&FIRST, &SECOND).unwrap(), owner());
        let mut expected = words(&recorded.fill(&owner, NOW));
        expected[2] = "name:7".to_owned();
        assert_eq!(words(&recorded.renamed("key", "name:7").fill(&owner, NOW)), expected);
        assert_eq!(replaced(b"{a:1}:lock a:1", "a:1", "a:22"), b"{a:22}:lock a:22");
        assert_eq!(replaced(b"", "a", "b"), b"");
    }

    #[test]
    fn a_field_of_redisson_is_the_owner_as_a_uuid() {
        let of = |digit| format!("{digit}0112233-4455-6677-8899-aabbccddeeff:0");
        let (owner, template) = (owner(), template(&[&of('0')], &[&of('f')]).unwrap());
        let [field] = &words(&template.fill(&owner, NOW))[..] else { panic!("one word") };
        let (uuid, thread) = field.split_once(':').unwrap();
        assert_eq!((uuid.replace('-', ""), thread), (owner.to_string(), "0"));
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }

    #[test]
    fn a_place_has_the_digits_of_its_client_before_the_owner() {
        let place = |owner: &str| format!("5000:0123456789abcdef{owner} me");
        let (first, second) = ("00112233445566778899aabbccddeeff", "ff112233445566778899aabbccddeeff");
        let of_two = template(&[&place(first)], &[&place(second)]).unwrap();
        let owner = owner();
        assert_eq!(words(&of_two.fill(&owner, NOW)), [place(&owner.to_string())]);
        let other_client = place(second).replacen('0', "1", 1);
        assert!(template(&[&place(first)], &[&other_client]).is_err(), "the floor is one client");
    }

    #[test]
    fn a_latch_is_a_key_with_fresh_digits_at_its_end() {
        let latch = |name: &str, id: &str| format!("redisson_unlock_latch:{{{name}}}:{id}");
        let (first, second) = ("00112233445566778899aabbccddeeff", "ff112233445566778899aabbccddeeff");
        let recorded = template(&[&latch("n", first)], &[&latch("n", second)]).unwrap();
        let owner = owner();
        assert_eq!(words(&recorded.fill(&owner, NOW)), [latch("n", &owner.to_string())]);
        let renamed = recorded.renamed("n}", "m}");
        assert_eq!(words(&renamed.fill(&owner, NOW)), [latch("m", &owner.to_string())]);
        assert!(is_latch(latch("n", first).as_bytes()) && !is_latch(first.as_bytes()) && !is_latch(b"key"));
    }

    #[test]
    fn what_is_not_understood_is_not_sent() {
        assert!(template(&["a", "key"], &["a", "another"]).is_err());
        assert!(template(&["a"], &["a", "b"]).is_err());
        let labels = FIRST.map(|word| word.replace(" me", " you"));
        assert!(template(&labels.each_ref().map(String::as_str), &SECOND).is_err(), "the label is the same");
    }
}
