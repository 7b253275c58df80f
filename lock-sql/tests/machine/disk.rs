//! Disks that are full or read-only.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lock_conformance::refusal;
use lock_core::ErrorKind;
use tempfile::TempDir;

use super::{LIMIT, NotRun, Outcome, block_on, rights, run, url};

/// A small disk for one test.
struct Disk(TempDir);

impl Disk {
    fn new() -> Result<Disk, NotRun> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().display().to_string();
        rights(&["mount", "-t", "tmpfs", "-o", "size=512k", "lock-sql-test", &path])?;
        Ok(Disk(folder))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    /// Fills the disk completely.
    fn fill(&self) {
        let mut filling = fs::File::create(self.0.path().join("filling")).unwrap();
        while std::io::Write::write_all(&mut filling, &[1; 512]).is_ok() {}
    }

    fn drain(&self) {
        fs::remove_file(self.0.path().join("filling")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let path = self.0.path().display().to_string();
        run(&["umount", "--lazy", &path]).ok();
    }
}

// Proves: check-server, disk-full
pub(crate) fn a_full_disk_grants_nothing_and_is_survived() -> Outcome {
    let disk = Disk::new()?;
    block_on(async {
        let client = lock_sql::sqlite::connect(&url(&disk.file())).await.unwrap();
        disk.fill();
        // The log has no room for a row with a long name; it may have room for other rows.
        let mut refused = None;
        for n in 0..200 {
            let lock = client.lock(format!("{n}-{}", "x".repeat(500))).ttl(LIMIT).build().unwrap();
            match lock.try_acquire().await {
                Ok(guard) => std::mem::forget(guard.expect("no other client is here")),
                Err(e) => {
                    refused = Some((e, lock));
                    break;
                }
            }
        }
        let (error, lock) = refused.expect("a full disk takes no more");
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert!(error.message().contains("disk is full"), "{error}");
        assert!(lock.inspect().await.unwrap().holder.is_none(), "the refused grant is not in the file");
        refusal::is_told(&client, "disk is full").await;
        let fresh = disk.0.path().join("fresh.db");
        let error = lock_sql::sqlite::connect(&url(&fresh)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        disk.drain();
        assert!(lock.try_acquire().await.unwrap().is_some(), "there is room again");
        client.shutdown(Duration::from_secs(1)).await;
    });
    Ok(())
}

// Proves: disk-full
pub(crate) fn a_read_only_disk_is_said_to_be_one() -> Outcome {
    let disk = Disk::new()?;
    block_on(async { lock_sql::sqlite::connect(&url(&disk.file())).await.map(drop).unwrap() });
    let read_only = ["mount", "-o", "remount,ro", &disk.0.path().display().to_string()];
    let started = Instant::now();
    // SQLite's threads close the file after the client has ended.
    while let Err(e) = rights(&read_only) {
        if !e.contains("busy") {
            return Err(e);
        }
        assert!(started.elapsed() < LIMIT, "the client has ended, but the file is still open: {e}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = block_on(async {
        let client = lock_sql::sqlite::connect(&url(&disk.file())).await?;
        client.lock("a").build()?.try_acquire().await
    });
    let error = error.expect_err("it can't be written");
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    Ok(())
}
