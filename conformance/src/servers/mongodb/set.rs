//! A replica set of three members, which may be hurt one by one.

use std::io;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::super::catalogue::{self, Listing};
use super::super::executable::Executable;
use super::super::owned::{Owned, Settings};
use super::super::product::{Place, Product};
use super::super::requirement::Absence;
use super::wire::{self, Document};
use super::{ELECTION, MongoDb, SET, connect, connect_for, initiate, no_primary, own_url};

/// A replica set of three servers that were started here. Dropping it kills them.
#[derive(Debug)]
pub struct ReplicaSet {
    members: Vec<Owned>,
}

/// A server that waits to be told of its set.
#[derive(Debug)]
struct Member;

impl Product for Member {
    fn listing(&self) -> &'static Listing {
        &catalogue::MONGODB
    }

    fn prepare(&self, program: &Executable, place: &Place, settings: &Settings) -> io::Result<()> {
        MongoDb.prepare(program, place, settings)
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        MongoDb.command(program, place, settings)
    }

    fn url(&self, place: &Place) -> String {
        MongoDb.url(place)
    }

    fn own_url(&self, place: &Place) -> String {
        own_url(place)
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        MongoDb.greet(url)
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        MongoDb.time(url)
    }
}

impl ReplicaSet {
    /// Starts three servers, makes a set of them, and waits until it has a primary.
    pub fn start(settings: &Settings) -> Result<ReplicaSet, Absence> {
        let members = (0..3).map(|_| Owned::start(&Member, settings)).collect::<Result<Vec<_>, _>>()?;
        let set = ReplicaSet { members };
        let begin = || {
            let ports: Vec<u16> = set.members.iter().map(Owned::port).collect();
            initiate(&mut connect_for(&set.members[0].own_url(), ELECTION)?, &ports)?;
            set.primary()
        };
        begin().map_err(|e| Absence::Failure(format!("no replica set: {e}")))?;
        Ok(set)
    }

    /// Where clients connect: all members are named.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
        format!("mongodb://{}/?replicaSet={SET}", hosts.join(","))
    }

    /// Its members.
    pub fn members(&self) -> &[Owned] {
        &self.members
    }

    /// Which member is the primary, as soon as one is that all who run agree on.
    pub fn primary(&self) -> io::Result<usize> {
        let deadline = Instant::now() + ELECTION;
        while Instant::now() < deadline {
            let primaries: Vec<usize> = (0..self.members.len())
                .filter(|n| self.hello(*n).is_ok_and(|hello| hello.is("isWritablePrimary")))
                .collect();
            if let [primary] = primaries[..] {
                return Ok(primary);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(no_primary())
    }

    /// Waits until each member is the primary or follows it: until then one more that goes away may be one too many.
    pub fn become_whole(&self) -> io::Result<()> {
        let follows = |hello: Document| hello.is("isWritablePrimary") || hello.is("secondary");
        let deadline = Instant::now() + ELECTION;
        while Instant::now() < deadline {
            if (0..self.members.len()).all(|n| self.hello(n).is_ok_and(follows)) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(io::Error::other(format!("a member of the set does not follow its primary after {ELECTION:?}")))
    }

    /// Makes the primary step down, for `pause` at least; returns when it has. Its successor is yet to be elected.
    pub fn step_down(&self, pause: Duration) -> io::Result<usize> {
        let seconds = i32::try_from(pause.as_secs().max(2)).map_err(io::Error::other)?;
        let command = Document::default()
            .with("replSetStepDown", seconds)
            .with("secondaryCatchUpPeriodSecs", 1)
            .with("force", true);
        let deadline = Instant::now() + ELECTION;
        loop {
            let primary = self.primary()?;
            let mut stream = connect_for(&self.members[primary].own_url(), ELECTION)?;
            match wire::ask(&mut stream, command.clone()) {
                // Another was elected meanwhile.
                Err(e) if is_no_primary(&e) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(20));
                }
                answer => return answer.map(|_| primary),
            }
        }
    }

    fn hello(&self, member: usize) -> io::Result<Document> {
        let member = &self.members[member];
        if member.process_id().is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        wire::ask(&mut connect(&member.own_url())?, Document::default().with("hello", 1))
    }
}

/// Whether a member refused because it is the primary no more.
fn is_no_primary(refusal: &io::Error) -> bool {
    let refusal = refusal.to_string();
    // NotWritablePrimary, PrimarySteppedDown, InterruptedDueToReplStateChange.
    ["(10107)", "(189)", "(11602)"].iter().any(|code| refusal.contains(code))
}
