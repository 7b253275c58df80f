//! A server starts, and can be killed, stopped and configured.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use lock_conformance::{Data, Step};
use lock_test_servers::{self as servers, Clock, Owned, Persistence, Server, Settings};

use crate::subjects::{self, Subject};
use crate::{LIMIT, Stop, refuses};

pub(crate) fn answers(on: &'static dyn Subject) -> Result<(), Stop> {
    let settings = Settings {
        args: on.arguments().iter().map(|&argument| argument.to_owned()).collect(),
        ..Settings::default()
    };
    let server = Server::Owned(Box::new(Owned::start(on.product(), &settings)?));
    assert_eq!(on.connect(server.url())?.setting()?, "77");

    let owned = server.owned().expect("it was started here");
    assert!(owned.socket().is_some_and(|socket| socket.exists()), "it has no socket");
    let text = server.to_string();
    assert!(text.contains(server.version()) && text.contains("started from /"), "{text}");
    let (name, version) = server.version().split_once(' ').unwrap_or_default();
    assert!(!name.is_empty() && version.starts_with(char::is_numeric), "{text}");
    Ok(())
}

pub(crate) fn two_servers(on: &'static dyn Subject) -> Result<(), Stop> {
    let (one, two) = (on.start()?, on.start()?);
    on.connect(one.url())?.store()?;
    assert!(!on.connect(two.url())?.stored()?);
    Ok(())
}

pub(crate) fn files(on: &'static dyn Subject) -> Result<(), Stop> {
    let file = ("secret".to_owned(), b"of the server's".to_vec());
    let settings = Settings { files: vec![file], ..Settings::default() };
    let server = Owned::start(on.product(), &settings)?;
    server.restart(Data::Lost)?;
    let path = server.data().join("secret");
    assert_eq!(fs::read(&path)?, b"of the server's");
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (file, folder) = (fs::metadata(&path)?, fs::metadata(server.data())?);
        assert_eq!((file.mode() & 0o777, file.uid()), (0o600, folder.uid()));
    }
    Ok(())
}

/// Also checks a connection that was opened before.
pub(crate) fn pause(on: &'static dyn Subject) -> Result<(), Stop> {
    let server = on.start()?;
    let mut session = on.connect(server.url())?;
    for _ in 0..3 {
        server.pause()?;
        let (tell, told) = channel();
        let asking = thread::spawn(move || {
            let answer = session.stored();
            let _ = tell.send(());
            (session, answer)
        });
        let silence = told.recv_timeout(Duration::from_millis(200));
        assert_eq!(silence, Err(RecvTimeoutError::Timeout), "a stopped server can't answer");
        server.resume()?;
        told.recv_timeout(LIMIT).expect("resumed, it answers");
        let (back, answer) = asking.join().expect("the thread does not panic");
        assert!(!answer?);
        session = back;
    }
    Ok(())
}

pub(crate) fn kill_kept(on: &'static dyn Subject) -> Result<(), Stop> {
    let server = on.start()?;
    on.connect(server.url())?.store()?;
    let before = (server.process_id(), server.port());
    server.kill()?;
    assert!(refuses(server.port()), "killed, it still listens");
    assert_eq!(server.process_id(), None);
    assert!(server.kill().is_err() && server.pause().is_err(), "a dead server can't be killed or paused");
    server.restart(Data::Kept)?;
    assert!(on.connect(server.url())?.stored()?);
    assert!(server.process_id().is_some() && server.process_id() != before.0 && server.port() == before.1);
    Ok(())
}

pub(crate) fn kill_lost(on: &'static dyn Subject) -> Result<(), Stop> {
    let server = on.start()?;
    let mut session = on.connect(server.url())?;
    session.store()?;
    server.kill()?;
    assert!(session.stored().is_err(), "a part of it still serves a connection");
    server.restart(Data::Lost)?;
    assert!(!on.connect(server.url())?.stored()?);
    Ok(())
}

pub(crate) fn stop_kept(on: &'static dyn Subject) -> Result<(), Stop> {
    let server = on.start()?;
    // A server that would wait for its clients would never end.
    let mut session = on.connect(server.url())?;
    session.store()?;
    server.stop()?;
    assert!(refuses(server.port()), "stopped, it still listens");
    let log = fs::read_to_string(server.folder().join("log"))?;
    assert!(log.contains(on.goodbye()), "it was not asked to end: {log}");
    server.restart(Data::Kept)?;
    assert!(on.connect(server.url())?.stored()?);
    Ok(())
}

/// Checks that a server does not start at a taken port, whatever answers there.
pub(crate) fn taken_port(on: &'static dyn Subject) -> Result<(), Stop> {
    let (server, other) = (on.start()?, on.start()?);
    server.kill()?;
    // Another server of the same product, so that a check that only asked at the port would find nothing wrong.
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, server.port()))?;
    let there = (Ipv4Addr::LOCALHOST, other.port());
    // The thread ends with this program.
    thread::spawn(move || {
        taken.incoming().try_for_each(|client| relay(&client?, &TcpStream::connect(there)?))
    });
    on.connect(server.url())?;
    assert!(server.restart(Data::Kept).is_err(), "it can't serve at a port that another has");
    Ok(())
}

/// Carries the data of each connection to the other one, on new threads.
fn relay(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    for (from, to) in [(one, other), (other, one)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || io::copy(&mut from, &mut to));
    }
    Ok(())
}

pub(crate) fn no_persistence(on: &'static dyn Subject) -> Result<(), Stop> {
    let settings = Settings { persistence: Persistence::None, ..Settings::default() };
    let server = Owned::start(on.product(), &settings)?;
    on.connect(server.url())?.store()?;
    assert!(server.restart(Data::Kept).is_err(), "there is nothing to keep");
    server.restart(Data::Lost)?;
    assert!(!on.connect(server.url())?.stored()?);
    Ok(())
}

pub(crate) fn own_clock(on: &'static dyn Subject) -> Result<(), Stop> {
    if let Err(why) = servers::clock::can_be_set() {
        return Err(Stop::NotRun(why));
    }
    const HOUR: Duration = Duration::from_secs(3600);
    let settings = Settings { clock: Clock::Own, ..Settings::default() };
    let server = Owned::start(on.product(), &settings)?;
    server.step_clock(Step::Back(HOUR))?;
    let back = on.product().time(server.url())?;
    assert!(back < SystemTime::now() - HOUR / 2, "an hour back, it says {back:?}");
    server.step_clock(Step::Forward(HOUR * 2))?;
    server.restart(Data::Kept)?;
    let ahead = on.product().time(server.url())?;
    assert!(ahead > SystemTime::now() + HOUR / 2, "a restart sets no clock, and it says {ahead:?}");
    assert!(on.start()?.step_clock(Step::Forward(HOUR)).is_err(), "the machine's clock is not ours to set");
    Ok(())
}

pub(crate) fn cannot_be_stopped(on: &'static dyn Subject) -> Result<(), Stop> {
    let server = on.start()?;
    let url = on.with_password(server.url())?;
    let mut child = subjects::start("given", on, Some(&url))?;
    let mut said = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut said)?;
    assert!(child.wait()?.success(), "{said}");
    let variable = on.product().listing().variable;
    assert!(said.contains(&format!("given by {variable}")) && !said.contains(subjects::PASSWORD), "{said}");
    Ok(())
}
