//! Tests of what the suite can't notice by itself: a server's faults happen, and nothing of it outlives its test.

use std::env;
use std::io::{self, BufRead, BufReader, Lines, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio, Termination};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lock_conformance::environment::RECORD;
use lock_conformance::{Data, Step, rules};
use lock_test_servers::{
    Absence, Clock, MySql, Owned, Persistence, Postgres, Product, Redis, Server, Settings, clock, judged_on,
};

/// The environment variable with the part that this program plays in a process of its own, and with its product.
const PART: &str = "LOCK_TEST_SERVERS_PART";
/// The password in a URL, which is never shown.
const PASSWORD: &str = "secret";
/// The beginning of what the part `find` prints if there is no server.
const ABSENT: &str = "absent: ";

static PRODUCTS: [&dyn Product; 5] =
    [&Redis, &Postgres::Installed, &Postgres::Unstable, &MySql::MariaDb, &MySql::MySql];

type Test = fn(&'static dyn Product) -> Result<(), String>;

const TESTS: [(&str, Test); 6] = [
    ("a_killed_server_keeps_or_loses_its_files", killed),
    ("a_server_has_a_clock_of_its_own", own_clock),
    ("a_given_server_is_never_stopped", given),
    ("a_container_serves_and_goes", contained),
    ("a_panicking_test_leaves_nothing", left_by_a_panic),
    ("a_killed_test_leaves_nothing", left_by_the_killed),
];

fn main() -> ExitCode {
    if let Ok(part) = env::var(PART) {
        let (part, name) = part.split_once(' ').expect("a test names the part and the product");
        let product = PRODUCTS.into_iter().find(|product| product.listing().name == name);
        let play = if part == "find" { find } else { abandon };
        play(product.expect("a test names one of these products"));
        return ExitCode::SUCCESS;
    }
    let trials = PRODUCTS.into_iter().flat_map(|product| {
        let name = product.listing().name;
        judged_on(product, TESTS.map(|(test, run)| (format!("{name}::{test}"), move || run(product))))
    });
    rules::run(trials.collect(), 4).report()
}

fn start(product: &'static dyn Product) -> Owned {
    Owned::start(product, &Settings::default()).expect("another was started before")
}

/// Checks that the faults of a process happen: a case whose fault does not happen would pass.
fn killed(product: &'static dyn Product) -> Result<(), String> {
    let settings = Settings { files: vec![("given".to_owned(), b"again".to_vec())], ..Settings::default() };
    let server = Owned::start(product, &settings).expect("another was started before");
    let (port, file) = (server.port(), server.data().join("kept"));
    server.pause().expect("it runs");
    product.greet(server.url()).expect_err("a stopped server can't answer");
    server.resume().expect("it runs");
    for (data, is_kept) in [(Data::Kept, true), (Data::Lost, false)] {
        std::fs::write(&file, "").expect("a file can be made beside its own");
        let process = server.process_id();
        server.kill().expect("it runs");
        assert!(refuses(port) && server.process_id().is_none(), "killed, it still listens");
        assert!(
            server.kill().is_err() && server.pause().is_err(),
            "a dead server is neither killed nor stopped"
        );
        server.restart(data).expect("it starts again");
        assert!(!refuses(port) && server.process_id() != process && server.port() == port, "it serves again");
        assert_eq!(file.exists(), is_kept, "{data:?}");
        assert_eq!(std::fs::read(server.data().join("given")).expect("it is given"), b"again", "{data:?}");
    }
    server.stop().expect("it ends when it is asked to");
    assert!(refuses(port), "stopped, it still listens");
    is_refused_a_taken_port(product, &server);
    let settings = Settings { persistence: Persistence::None, ..Settings::default() };
    let forgetful = Owned::start(product, &settings).expect("another was started before");
    forgetful.restart(Data::Kept).expect_err("there is nothing to keep");
    forgetful.restart(Data::Lost).expect("it starts again");
    Ok(())
}

/// Checks that a server that is down does not start at a taken port. Another server of the same product answers there:
/// a check that only asked at the port would find nothing wrong.
fn is_refused_a_taken_port(product: &'static dyn Product, server: &Owned) {
    let other = start(product);
    let there = (Ipv4Addr::LOCALHOST, other.port());
    let taken =
        TcpListener::bind((Ipv4Addr::LOCALHOST, server.port())).expect("the dead server's port is free");
    // The threads end with this program.
    thread::spawn(move || -> io::Result<()> {
        loop {
            let (one, other) = (taken.accept()?.0, TcpStream::connect(there)?);
            for (from, to) in [(&one, &other), (&other, &one)] {
                let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
                thread::spawn(move || io::copy(&mut from, &mut to));
            }
        }
    });
    server.restart(Data::Kept).expect_err("it can't serve at a port that another program has");
}

fn own_clock(product: &'static dyn Product) -> Result<(), String> {
    const HOUR: Duration = Duration::from_secs(3600);
    let machines = start(product);
    machines.step_clock(Step::Forward(HOUR)).expect_err("the machine's clock is not the server's to set");
    clock::can_be_set()?;
    let settings = Settings { clock: Clock::Own, ..Settings::default() };
    let server = Owned::start(product, &settings).expect("another was started before");
    let time = || product.time(server.url()).expect("it is up");
    server.step_clock(Step::Back(HOUR)).expect("it has its own");
    assert!(time() < SystemTime::now() - HOUR / 2, "an hour back, it says {:?}", time());
    server.step_clock(Step::Forward(HOUR * 2)).expect("it has its own");
    server.restart(Data::Kept).expect("it starts again");
    assert!(time() > SystemTime::now() + HOUR / 2, "a restart sets no clock, and it says {:?}", time());
    Ok(())
}

/// Checks a server that the environment names. It shows no password.
fn given(product: &'static dyn Product) -> Result<(), String> {
    let server = start(product);
    let url = match product.listing().name {
        // Redis takes any password for a user that needs none.
        "redis" => server.url().replace("redis://", &format!("redis://default:{PASSWORD}@")),
        // PostgreSQL asks for none.
        "postgres" | "postgres-unstable" => server.url().replace("lock@", &format!("lock:{PASSWORD}@")),
        _ => server.url().to_owned(),
    };
    let variable = product.listing().variable;
    let found = found(product, |part| part.env(variable, &url));
    assert!(found.contains(&format!("given by {variable}")) && !found.contains(PASSWORD), "{found}");
    assert!(found.contains(&format!("the server of {variable} is not ours to stop")), "{found}");
    Ok(())
}

/// Checks that an image that the environment names is started and serves, and goes with the process that started it.
fn contained(product: &'static dyn Product) -> Result<(), String> {
    if product.listing().name == "redis" {
        is_absent_without_either(product);
    }
    let Some(image) = product.image(&Settings::default()) else {
        return Err("it has no image".to_owned());
    };
    let found = found(product, |part| part.env(product.listing().variable, format!("docker:{}", image.name)));
    // The image was asked for by name, so its absence is a failure for the part. Here it depends on the machine.
    let unable = ["no Docker daemon", "doesn't have the image", "without its feature"];
    if found.starts_with(ABSENT) && unable.iter().any(|unable| found.contains(unable)) {
        return Err(found);
    }
    assert!(found.contains(&format!("in a container of {}", image.name)), "{found}");
    let port = found.split_whitespace().next().and_then(|port| port.parse().ok());
    assert!(refuses(port.expect("it prints the port")), "the container is left behind");
    Ok(())
}

/// Checks that there is no server without a program and a daemon, and that one line says both.
fn is_absent_without_either(product: &'static dyn Product) {
    let nowhere = "unix:///nowhere/docker.sock";
    let neither = found(product, |part| {
        part.env("PATH", "")
            .env("DOCKER_HOST", nowhere)
            .env_remove("LOCK_TEST_REQUIRE")
            .env_remove(product.listing().variable)
    });
    let docker = if cfg!(feature = "docker") { nowhere } else { "without its feature `docker`" };
    let program = format!("{ABSENT}{}, and no container: ", product.listing().missing());
    assert!(neither.starts_with(&program) && neither.contains(docker), "{neither}");
    assert_eq!(neither.trim().lines().count(), 1, "{neither}");
}

/// Also checks a server that can't notice anything, because it is stopped.
fn left_by_a_panic(product: &'static dyn Product) -> Result<(), String> {
    let server = start(product);
    server.pause().expect("it runs");
    let (port, folder) = (server.port(), server.folder().to_owned());
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        std::panic::resume_unwind(Box::new("as a failing case does"));
    }));
    assert!(panic.is_err() && is_gone(port, &folder), "something is left in {}", folder.display());
    Ok(())
}

fn left_by_the_killed(product: &'static dyn Product) -> Result<(), String> {
    let (mut child, mut lines) = play("abandon", product, |part| part);
    let mut line = || lines.next().expect("it prints two lines").expect("it is text");
    let port: u16 = line().parse().expect("it is a port");
    let folder = PathBuf::from(line());
    assert!(!is_gone(port, &folder), "the server runs");
    child.kill().expect("it runs");
    child.wait().expect("it is a child");
    let asked = Instant::now();
    while !is_gone(port, &folder) {
        assert!(asked.elapsed() < Duration::from_secs(20), "something is left in {}", folder.display());
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Starts this program once more, to play a part on this product. Returns it with what it prints.
fn play(
    part: &str,
    product: &dyn Product,
    set: impl FnOnce(&mut Command) -> &mut Command,
) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut program = Command::new(env::current_exe().expect("it runs"));
    // A server that the part finds is not one that tests ran on.
    program.env_remove(RECORD).env(PART, format!("{part} {}", product.listing().name));
    let mut child = set(program.stdin(Stdio::piped()).stdout(Stdio::piped())).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    (child, lines)
}

/// Returns what the part `find` prints.
fn found(product: &dyn Product, set: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let (mut child, lines) = play("find", product, set);
    let found: Vec<_> = lines.map(|line| line.expect("it is text")).collect();
    assert!(child.wait().expect("it is a child").success(), "{found:?}");
    found.join("\n")
}

/// Finds a server that was not started from a program. Says where it is, what it is, and why it can't be had alone.
fn find(product: &'static dyn Product) {
    // In a runtime, as a test may be.
    rules::block_on(async {
        let server = match Server::find(product, &Settings::default()) {
            Ok(server) => server,
            Err(why) => return println!("{ABSENT}{why}"),
        };
        assert!(server.owned().is_none(), "{server}");
        let port = server.url().rsplit_once(':').map_or("", |(_, port)| port);
        let port = port.split('/').next().unwrap_or_default();
        let alone = Owned::start(product, &Settings::default());
        let Err(Absence::NotRun(why)) = alone else { panic!("{server} is started again: {alone:?}") };
        println!("{port} {server} {server:?}: {why}");
    });
}

/// Starts a server, says where it is, and waits to be killed.
fn abandon(product: &'static dyn Product) {
    let server = start(product);
    println!("{}\n{}", server.port(), server.folder().display());
    // Ends with the test, if the test forgets to kill it.
    let _ = io::stdin().read(&mut [0]);
}

/// Returns whether no process serves at this port or works in this folder, and the folder is removed.
fn is_gone(port: u16, folder: &Path) -> bool {
    // There are such links on Linux only, which adds a remark to the name of a folder that was removed.
    let mut processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let name = folder.display().to_string();
    let works_there = |process: std::fs::DirEntry| {
        let there = std::fs::read_link(process.path().join("cwd"));
        there.is_ok_and(|there| there.display().to_string().starts_with(&name))
    };
    refuses(port) && !folder.exists() && !processes.any(works_there)
}

fn refuses(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
}
