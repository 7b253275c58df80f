//! The keeper: the process that holds the lock of `lock acquire`.

use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::time::Duration;

use clap::Parser;
use onelock::{Client, Ending, Guard, Instant, LossReason};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::runtime::Builder;

use super::order::{Granted, Order, read_line, write_line};
use super::parent::Watched;
use super::rendezvous::{Listening, Rendezvous, connect};
use crate::acquisition::held::{self, Place};
use crate::acquisition::{Acquisition, LAST_REQUESTS, Notice, server};
use crate::args::{Acquire, Args, Parent, Verb};
use crate::exit::{Exit, Failure};
use crate::os::{self, Signals};
use crate::print;

/// The first argument of this inner call.
pub(crate) const KEEP: &str = "__keep";

/// How long a caller may take to say what it wants.
const REQUEST: Duration = Duration::from_secs(5);

/// Becomes the keeper that `lock acquire` wants. Ends when the lock is released.
pub(crate) fn keep() -> Result<Exit, Failure> {
    os::detach();
    let (Some(order), socket) = (Order::receive(stdin()), stdin().as_fd().try_clone_to_owned()?) else {
        return Err(internal());
    };
    let args = [std::ffi::OsString::from("lock")].into_iter().chain(order.args);
    let Ok(Args { verb: Verb::Acquire(acquire) }) = Args::try_parse_from(args) else {
        return Err(internal());
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let socket = Socket::from(socket);
        socket.set_nonblocking(true)?;
        Keeper { acquire: &acquire, parent: order.parent }.run(UnixStream::from_std(socket)?).await
    });
    runtime.shutdown_background();
    outcome.or_else(|failure| failure.unless_quiet(acquire.terms.voice()))
}

fn internal() -> Failure {
    Failure::new(Exit::Usage, format!("{KEEP} is an internal call of lock; see lock acquire --help"))
}

struct Keeper<'a> {
    acquire: &'a Acquire,
    parent: Parent,
}

/// What the keeper waits for while it holds.
enum Next {
    Lost(LossReason),
    /// The parent has ended, a signal came, or the hold without a parent is over.
    End,
    Asked(UnixStream),
}

impl Keeper<'_> {
    async fn run(&self, front: UnixStream) -> Result<Exit, Failure> {
        let parent = Watched::start(self.parent)?;
        let terms = &self.acquire.terms;
        let url = terms.ask.server.url()?;
        let rendezvous = Rendezvous::of(&url, &terms.name)?;
        self.refuse_second(&rendezvous)?;
        let acquisition = terms.begin(Notice::of(terms.voice()))?;
        let client = tokio::select! {
            biased;
            () = withdrawn(&front, &parent) => return Ok(Exit::Lost),
            client = acquisition.connect(&url, terms.options("acquire")) => client?,
        };
        held::refuse_nested(&Place::of(&client, &url, &terms.name)?, &client)?;
        let outcome = self.with_client(&client, &acquisition, &rendezvous, front, &parent).await;
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    /// Refuses a lock that this parent holds already: its second step would wait for its first.
    fn refuse_second(&self, rendezvous: &Rendezvous) -> Result<(), Failure> {
        let Parent::Process(parent) = self.parent else { return Ok(()) };
        for socket in rendezvous.of_parent(self.parent)? {
            if connect(&socket)?.is_some() {
                let name = &self.acquire.terms.name;
                let what = format!("{name:?} is acquired for the process {parent} already");
                return Err(Failure::new(Exit::Usage, what));
            }
        }
        Ok(())
    }

    async fn with_client(
        &self,
        client: &Client,
        acquisition: &Acquisition<'_>,
        rendezvous: &Rendezvous,
        front: UnixStream,
        parent: &Watched,
    ) -> Result<Exit, Failure> {
        let lock = self.acquire.terms.lock(client, acquisition.left())?;
        let server = server(client);
        let guard = tokio::select! {
            biased;
            () = withdrawn(&front, parent) => return Ok(Exit::Lost),
            guard = acquisition.acquire(&lock, &server) => guard?,
        };
        let until = match self.parent {
            Parent::Process(_) => None,
            Parent::None => self.acquire.terms.max_hold.map(|most| acquisition.clock().now() + most),
        };
        let listening = rendezvous.listen(self.parent, guard.owner())?;
        let granted = Granted::new(guard.token(), guard.valid_for(), listening.path.as_os_str());
        write_line(&front, &granted.to_json().to_string()).await?;
        if !is_taken(&front).await? {
            return Ok(Exit::Lost); // dropped, the guard releases the lock
        }
        drop(front);
        // The last moment in which this process has something of the job's open: its stderr.
        tokio::task::spawn_blocking(print::finish).await.map_err(io::Error::from)?;
        os::close_stderr()?;
        self.hold(guard, acquisition, &listening, parent, until).await
    }

    /// Holds the lock until a caller asks for its release, the parent ends, or a signal comes. A lock that was lost is
    /// kept in mind, to be told.
    async fn hold(
        &self,
        guard: Guard,
        acquisition: &Acquisition<'_>,
        listening: &Listening,
        parent: &Watched,
        until: Option<Instant>,
    ) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let (mut guard, mut lost) = (Some(guard), None);
        loop {
            let next = tokio::select! {
                biased;
                reason = loss(guard.as_ref()), if lost.is_none() => Next::Lost(reason),
                () = parent.ended() => Next::End,
                () = at(until, acquisition) => Next::End,
                signal = signals.next() => match signal.asks_to_end() {
                    true => Next::End,
                    false => continue,
                },
                caller = listening.listener.accept() => Next::Asked(caller?.0),
            };
            match next {
                Next::Lost(reason) => {
                    lost = Some(reason);
                    // The time is over, and the name goes to others. After any other loss the guard stays: while the
                    // steps may go on, what is left of the lease keeps others away.
                    if reason == LossReason::MaxHold {
                        guard = None;
                    }
                }
                Next::End => {
                    if let Some(guard) = guard {
                        guard.release().await;
                    }
                    return Ok(Exit::Status(0));
                }
                Next::Asked(caller) => {
                    if asks_for_release(&caller, acquisition).await {
                        return self.answer(guard, lost, &caller).await;
                    }
                }
            }
        }
    }

    /// Releases the lock, and says whether it was held all the time.
    async fn answer(
        &self,
        guard: Option<Guard>,
        lost: Option<LossReason>,
        caller: &UnixStream,
    ) -> Result<Exit, Failure> {
        let ending = match guard {
            Some(guard) => guard.release().await,
            None => Ending::Expired,
        };
        let failure = match (lost, ending) {
            (None, Ending::Released) => None,
            (lost, _) => Some(self.acquire.terms.lost(lost.unwrap_or(LossReason::Expired))),
        };
        let answer = match &failure {
            None => json!({ "status": 0 }),
            Some(failure) => json!({ "status": failure.exit().code(), "message": failure.to_string() }),
        };
        // Fails if the caller has gone. The lock is released all the same.
        let _: io::Result<()> = write_line(caller, &answer.to_string()).await;
        Ok(Exit::Status(0))
    }
}

/// Waits until `lock acquire` or the parent has gone. Until the grant `lock acquire` sends nothing.
async fn withdrawn(front: &UnixStream, parent: &Watched) {
    tokio::select! {
        biased;
        _ = read_line(front) => {}
        () = parent.ended() => {}
    }
}

/// Whether `lock acquire` has printed the answer; false if it has gone before.
async fn is_taken(front: &UnixStream) -> io::Result<bool> {
    let mut byte = [0];
    loop {
        front.readable().await?;
        match front.try_read(&mut byte) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            read => return Ok(read? == 1),
        }
    }
}

async fn loss(guard: Option<&Guard>) -> LossReason {
    match guard {
        Some(guard) => guard.lost().await,
        None => std::future::pending().await,
    }
}

async fn at(until: Option<Instant>, acquisition: &Acquisition<'_>) {
    match until {
        Some(until) => acquisition.clock().sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Whether the caller asks for the release. `lock acquire` only looks whether there is a keeper.
async fn asks_for_release(caller: &UnixStream, acquisition: &Acquisition<'_>) -> bool {
    let request = acquisition.clock().timeout(REQUEST, read_line(caller)).await;
    matches!(request, Some(Ok(line)) if line == super::release::REQUEST)
}
