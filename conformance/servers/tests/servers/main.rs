//! Tests of the servers that the suite runs on: each fault really happens, and nothing is left behind.

mod clusters;
mod containers;
mod faults;
mod holders;
mod left;
mod pooler;
mod subjects;

use std::env;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lock_conformance::record;
use lock_test_servers::Absence;

use subjects::Subject;

/// Long enough for any machine; only a failing case takes it.
const LIMIT: Duration = Duration::from_secs(20);

type Case = fn(&'static dyn Subject) -> Result<(), Stop>;

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

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

/// Something that a case did not expect.
#[derive(Debug)]
struct Failure(String);

impl From<Failure> for Stop {
    fn from(Failure(why): Failure) -> Stop {
        Stop::Failed(why.into())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Failed(error.into())
    }
}

/// The cases for every server.
const CASES: [(&str, Case); 15] = [
    ("a_started_server_answers_at_its_url_and_its_socket", faults::answers),
    ("two_servers_are_two", faults::two_servers),
    ("a_file_for_the_server_is_in_its_data_folder", faults::files),
    ("a_paused_server_answers_when_it_is_resumed", faults::pause),
    ("a_killed_server_restarts_with_its_data", faults::kill_kept),
    ("a_killed_server_restarts_without_its_data", faults::kill_lost),
    ("a_stopped_server_restarts_with_its_data", faults::stop_kept),
    ("a_server_does_not_start_at_a_port_of_anothers", faults::taken_port),
    ("a_server_without_persistence_keeps_nothing", faults::no_persistence),
    ("a_server_with_a_clock_of_its_own_goes_by_it", faults::own_clock),
    ("a_given_server_cannot_be_stopped", faults::cannot_be_stopped),
    ("a_server_in_a_container_serves_and_goes", containers::contained),
    ("a_drop_or_a_panic_leaves_neither_process_nor_folder", left::by_a_drop),
    ("a_killed_test_leaves_neither_process_nor_folder", left::by_the_killed),
    ("a_killed_server_leaves_no_shared_memory", left::in_shared_memory),
];

fn main() {
    if let Ok(part) = env::var(subjects::PART) {
        return subjects::play(&part);
    }
    let mut trials = vec![
        trial("a_holder_is_a_process_like_any_other".to_owned(), holders::holder),
        trial("etcd::a_cluster_goes_on_without_its_leader".to_owned(), clusters::etcd_without_its_leader),
        trial("etcd::a_leader_that_is_cut_off_is_reached".to_owned(), clusters::etcd_cut_apart),
        trial(
            "zookeeper::an_ensemble_goes_on_without_its_leader".to_owned(),
            clusters::zookeeper_without_its_leader,
        ),
        trial("zookeeper::a_leader_that_is_cut_off_is_reached".to_owned(), clusters::zookeeper_cut_apart),
        trial("pgbouncer::clients_share_a_connection_between_transactions".to_owned(), pooler::shares),
        trial("redis::neither_program_nor_container_is_said_in_one_line".to_owned(), || {
            containers::neither(subjects::REDIS)
        }),
        trial("postgres::a_killed_test_leaves_no_process_at_work".to_owned(), left::by_the_killed_at_work),
    ];
    for subject in subjects::ALL {
        let product = subject.product().listing().name;
        trials.extend(CASES.map(|(name, case)| trial(format!("{product}::{name}"), move || case(*subject))));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(name: String, case: impl FnOnce() -> Result<(), Stop> + Send + 'static) -> Trial {
    Trial::ignorable_test(name.clone(), move || match case() {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::NotRun(why)) => {
            record::not_run(&name, &why);
            Ok(Completion::ignored_with(why))
        }
        Err(Stop::Failed(failed)) => Err(failed),
    })
}

fn refuses(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
}

/// Returns the processes whose current folder is `folder`, even if it was removed; none where that can't be seen.
fn processes_in(folder: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Linux adds a remark to the name of a folder that was removed.
    let folder = folder.display().to_string();
    let works_there = |id: &u32| {
        let there = std::fs::read_link(format!("/proc/{id}/cwd"));
        there.is_ok_and(|there| there.display().to_string().starts_with(&folder))
    };
    ids.filter(works_there).collect()
}

fn until(mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}
