//! Tests of the log's index, which all connections of a process share.

use std::fs;
use std::mem;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::timing::within;
use lock_core::{Client, Effect, ErrorKind};
use sqlx::{Connection, Executor};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{File, claim, run};

const CLIENTS: usize = 8;
const CLAIMS: usize = 50;

/// The answers to the claims so far.
#[derive(Debug, Default)]
struct Answers {
    /// The numbers of claims that were granted their locks before the index was removed, and after that.
    granted: [usize; 2],
    errors: usize,
}

/// Under load, no connection of the process is idle, and each connection that is opened while another one has the index
/// open keeps that index as well.
pub(crate) fn a_removed_index_is_recreated_under_load() {
    run(async {
        let file = File::new();
        let (answers, gone, mut tasks) =
            (watch::Sender::default(), watch::Sender::new(false), JoinSet::new());
        for n in 0..CLIENTS {
            let client = file.client().await;
            for m in 0..CLAIMS {
                tasks.spawn(ask_on(client.clone(), format!("{n} {m}"), answers.clone(), gone.subscribe()));
            }
        }
        all_granted(&answers, 0).await;
        fs::remove_file(format!("{}-shm", file.path().display())).unwrap();
        gone.send_replace(true);
        all_granted(&answers, 1).await;
        tasks.shutdown().await;
        // A few errors are possible: while one connection is to be opened anew, another may be in use until its next
        // call.
        let errors = answers.borrow().errors;
        assert_in_time!((errors < CLIENTS * 20), "{errors} errors: the index was kept");
    });
}

/// Another program keeps the index, and has no part in the list of the files that are in use. The log has no
/// page that is read when the file is opened, so SQLite does not miss it.
pub(crate) fn an_index_without_its_log_is_ignored() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut program = file.admin().await;
        program.execute("CREATE TABLE another (x); INSERT INTO another VALUES (1)").await.unwrap();
        program.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
        program.execute("INSERT INTO another VALUES (2)").await.unwrap();
        drop(client);
        fs::remove_file(format!("{}-wal", file.path().display())).unwrap();
        let began = Instant::now();
        let refused = loop {
            let refused = lock_sql::sqlite::connect(&file.url()).await.unwrap_err();
            // The client's connections are closed in the background.
            if refused.message().contains("index open") {
                break refused;
            }
            assert_in_time!(began.elapsed() < Duration::from_secs(20), "{refused}");
        };
        assert_eq!(refused.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{refused}");
        assert!(refused.message().contains("locks.db-wal was removed or emptied"), "{refused}");
        program.close().await.unwrap();
        lock_sql::sqlite::connect(&file.url()).await.unwrap();
    });
}

async fn all_granted(answers: &watch::Sender<Answers>, period: usize) {
    let mut answers = answers.subscribe();
    let all = answers.wait_for(|answers| answers.granted[period] == CLIENTS * CLAIMS);
    drop(within("each claim is granted", Duration::from_secs(20), all).await.expect("the sender is here"));
}

async fn ask_on(client: Client, name: String, answers: watch::Sender<Answers>, gone: watch::Receiver<bool>) {
    let mut claim = claim(&client, &name, Duration::from_secs(5));
    let mut owed = [true, true];
    loop {
        let period = usize::from(*gone.borrow());
        match claim.attempt().await {
            Ok(_) if mem::take(&mut owed[period]) => {
                answers.send_modify(|answers| answers.granted[period] += 1);
            }
            Ok(_) => {}
            Err(_) => answers.send_modify(|answers| answers.errors += 1),
        }
    }
}
