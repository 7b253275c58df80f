//! The log and its index, which SQLite keeps beside the file, are removed while processes have them open.

use std::fs;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::driver::{Attempt, Claim, Renewal};
use lock_core::{Client, Effect, ErrorKind};
use lock_test_servers::{Ended, Wait};
use tempfile::TempDir;

use super::{LIMIT, Outcome, block_on, claim, hold, program, url};

/// Writes to a removed log would be answered as before, but no other process would see them.
pub(crate) fn a_log_that_was_removed_makes_no_second_holder() -> Outcome {
    let program = program()?;
    for removed in [&["-wal", "-shm"][..], &["-wal"], &["-shm"]] {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("locks.db");
        let url = url(&file);
        let holder = hold(&program, &url, "a", Wait::No, "echo held; sleep 60");
        assert_eq!(holder.line(LIMIT).unwrap(), "held");
        for suffix in removed {
            fs::remove_file(format!("{}{suffix}", file.display())).unwrap();
        }
        block_on(async {
            let client = opened(&url).await;
            let mut second = claim(&client, "a");
            let is_granted_soon = is_granted(&mut second, Duration::from_secs(4)).await;
            if is_granted_soon || holder.process().ended().unwrap().is_some() {
                // Rows that were in the log alone are lost, like the rows of a deleted file.
                let told = holder.finish(LIMIT).unwrap();
                assert_ne!(told.ended, Ended::Status(0), "{removed:?}: {}", told.stderr);
            } else {
                holder.process().kill().unwrap();
            }
            if !is_granted_soon {
                assert!(is_granted(&mut second, LIMIT).await, "{removed:?}: free after a ttl");
            }
            assert!(matches!(second.renew(LIMIT).await.unwrap(), Renewal::Held { .. }), "{removed:?}");
        });
    }
    Ok(())
}

/// An index outlives its log for as long as a process has it open, even a paused process.
pub(crate) fn an_index_whose_log_was_removed_is_not_gone_by() -> Outcome {
    let program = program()?;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("locks.db");
    let url = url(&file);
    let holder = hold(&program, &url, "a", Wait::No, "echo held; sleep 60");
    assert_eq!(holder.line(LIMIT).unwrap(), "held");
    holder.process().pause().unwrap();
    fs::remove_file(format!("{}-wal", file.display())).unwrap();
    block_on(async {
        let refused = lock_sql::sqlite::connect(&url).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{refused}");
        assert!(refused.message().contains("locks.db-wal was removed"), "{refused}");
        holder.process().kill().unwrap();
        let client = opened(&url).await;
        let mut second = claim(&client, "a");
        assert!(is_granted(&mut second, LIMIT).await, "free after a ttl");
        assert!(matches!(second.renew(LIMIT).await.unwrap(), Renewal::Held { .. }));
    });
    Ok(())
}

/// Opens a client, as soon as that succeeds. The holder's index describes a removed log until the holder has noticed
/// that.
async fn opened(url: &str) -> Client {
    let started = Instant::now();
    loop {
        match lock_sql::sqlite::connect(url).await {
            Ok(client) => return client,
            Err(e) => assert_in_time!(started.elapsed() < LIMIT, "{e}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn is_granted(claim: &mut Box<dyn Claim>, limit: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Ok(Attempt::Granted(_)) = claim.attempt().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
