//! The servers that the suite runs on, tested themselves: each harm really happens, and nothing is left behind.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lock_conformance::servers::{
    self, Absence, Clock, Ended, Holder, Owned, Persistence, Program, Redis, Server, Settings, Wait,
    catalogue, record,
};
use lock_conformance::{Data, Step};

/// Long enough for any machine; only a failing case takes it.
const LIMIT: Duration = Duration::from_secs(20);
/// The part that this program plays when a case starts it once more.
const PART: &str = "LOCK_TEST_SERVERS_PART";

type Case = fn() -> Result<(), Stop>;

/// Why a case ended early.
enum Stop {
    NotRun(String),
    Failed(Failed),
}

impl From<Absence> for Stop {
    fn from(absence: Absence) -> Stop {
        match absence {
            Absence::NotRun(why) => Stop::NotRun(why),
            Absence::Failure(why) => Stop::Failed(why.into()),
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Failed(error.into())
    }
}

impl From<redis::RedisError> for Stop {
    fn from(error: redis::RedisError) -> Stop {
        Stop::Failed(error.into())
    }
}

fn main() {
    match env::var(PART).as_deref() {
        Ok("abandon") => return abandon(),
        Ok("given") => return given(),
        _ => {}
    }
    let cases: [(&str, Case); 12] = [
        ("a_started_server_answers_at_its_url_and_its_socket", answers),
        ("two_servers_are_two", two_servers),
        ("a_paused_server_answers_when_it_is_resumed", pause),
        ("a_killed_server_restarts_with_its_data", kill_kept),
        ("a_killed_server_restarts_without_its_data", kill_lost),
        ("a_stopped_server_restarts_with_its_data", stop_kept),
        ("a_server_without_persistence_keeps_nothing", no_persistence),
        ("a_server_with_a_clock_of_its_own_goes_by_it", own_clock),
        ("a_drop_or_a_panic_leaves_neither_process_nor_folder", nothing_left),
        ("a_killed_test_leaves_neither_process_nor_folder", nothing_left_by_the_killed),
        ("a_given_server_cannot_be_hurt", cannot_be_hurt),
        ("a_holder_is_a_process_like_any_other", holder),
    ];
    let trials = cases.map(|(name, case)| {
        Trial::ignorable_test(name, move || match case() {
            Ok(()) => Ok(Completion::Completed),
            Err(Stop::NotRun(why)) => {
                record::not_run(name, &why);
                Ok(Completion::ignored_with(why))
            }
            Err(Stop::Failed(failed)) => Err(failed),
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn start() -> Result<Owned, Absence> {
    Owned::start(&Redis, &Settings::default())
}

fn answers() -> Result<(), Stop> {
    let settings = Settings { args: ["--maxclients", "77"].map(str::to_owned).into(), ..Settings::default() };
    let server = Server::Owned(Box::new(Owned::start(&Redis, &settings)?));
    let mut connection = connect(server.url())?;
    let (_, limit): (String, String) =
        redis::cmd("CONFIG").arg("GET").arg("maxclients").query(&mut connection)?;
    assert_eq!(limit, "77");

    let owned = server.owned().expect("it was started here");
    let socket = owned.socket().expect("Redis has one");
    connect(&format!("redis+unix://{}", socket.display()))?;
    let text = server.to_string();
    assert!(text.contains(server.version()) && text.contains("started from /"), "{text}");
    assert!(server.version().split(' ').nth(1).is_some_and(|version| version.contains('.')), "{text}");
    Ok(())
}

fn two_servers() -> Result<(), Stop> {
    let (one, two) = (start()?, start()?);
    set(&mut connect(one.url())?)?;
    assert_eq!(get(&mut connect(two.url())?)?, None);
    Ok(())
}

fn pause() -> Result<(), Stop> {
    let server = start()?;
    let mut connection = connect(server.url())?;
    connection.set_read_timeout(Some(Duration::from_millis(200)))?;
    for _ in 0..3 {
        server.pause()?;
        let late = redis::cmd("PING").exec(&mut connection).expect_err("a stopped server can't answer");
        assert!(late.is_timeout(), "{late}");
        server.resume()?;
        connection = connect(server.url())?;
        connection.set_read_timeout(Some(Duration::from_millis(200)))?;
        redis::cmd("PING").exec(&mut connection)?;
    }
    Ok(())
}

fn kill_kept() -> Result<(), Stop> {
    let server = start()?;
    set(&mut connect(server.url())?)?;
    let before = (server.process_id(), server.port());
    server.kill()?;
    assert!(refuses(server.port()), "killed, it still listens");
    assert_eq!(server.process_id(), None);
    assert!(server.kill().is_err() && server.pause().is_err(), "a dead server can't be hurt");
    server.restart(Data::Kept)?;
    assert_eq!(get(&mut connect(server.url())?)?.as_deref(), Some("value"));
    assert!(server.process_id().is_some() && server.process_id() != before.0 && server.port() == before.1);
    Ok(())
}

fn kill_lost() -> Result<(), Stop> {
    let server = start()?;
    set(&mut connect(server.url())?)?;
    server.kill()?;
    server.restart(Data::Lost)?;
    assert_eq!(get(&mut connect(server.url())?)?, None);
    Ok(())
}

fn stop_kept() -> Result<(), Stop> {
    let server = start()?;
    set(&mut connect(server.url())?)?;
    server.stop()?;
    assert!(refuses(server.port()), "stopped, it still listens");
    assert!(fs::read_to_string(server.folder().join("log"))?.contains("bye bye"), "it was not asked to end");
    server.restart(Data::Kept)?;
    assert_eq!(get(&mut connect(server.url())?)?.as_deref(), Some("value"));
    Ok(())
}

fn no_persistence() -> Result<(), Stop> {
    let settings = Settings { persistence: Persistence::None, ..Settings::default() };
    let server = Owned::start(&Redis, &settings)?;
    set(&mut connect(server.url())?)?;
    assert!(server.restart(Data::Kept).is_err(), "there is nothing to keep");
    server.restart(Data::Lost)?;
    assert_eq!(get(&mut connect(server.url())?)?, None);
    Ok(())
}

fn own_clock() -> Result<(), Stop> {
    if let Err(why) = servers::clock::can_be_set() {
        return Err(Stop::NotRun(why));
    }
    const HOUR: Duration = Duration::from_secs(3600);
    // Its log's clock is the C library's, too.
    let settings = Settings { clock: Clock::Own, ..Settings::default() };
    let server = Owned::start(&Redis, &settings)?;
    let mut connection = connect(server.url())?;
    redis::cmd("SET").arg("key").arg("value").arg("PX").arg(60_000).exec(&mut connection)?;
    server.step_clock(Step::Back(HOUR))?;
    let left: u64 = redis::cmd("PTTL").arg("key").query(&mut connection)?;
    assert!(left > 3_600_000, "{left} ms");
    server.step_clock(Step::Forward(HOUR * 2))?;
    assert_eq!(get(&mut connection)?, None, "a minute is over");
    server.restart(Data::Kept)?;
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query(&mut connect(server.url())?)?;
    let here = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    assert!(Duration::from_secs(seconds + 60) > here + HOUR, "a restart sets no clock");
    assert!(start()?.step_clock(Step::Forward(HOUR)).is_err(), "the machine's clock is not ours to set");
    Ok(())
}

fn nothing_left() -> Result<(), Stop> {
    let mut left = Vec::new();
    let server = start()?;
    left.push((server.port(), server.folder().to_owned()));
    drop(server);

    let server = start()?;
    server.pause()?;
    left.push((server.port(), server.folder().to_owned()));
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        std::panic::resume_unwind(Box::new("as a failing case does"));
    }));
    assert!(panic.is_err());

    for (port, folder) in left {
        assert!(refuses(port), "a server is left at {port}");
        assert!(!folder.exists(), "{} is left", folder.display());
    }
    Ok(())
}

fn nothing_left_by_the_killed() -> Result<(), Stop> {
    drop(start()?);
    let mut child = play("abandon", None)?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()));
    let (url, port, folder) = (line()?, line()?, line()?);
    connect(&url)?;
    child.kill()?;
    child.wait()?;
    let port = port.parse().expect("it is a port");
    until(|| refuses(port) && !Path::new(&folder).exists());
    Ok(())
}

/// Starts a server and waits to be killed.
fn abandon() {
    let server = start().expect("the case has started one just now");
    println!("{}\n{}\n{}", server.url(), server.port(), server.folder().display());
    // Ends with the case, if that forgets to kill it.
    let _ = io::stdin().read(&mut [0]);
}

fn cannot_be_hurt() -> Result<(), Stop> {
    let server = start()?;
    let mut child = play("given", Some(server.url()))?;
    let mut said = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut said)?;
    assert!(child.wait()?.success(), "{said}");
    assert!(said.contains("given by LOCK_TEST_REDIS") && !said.contains("secret"), "{said}");
    Ok(())
}

/// Finds the server that the environment names.
fn given() {
    let server = Server::find(&Redis).expect("it is up");
    assert!(server.owned().is_none());
    assert!(matches!(start(), Err(Absence::NotRun(why)) if why.contains("LOCK_TEST_REDIS")));
    println!("{server} {server:?}");
}

fn holder() -> Result<(), Stop> {
    if cfg!(not(unix)) {
        return Err(Stop::NotRun("it is a shell script here".to_owned()));
    }
    let folder = tempfile::tempdir()?;
    let lock = folder.path().join("lock");
    // Prints what it was told, then runs what stands behind the --.
    fs::write(
        &lock,
        "#!/bin/sh\necho \"$@\"; while [ \"$1\" != -- ]; do shift; done; shift; \"$@\"; exit $?\n",
    )?;
    #[cfg(unix)]
    fs::set_permissions(&lock, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let program = Program::at(&lock);
    let run = |command: &[&str], wait| -> io::Result<Holder> {
        let ttl = Duration::from_millis(1500);
        let holder =
            program.run(&servers::Command { on: "redis://h", name: "n", ttl, wait, run: command })?;
        let told = holder.line(LIMIT)?;
        let waits = match wait {
            Wait::Forever => "",
            Wait::AtMost(_) => "--wait 250ms ",
            Wait::No => "--no-wait ",
        };
        assert_eq!(told, format!("run --on redis://h --name n --ttl 1500ms {waits}-- {}", command.join(" ")));
        Ok(holder)
    };

    let ended = run(&["sh", "-c", "echo out; echo err >&2; exit 75"], Wait::No)?.finish(LIMIT)?;
    assert_eq!(
        (ended.ended, ended.stdout, ended.stderr.trim()),
        (Ended::Status(75), vec!["out".to_owned()], "err")
    );

    let counting = ["sh", "-c", "while :; do echo tick; sleep 0.01; done"];
    let holder = run(&counting, Wait::AtMost(Duration::from_millis(250)))?;
    assert_eq!(holder.line(LIMIT)?, "tick");
    holder.process().pause()?;
    assert_eq!(holder.process().ended()?, None);
    holder.process().resume()?;
    holder.process().kill()?;
    assert_eq!(holder.process().ended()?, Some(Ended::Signal(9)));
    assert!(holder.process().pause().is_err(), "a dead process can't be stopped");
    while holder.line(Duration::ZERO).is_ok() {}
    assert_eq!(holder.line(LIMIT)?, "tick", "not the process alone was killed");

    let file = folder.path().join("ticks");
    let ticking = format!("while :; do echo >> {}; sleep 0.01; done", file.display());
    let holder = run(&["sh", "-c", &ticking], Wait::Forever)?;
    until(|| file.exists());
    drop(holder);
    fs::remove_file(&file)?;
    thread::sleep(Duration::from_millis(100));
    assert!(!file.exists(), "what it ran outlives the holder that was dropped");
    Ok(())
}

/// Starts this program once more, in another part.
fn play(part: &str, given: Option<&str>) -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    // What it finds is no server that cases ran on.
    command.env_remove(catalogue::RECORD).env(PART, part).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(url) = given {
        // Redis takes any password of a user who needs none.
        command.env("LOCK_TEST_REDIS", url.replace("redis://", "redis://default:secret@"));
    }
    command.spawn()
}

fn connect(url: &str) -> redis::RedisResult<redis::Connection> {
    redis::Client::open(url)?.get_connection_with_timeout(LIMIT)
}

fn set(connection: &mut redis::Connection) -> redis::RedisResult<()> {
    redis::cmd("SET").arg("key").arg("value").exec(connection)
}

fn get(connection: &mut redis::Connection) -> redis::RedisResult<Option<String>> {
    redis::cmd("GET").arg("key").query(connection)
}

fn refuses(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
}

fn until(mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}
