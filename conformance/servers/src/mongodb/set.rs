//! A replica set of three members, which can be killed and stopped one by one.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use bson::{Document, doc};

use super::super::cluster::{self, Cluster};
use super::super::owned::Owned;
use super::super::requirement::Absence;
use super::super::server_url::connect;
use super::super::settings::Settings;
use super::wire::{self, is};
use super::{ELECTION, MongoDb, PORT, SET, ask, initiate};

impl MongoDb {
    /// Starts three servers, makes a set of them, and waits until it has a primary.
    ///
    /// # Errors
    ///
    /// If MongoDB is missing or does not start, or if no primary is elected in time.
    pub fn set(settings: &Settings) -> Result<Cluster, Absence> {
        let settings = settings.clone().and(&["--replSet", SET]);
        let members = cluster::start(&MongoDb::Standalone, &cluster::three(&settings, None))?;
        let set = Cluster {
            url: format!("mongodb://{}/?replicaSet={SET}", cluster::addresses(&members)),
            members,
            leads: |member| hello(member).is_ok_and(|hello| is(&hello, "isWritablePrimary")),
            serves: |member| {
                let follows = |hello: Document| is(&hello, "isWritablePrimary") || is(&hello, "secondary");
                hello(member).is_ok_and(follows)
            },
            _ports: Vec::new(),
        };
        let begin = || {
            let ports: Vec<u16> = set.members.iter().map(Owned::port).collect();
            initiate(&mut connect(&set.members[0].own_url(), PORT, ELECTION)?, &ports)?;
            set.leader()
        };
        begin().map_err(|e| Absence::Failure(format!("no replica set: {e}")))?;
        Ok(set)
    }

    /// Makes the primary step down for at least `pause`, and returns which member that was. Its successor is not
    /// elected yet.
    ///
    /// # Errors
    ///
    /// If no primary steps down in time.
    pub fn step_down(set: &Cluster, pause: Duration) -> io::Result<usize> {
        let seconds = i32::try_from(pause.as_secs().max(2)).map_err(io::Error::other)?;
        let command = doc! { "replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 1, "force": true };
        let deadline = Instant::now() + ELECTION;
        loop {
            let primary = set.leader()?;
            let mut stream = connect(&set.members[primary].own_url(), PORT, ELECTION)?;
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
    ask(&member.own_url(), doc! { "hello": 1 })
}

/// Returns whether a member refused because it is no longer the primary.
fn is_no_primary(refusal: &io::Error) -> bool {
    let refusal = refusal.to_string();
    // NotWritablePrimary, PrimarySteppedDown, InterruptedDueToReplStateChange.
    ["(10107)", "(189)", "(11602)"].iter().any(|code| refusal.contains(code))
}
