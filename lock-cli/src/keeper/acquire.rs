//! `lock acquire`: starts the keeper and waits until it has the lock.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{self, Pid, getppid, kill_process};
use tokio::net::UnixStream;

use super::answer::Answer;
use super::handle::{Handle, variable};
use super::hold::KEEP;
use super::order::Order;
use super::socket::{connect, read_line, write_line};
use crate::args::{Acquire, Parent};
use crate::exit::{Exit, Failure};
use crate::os::{Signals, own_program};
use crate::print;

impl Acquire {
    /// Returns when the lock is acquired and the answer is printed, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        if self.terms.ask.conflict_exit_code == 0 {
            let what = "-E 0 would let the steps run without the lock: give lock acquire another status";
            return Err(Failure::new(Exit::Usage, what));
        }
        self.refuse_second().await?;
        let outcome = match self.lease {
            Some(lease) => self.leave_to(lease).await,
            None => self.by_a_keeper().await,
        };
        outcome.or_else(|failure| failure.unless_quiet(self.terms.voice()))
    }

    /// Refuses a lock that this job holds already: its second step would wait for its first, or hide its handle.
    async fn refuse_second(&self) -> Result<(), Failure> {
        let name = &self.terms.name;
        // Not a handle that is damaged either: it is replaced.
        let Ok(Some(Handle::Keeper(keeper))) = Handle::of_environment(name) else { return Ok(()) };
        // One that can't be asked has not ended.
        if matches!(connect(&keeper).await, Ok(None)) {
            return Ok(());
        }
        let variable = variable(name);
        let what = format!(
            "{name:?} is acquired for this job already, by the keeper of ${variable}; for a lock of this name on another \
             server, unset {variable}"
        );
        Err(Failure::new(Exit::Usage, what))
    }

    async fn by_a_keeper(&self) -> Result<Exit, Failure> {
        let parent = self.parent()?;
        // Before signals are caught: to read the URL from a pipe may take its time.
        let order =
            Order { parent, url: self.terms.ask.server.url()?, args: std::env::args_os().skip(1).collect() };
        let mut signals = Signals::listen()?;
        let (mut keeper, channel) = start(&order)?;
        let gone = |e| Failure::of_system("the keeper's end can't be seen", &e);
        let line = tokio::select! {
            biased;
            signal = signals.next() => {
                // The keeper withdraws, and leaves nothing on the server. It may have been stopped.
                drop(channel);
                let _: rustix::io::Result<()> = kill_process(Pid::from_child(&keeper), process::Signal::CONT);
                keeper.wait().map_err(gone)?;
                return Ok(Exit::Signal(signal.number()));
            }
            line = read_line(&channel) => line.map_err(unheard)?,
        };
        let Some(answer) = Answer::parse(&line) else {
            // The keeper has said why, on our stderr.
            let status = keeper.wait().map_err(gone)?;
            return Ok(status.code().map_or(Exit::System, Exit::Status));
        };
        if self.parent.is_none() && own_parent().ok() != Some(parent) {
            return Err(Failure::new(Exit::System, "the process that has started lock acquire has ended"));
        }
        // If it fails, the channel is closed, and the keeper releases the lock.
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            told = self.tell(&answer) => told?,
        }
        write_line(&channel, "").await.map_err(unheard)?;
        Ok(Exit::Status(0))
    }

    /// Returns the process whose end ends the hold.
    fn parent(&self) -> Result<Parent, Failure> {
        match (self.parent, self.terms.max_hold) {
            (Some(Parent::None), None) => {
                Err(Failure::new(Exit::Usage, "with --parent none, --max-hold must say when the hold ends"))
            }
            (Some(parent), _) => Ok(parent),
            (None, _) => own_parent(),
        }
    }

    pub(super) async fn tell(&self, answer: &Answer) -> Result<(), Failure> {
        let name = &self.terms.name;
        match self.json {
            true => print::answer(answer.for_a_program(name)).await,
            false => print::answer(answer.for_a_shell(name)).await,
        }
    }
}

fn unheard(error: std::io::Error) -> Failure {
    Failure::of_system("the keeper can't be heard", &error)
}

/// Returns the process that has started this one.
fn own_parent() -> Result<Parent, Failure> {
    let parent = getppid().map(|pid| Parent::Process(pid.as_raw_nonzero().get().unsigned_abs()));
    parent.ok_or_else(|| {
        let what =
            "the process that has started this command is outside of this PID namespace; give --parent";
        Failure::new(Exit::Usage, what)
    })
}

/// Starts the keeper. Until it has the lock it may write to our stderr.
fn start(order: &Order) -> Result<(Child, UnixStream), Failure> {
    let not_started = |e| Failure::of_system("the keeper's process can't be started", &e);
    let (ours, theirs) = Socket::pair().map_err(not_started)?;
    let program = own_program().map_err(not_started)?;
    let keeper = Command::new(program)
        .arg0("lock")
        .arg(KEEP)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .map_err(not_started)?;
    order.send(&ours).and_then(|()| ours.set_nonblocking(true)).map_err(not_started)?;
    Ok((keeper, UnixStream::from_std(ours).map_err(not_started)?))
}
