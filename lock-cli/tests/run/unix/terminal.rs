//! At a terminal: a shell with job control runs the program, as for a user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use std::{str, thread};

use lock_test_servers::Owned;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::OnServer;
use super::call::{LIMIT, eventually, lock};
use super::waits::hold;

pub(crate) const CASES: &[OnServer] = &[
    ("the command reads from the terminal, and Ctrl-C ends it", interrupted),
    ("Ctrl-Z stops the command and the program, and fg continues both", stopped),
    ("a command that was stopped for longer than its lease is killed", stopped_too_long),
    ("a command that is killed leaves the terminal as it was", modes),
    ("a waiter sees the holder", waiting),
    ("a waiter sees the holder on fifty columns", narrow),
    ("a wait goes on when the terminal changes its size", resized),
    ("Ctrl-C ends a wait and leaves a clean line for the prompt", wait_interrupted),
    ("a holder in the background of a shell goes on without its terminal", in_background),
    // Proves: run-unread
    ("at a terminal that Ctrl-S has stopped, waiters wait and holders hold", output_stopped),
    // Proves: run-unread
    ("a message to a terminal stops no job in the background", tostop),
];

/// A shell at a terminal of its own.
struct Session {
    terminal: File,
    shell: Child,
    screen: Arc<Screen>,
    /// The length of the screen's text that was matched so far.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    text: Mutex<String>,
    written: Condvar,
}

impl Screen {
    /// Adds what the terminal was sent. The end of a line is stored as one character; another `\r` goes back to the
    /// beginning of the line.
    fn show(&self, sent: &str) {
        let mut text = self.text.lock().unwrap();
        for c in sent.chars() {
            if c == '\n' && text.ends_with('\r') {
                text.pop();
            }
            text.push(c);
        }
    }
}

impl Session {
    fn start(server: &Owned) -> Session {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let end = || -> OwnedFd {
            rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap()
        };
        // setsid(1) makes the terminal the session's own before it starts the shell.
        let shell = Command::new("setsid")
            .args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "-i"])
            .env("PS1", "prompt> ")
            .env("TERM", "dumb")
            .env("LOCK_URL", server.url())
            .env("LOCK", env!("CARGO_BIN_EXE_lock"))
            .env_remove("LOCK_HELD")
            .stdin(Stdio::from(end()))
            .stdout(Stdio::from(end()))
            .stderr(Stdio::from(end()))
            .spawn()
            .unwrap();
        let terminal = File::from(terminal);
        let screen = Arc::<Screen>::default();
        watch(terminal.try_clone().unwrap(), screen.clone());
        let mut session = Session { terminal, shell, screen, seen: 0 };
        session.shows("prompt> ");
        session
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a command line, and waits for its echo.
    fn runs(&mut self, line: &str) {
        self.types(&format!("{line}\n"));
        // Until the shell has set the terminal for the command, input may be lost.
        self.shows(line.rsplit(' ').next().unwrap_or(line));
    }

    /// Waits until this text is on the screen, after all texts that were matched before.
    #[track_caller]
    fn shows(&mut self, what: &str) {
        let deadline = Instant::now() + LIMIT;
        let mut text = self.screen.text.lock().unwrap();
        loop {
            if let Some(at) = text[self.seen..].find(what) {
                self.seen += at + what.len();
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what:?} is not shown: {:?}", &text[self.seen..]);
            text = self.screen.written.wait_timeout(text, left).unwrap().0;
        }
    }

    /// Checks the status of the last command.
    #[track_caller]
    fn status(&mut self, status: i32) {
        self.shows("prompt> ");
        self.types("echo status=$?.\n");
        self.shows(&format!("\nstatus={status}."));
        self.shows("prompt> ");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Fails if the shell has ended. With the shell its terminal is closed, and other processes there get SIGHUP.
        let _: std::io::Result<()> = self.shell.kill();
        let _: std::io::Result<_> = self.shell.wait();
    }
}

fn watch(mut terminal: File, screen: Arc<Screen>) {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        // An error means that the session has ended.
        while let Ok(read @ 1..) = terminal.read(&mut bytes) {
            screen.show(&String::from_utf8_lossy(&bytes[..read]));
            screen.written.notify_all();
        }
    });
}

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";
const CTRL_S: &str = "\x13";
const CTRL_Q: &str = "\x11";

fn interrupted(server: &Owned) {
    let mut session = Session::start(server);
    session.runs("$LOCK run --name at-a-terminal -- sh -c 'echo ready; exec cat'");
    session.shows("\nready\n");
    session.types("hello\n");
    session.shows("hello\nhello\n");
    session.types(CTRL_C);
    session.status(130);
    assert_eq!(lock(["status", "at-a-terminal", "--on", server.url()]).finish().status, 1);
}

fn stopped(server: &Owned) {
    let mut session = Session::start(server);
    session.runs("$LOCK run --name stopped-there -- sh -c 'echo ready; exec cat'");
    session.shows("\nready\n");
    session.types("hello\n");
    session.shows("hello\nhello\n");
    session.types(CTRL_Z);
    session.shows("Stopped");
    session.shows("prompt> ");
    session.runs("fg");
    session.shows("exec cat'\n"); // bash repeats the command
    session.types("again\n");
    session.shows("again\nagain\n");
    session.types(CTRL_D);
    session.status(0);
}

fn stopped_too_long(server: &Owned) {
    let mut session = Session::start(server);
    session.runs(
        "$LOCK run --name stopped-too-long --ttl 1s -- sh -c 'sleep 100 & echo held; wait; echo lived'",
    );
    session.shows("held\n");
    session.types(CTRL_Z);
    session.shows("Stopped");
    // Another holder gets the lock, because the lease is not renewed.
    lock(["run", "--on", server.url(), "--name", "stopped-too-long", "--wait", "10s", "--", "true"])
        .finish()
        .expect(0, &[]);
    session.runs("fg");
    session.shows("\"stopped-too-long\" was lost");
    session.status(74);
}

fn modes(server: &Owned) {
    let mut session = Session::start(server);
    session.runs("$LOCK run --name modes --max-hold 1500ms --ttl 1s -- sh -c 'trap \"\" TERM; stty -echo raw; sleep 100'");
    session.shows("--max-hold");
    session.status(124);
    session.runs("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon -e isig | sort | tr '\\n' '+'");
    session.shows("echo+icanon+isig+");
}

fn waiting(server: &Owned) {
    let holder = hold(server, "waited-for", &["--label", "the nightly build", "--ttl", "6s"]);
    let mut session = Session::start(server);
    session.runs("$LOCK run --name waited-for -- echo mine");
    session.shows("lock: waiting for \"waited-for\" on redis 127.0.0.1:");
    session.shows("held by the nightly build for ");
    session.shows(" s, renewed ");
    session.shows(" s ago");
    holder.signal(Signal::TERM);
    // The line about the holder is gone when the command has the terminal.
    session.shows("\r\x1b[Kmine\n");
    session.status(0);
}

fn narrow(server: &Owned) {
    let _holder = hold(server, "waited-for on fifty", &["--label", "deploy@build-17 pid 4711 report.sh"]);
    let mut session = Session::start(server);
    let fifty = Winsize { ws_row: 24, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&session.terminal, fifty).unwrap();
    session.runs("$LOCK run --name 'waited-for on fifty' -- true");
    // Cut at the terminal's width, so that the line does not wrap.
    session.shows("\rheld by deploy@build-17 pid 4711 report.sh for ");
    session.shows("\x1b[K");
    session.types(CTRL_C);
    session.status(130);
}

/// The size is changed while the program is the terminal's group, so it gets SIGWINCH.
fn resized(server: &Owned) {
    let holder = hold(server, "resized", &[]);
    let mut session = Session::start(server);
    session.runs("\"$LOCK\" run --name resized -c 'echo has $((40 + 2))'");
    session.shows("lock: waiting for \"resized\"");
    for columns in [70, 90] {
        tcsetwinsize(&session.terminal, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
    }
    session.shows("held by");
    holder.signal(Signal::TERM);
    session.shows("has 42");
}

fn wait_interrupted(server: &Owned) {
    let _holder = hold(server, "waited-for in vain", &["--label", "the nightly build"]);
    let mut session = Session::start(server);
    session.runs("$LOCK run --name 'waited-for in vain' -- echo mine");
    session.shows("held by the nightly build for ");
    session.types(CTRL_C);
    session.shows("\r\x1b[Kprompt> ");
    session.types("echo status=$?.\n");
    session.shows("\nstatus=130.");
}

/// The shell gives a job in the background the terminal as its stdin, which it can't read.
fn in_background(server: &Owned) {
    let mut session = Session::start(server);
    session.runs("$LOCK hold in-background &");
    session.shows("held token=");
    session.types("\n");
    session.shows("prompt> ");
    assert_eq!(lock(["status", "in-background", "--on", server.url()]).finish().status, 0);
    session.types("kill $!; wait $!; echo status=$?.\n");
    session.shows("released\n");
    session.shows("status=0.");
}

fn output_stopped(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| folder.path().join(name);
    let holder = hold(server, "behind Ctrl-S", &["--label", "the first"]);
    let mut session = Session::start(server);
    // One that is ended while it waits, and one that gets the lock and holds it for several ttls.
    session.types(&format!(
        "cd {}; $LOCK run --name 'behind Ctrl-S' -- true & echo pid=$!.\n",
        folder.path().display()
    ));
    session.shows("\npid=");
    let ended: i32 = {
        let text = session.screen.text.lock().unwrap();
        let rest = &text[session.seen..];
        rest[..rest.find('.').unwrap()].parse().unwrap()
    };
    let ended = Pid::from_raw(ended).unwrap();
    session.shows("held by the first");
    session.types("$LOCK run -v --ttl 1s --name 'behind Ctrl-S' -- sh -c '>got; sleep 3; >kept'\n");
    session.shows(">kept'\n");
    session.shows("held by the first");
    session.types(CTRL_S);
    // Until both have said more than the terminal takes.
    thread::sleep(Duration::from_secs(3));
    kill_process(ended, Signal::TERM).unwrap();
    eventually("a signal ends the wait", || !waits_as(ended));
    holder.signal(Signal::TERM);
    eventually("the command runs", || made("got").exists());
    eventually("the command ends", || made("kept").exists());
    session.types(CTRL_Q);
    session.shows("acquired \"behind Ctrl-S\"");
    session.status(0);
}

/// Returns whether this process is there, and not only its status.
fn waits_as(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.starts_with(" Z")))
}

fn tostop(server: &Owned) {
    let mut session = Session::start(server);
    session.runs("stty tostop");
    session.shows("prompt> ");
    session.runs("$LOCK run -v --ttl 1s --name tostop -- sleep 3 &");
    session.shows("acquired \"tostop\"");
    session.types("wait $!; echo status=$?.\n");
    session.shows("\nstatus=0.");
}
