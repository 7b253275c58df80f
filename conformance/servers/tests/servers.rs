//! Tests of what the suite can't notice by itself: nothing of a server outlives its test.

use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio, Termination};
use std::thread;
use std::time::{Duration, Instant};

use lock_conformance::environment::RECORD;
use lock_conformance::{Data, rules};
use lock_test_servers::{MySql, Owned, Postgres, Product, Redis, Settings, judged_on};

/// The environment variable with the product of a program that starts a server and waits to be killed.
const ABANDONS: &str = "LOCK_TEST_ABANDONS";

static PRODUCTS: [&dyn Product; 5] =
    [&Redis, &Postgres::Installed, &Postgres::Unstable, &MySql::MariaDb, &MySql::MySql];

type Test = fn(&'static dyn Product);

const TESTS: [(&str, Test); 3] = [
    ("a_killed_server_keeps_or_loses_its_files", killed),
    ("a_panicking_test_leaves_nothing", left_by_a_panic),
    ("a_killed_test_leaves_nothing", left_by_the_killed),
];

fn main() -> ExitCode {
    if let Ok(name) = env::var(ABANDONS) {
        abandon(&name);
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
fn killed(product: &'static dyn Product) {
    let server = start(product);
    let (port, file) = (server.port(), server.data().join("kept"));
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
    }
    server.kill().expect("it runs");
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the dead server's port is free");
    assert!(server.restart(Data::Kept).is_err(), "it can't serve at a port that another program has");
}

/// Also checks a server that can't notice anything, because it is stopped.
fn left_by_a_panic(product: &'static dyn Product) {
    let server = start(product);
    server.pause().expect("it runs");
    let (port, folder) = (server.port(), server.folder().to_owned());
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        std::panic::resume_unwind(Box::new("as a failing case does"));
    }));
    assert!(panic.is_err() && is_gone(port, &folder), "something is left in {}", folder.display());
}

fn left_by_the_killed(product: &'static dyn Product) {
    let mut program = Command::new(env::current_exe().expect("it runs"));
    program.env_remove(RECORD).env(ABANDONS, product.listing().name);
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
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
}

/// Starts a server, says where it is, and waits to be killed.
fn abandon(name: &str) {
    let product = PRODUCTS.into_iter().find(|product| product.listing().name == name);
    let server = start(product.expect("a test names what it runs on"));
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
