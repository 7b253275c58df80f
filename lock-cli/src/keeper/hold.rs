//! The keeper: the process that holds the lock of `lock acquire`.

use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::time::Duration;

use clap::Parser;
use onelock::{Client, Clock, Ending, Guard, Instant, LossReason, Random};
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::answer::Answer;
use super::handle::{Handle, KeeperHandle, are_equal, bytes, hex};
use super::order::Order;
use super::parent::Watched;
use super::socket::{Listening, read_line, write_line};
use crate::acquisition::held::{self, LockIdentity};
use crate::acquisition::{Acquisition, LAST_REQUESTS, Notice, server};
use crate::args::{Acquire, Args, Parent, Verb};
use crate::exit::{About, Exit, Failure};
use crate::look::millis;
use crate::os::{self, Signals};
use crate::print;

/// The first argument of this inner call.
pub(crate) const KEEP: &str = "__keep";

/// The time that a caller may take to say what it wants.
const REQUEST: Duration = Duration::from_secs(5);
/// The number of callers that are heard at a time. The others wait.
const MOST_CALLERS: usize = 64;
/// The pause after an error of `accept`, such as that this process has no descriptor left.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Becomes the keeper that `lock acquire` wants. Ends when the lock is released.
pub(crate) fn keep() -> Result<Exit, Failure> {
    os::detach();
    let (Some(order), Ok(socket)) = (Order::receive(stdin()), stdin().as_fd().try_clone_to_owned()) else {
        return Err(internal());
    };
    let args = [std::ffi::OsString::from("lock")].into_iter().chain(order.args);
    let Ok(Args { verb: Verb::Acquire(acquire) }) = Args::try_parse_from(args) else {
        return Err(internal());
    };
    let no_runtime = |e| Failure::of_system("the keeper's runtime can't be started", &e);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    let outcome = runtime.block_on(async {
        let socket = Socket::from(socket);
        let front = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket));
        let keeper =
            Keeper { acquire: &acquire, parent: order.parent, handle: KeeperHandle::new(&Random::system()) };
        keeper.run(&order.url, front.map_err(no_runtime)?).await
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
    handle: KeeperHandle,
}

/// The next event that the keeper waits for while it holds.
enum Next {
    Lost(LossReason),
    /// The parent has ended, a signal came, or the hold without a parent is over.
    End,
    /// The caller on this connection asks for the release.
    Asked(UnixStream),
}

impl Keeper<'_> {
    async fn run(&self, url: &str, front: UnixStream) -> Result<Exit, Failure> {
        let parent = Watched::start(self.parent)?;
        // Before the grant: a keeper that can't be asked must not hold.
        let listening = Listening::at(&self.handle)?;
        let terms = &self.acquire.terms;
        let acquisition = terms.begin(Notice::of(terms.voice()))?;
        let client = tokio::select! {
            biased;
            end = self.withdrawn(&front, &parent) => return end,
            client = acquisition.connect(url, terms.options("acquire")) => client?,
        };
        let identity = LockIdentity::of(&client, url, &terms.name)?;
        held::refuse_nested(&identity, &client).await?;
        let outcome = self.with_client(&client, &identity, &acquisition, &listening, front, &parent).await;
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    async fn with_client(
        &self,
        client: &Client,
        identity: &LockIdentity,
        acquisition: &Acquisition<'_>,
        listening: &Listening,
        front: UnixStream,
        parent: &Watched,
    ) -> Result<Exit, Failure> {
        let lock = self.acquire.terms.lock(client, acquisition.left())?;
        let server = server(client);
        let guard = tokio::select! {
            biased;
            end = self.withdrawn(&front, parent) => return end,
            guard = acquisition.acquire(&lock, &server) => guard?,
        };
        let until = match self.parent {
            Parent::Process(_) => None,
            Parent::None => self.acquire.terms.max_hold.map(|most| acquisition.clock().now() + most),
        };
        let held = held::lines(identity, client, guard.token());
        let handle = Handle::Keeper(self.handle.clone());
        let answer = Answer {
            pid: Some(std::process::id()),
            ..Answer::new(guard.token(), guard.valid_for(), &handle, held)
        };
        // Dropped, the guard releases the lock.
        let is_taken = tokio::select! {
            biased;
            taken = is_taken(&front, &answer) => taken,
            // `lock acquire` is stopped, and may never go on.
            () = parent.ended() => false,
            () = at(until, acquisition.clock()) => false,
        };
        if !is_taken {
            return Ok(Exit::Lost);
        }
        drop(front);
        // The last moment in which this process has something of the job's: its stderr, and its working folder.
        tokio::task::spawn_blocking(print::finish).await.about("the thread that waits for messages")?;
        let given_up = os::close_stderr().and_then(|()| std::env::set_current_dir("/"));
        given_up.map_err(|e| Failure::of_system("the job's stderr and folder can't be given up", &e))?;
        self.hold(guard, acquisition.clock(), &listening.listener, parent, until).await
    }

    /// Waits until `lock acquire` or the parent has gone. Until the grant `lock acquire` sends nothing.
    async fn withdrawn(&self, front: &UnixStream, parent: &Watched) -> Result<Exit, Failure> {
        tokio::select! {
            biased;
            // There is no reader of the status.
            _ = read_line(front) => Ok(Exit::Lost),
            () = parent.ended() => {
                let what = format!("{:?} is not acquired: its parent has ended", self.acquire.terms.name);
                Err(Failure::new(Exit::Usage, what))
            }
        }
    }

    /// Holds the lock until a caller asks for its release, the parent ends, or a signal comes. A lock that was lost is
    /// kept in mind, to be told.
    async fn hold(
        &self,
        guard: Guard,
        clock: &Clock,
        listener: &UnixListener,
        parent: &Watched,
        until: Option<Instant>,
    ) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let (mut guard, mut lost) = (Some(guard), None);
        // Each is heard in a task of its own: one that says nothing keeps the keeper from nothing.
        let mut callers = JoinSet::new();
        loop {
            let next = tokio::select! {
                biased;
                reason = loss(guard.as_ref()), if lost.is_none() => Next::Lost(reason),
                () = parent.ended() => Next::End,
                () = at(until, clock) => Next::End,
                signal = signals.next() => match signal.asks_to_end() {
                    true => Next::End,
                    false => continue,
                },
                Some(heard) = callers.join_next() => match heard {
                    Ok(Some(caller)) => Next::Asked(caller),
                    _ => continue,
                },
                caller = next_caller(listener, clock), if callers.len() < MOST_CALLERS => {
                    let (name, handle) = (self.acquire.terms.name.to_string(), self.handle.clone());
                    let clock = clock.clone();
                    callers.spawn(async move { hear(caller, &name, &handle, &clock).await });
                    continue;
                }
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
                Next::Asked(caller) => return self.answer(guard, lost, &caller).await,
            }
        }
    }

    /// Releases the lock, and says whether it was held all the time. Says first who answers, and how long it may take.
    async fn answer(
        &self,
        guard: Option<Guard>,
        lost: Option<LossReason>,
        caller: &UnixStream,
    ) -> Result<Exit, Failure> {
        let within = guard.as_ref().map_or(Duration::ZERO, Guard::valid_for);
        let heard = json!({ "proof": hex(&self.handle.answer), "within_ms": millis(within) });
        // This and the answer fail if the caller has gone. The lock is released all the same.
        let _: io::Result<()> = write_line(caller, &heard.to_string()).await;
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
        let _: io::Result<()> = write_line(caller, &answer.to_string()).await;
        Ok(Exit::Status(0))
    }
}

/// Tells `lock acquire` the answer. Returns true when it has printed that, false if it has gone before.
async fn is_taken(front: &UnixStream, answer: &Answer) -> bool {
    if write_line(front, &answer.to_line()).await.is_err() {
        return false;
    }
    let mut byte = [0];
    loop {
        match front.readable().await.and_then(|()| front.try_read(&mut byte)) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            read => return matches!(read, Ok(1)),
        }
    }
}

async fn loss(guard: Option<&Guard>) -> LossReason {
    match guard {
        Some(guard) => guard.lost().await,
        None => std::future::pending().await,
    }
}

async fn at(until: Option<Instant>, clock: &Clock) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn next_caller(listener: &UnixListener, clock: &Clock) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((caller, _)) => return caller,
            Err(_) => clock.sleep(AFTER_ERROR).await,
        }
    }
}

/// Returns the caller if it has the handle and asks for the release. Any process of the machine may call.
async fn hear(caller: UnixStream, name: &str, handle: &KeeperHandle, clock: &Clock) -> Option<UnixStream> {
    let asked = clock.timeout(REQUEST, read_line(&caller)).await?.ok()?;
    let asked: Value = serde_json::from_str(&asked).ok()?;
    let question = bytes(asked["question"].as_str()?)?;
    if !are_equal(&question, &handle.question) {
        return None;
    }
    if asked["name"] == name {
        return Some(caller);
    }
    let heard = json!({ "proof": hex(&handle.answer), "within_ms": 0 });
    let refused =
        json!({ "status": Exit::Usage.code(), "message": format!("the handle is that of {name:?}") });
    // Fails if the caller has gone.
    let _: io::Result<()> = write_line(&caller, &format!("{heard}\n{refused}")).await;
    None
}
