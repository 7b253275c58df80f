//! A replica set of three members, which can be killed and stopped one by one.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::super::owned::Owned;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::super::together;
use super::wire::{self, Document};
use super::{ELECTION, SET, StandaloneMongoDb, connect, connect_for, initiate};

/// A replica set of three servers that were started here. Dropping it kills them.
#[derive(Debug)]
pub struct ReplicaSet {
    members: Vec<Owned>,
}

impl ReplicaSet {
    /// Starts three servers, makes a set of them, and waits until it has a primary.
    ///
    /// # Errors
    ///
    /// If MongoDB is missing or does not start, or if no primary is elected in time.
    pub fn start(settings: &Settings) -> Result<ReplicaSet, Absence> {
        let mut settings = settings.clone();
        settings.args.extend(["--replSet", SET].map(str::to_owned));
        let set = ReplicaSet { members: together::start(&StandaloneMongoDb, &together::here(&settings))? };
        let begin = || {
            let ports: Vec<u16> = set.members.iter().map(Owned::port).collect();
            initiate(&mut connect_for(&set.members[0].own_url(), ELECTION)?, &ports)?;
            set.primary()
        };
        begin().map_err(|e| Absence::Failure(format!("no replica set: {e}")))?;
        Ok(set)
    }

    /// Returns the URL for clients, which names all members.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
        format!("mongodb://{}/?replicaSet={SET}", hosts.join(","))
    }

    /// Returns its members.
    pub fn members(&self) -> &[Owned] {
        &self.members
    }

    /// Waits until exactly one member that runs is the primary, and returns which one.
    ///
    /// # Errors
    ///
    /// If there is none in time.
    pub fn primary(&self) -> io::Result<usize> {
        together::one(&self.members, "primary", |member| {
            hello(member).is_ok_and(|hello| hello.is("isWritablePrimary"))
        })
    }

    /// Waits until each member is the primary or follows it. Until then, the loss of one more member may be one too
    /// many.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn become_whole(&self) -> io::Result<()> {
        let follows = |hello: Document| hello.is("isWritablePrimary") || hello.is("secondary");
        together::all(&self.members, |member| hello(member).is_ok_and(follows))
    }

    /// Makes the primary step down for at least `pause`, and returns which member that was. Its successor is not
    /// elected yet.
    ///
    /// # Errors
    ///
    /// If no primary steps down in time.
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
                // Another member was elected meanwhile.
                Err(e) if is_no_primary(&e) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(20));
                }
                answer => return answer.map(|_| primary),
            }
        }
    }
}

fn hello(member: &Owned) -> io::Result<Document> {
    wire::ask(&mut connect(&member.own_url())?, Document::default().with("hello", 1))
}

/// Returns whether a member refused because it is no longer the primary.
fn is_no_primary(refusal: &io::Error) -> bool {
    let refusal = refusal.to_string();
    // NotWritablePrimary, PrimarySteppedDown, InterruptedDueToReplStateChange.
    ["(10107)", "(189)", "(11602)"].iter().any(|code| refusal.contains(code))
}
