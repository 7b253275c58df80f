//! Containers: mounts as the managers of containers make them.

use std::fs;
use std::process::Output;

use tempfile::TempDir;

use super::{LIMIT, NotRun, Outcome, block_on, lock_path, program, rights, run, url};
use lock_conformance::timing::still_held;

/// The boot id is mounted over, as systemd-nspawn and LXC do. Every row would count as of another boot, and be free.
pub(crate) fn a_boot_id_not_from_the_kernel_is_refused() -> Outcome {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    program()?;
    let lock = lock_path()?;
    let folder = TempDir::new().unwrap();
    let (url, other) = (url(&folder.path().join("locks.db")), url(&folder.path().join("other.db")));
    let fake = folder.path().join("boot_id").display().to_string();
    fs::write(&fake, "978ebfb6-32e7-470c-9bf9-eb78e6b76c5e\n").unwrap();
    let told = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    block_on(async {
        let client = lock_sql::sqlite::connect(&url).await.unwrap();
        let guard = client.lock("a").ttl(LIMIT).build().unwrap().acquire().await.unwrap();
        let try_it = format!("{lock} run --on {url} --name a --no-wait -- true");
        // First a file elsewhere, then another file of the same procfs.
        for over in [fake.as_str(), "/proc/sys/kernel/random/uuid"] {
            let (status, said) = told(&among_own_mounts(&format!("mount --bind {over} {BOOT}; {try_it}"))?);
            assert!(!matches!(status, Some(0 | 75)), "{over}: {status:?} {said}");
            assert!(said.contains("boot=trust"), "{over}: {said}");
        }
        // Docker and systemd's services have the same boot id, mounted read-only.
        let script =
            format!("mount --bind /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys; {try_it}");
        let (status, said) = told(&among_own_mounts(&script)?);
        assert_eq!(status, Some(75), "{said}");
        // A user whose file no process outside uses may trust the boot id, and `check` repeats that.
        let script = format!(
            "mount --bind {fake} {BOOT}; {lock} run --on '{other}?boot=trust' --name a -- {lock} check --on '{other}?boot=trust'"
        );
        let output = among_own_mounts(&script)?;
        let (status, said) = told(&output);
        let checked = String::from_utf8_lossy(&output.stdout);
        assert!(checked.contains("by boot=trust"), "{status:?} {said} {checked}");
        still_held(&guard);
        Ok(())
    })
}

/// As `docker run -v /h/locks.db:/d/locks.db` does: the log would be in the container's own folder.
pub(crate) fn a_file_that_is_mounted_by_itself_is_refused() -> Outcome {
    program()?;
    let lock = lock_path()?;
    let folder = TempDir::new().unwrap();
    let (file, inside) = (folder.path().join("locks.db"), folder.path().join("container"));
    fs::create_dir(&inside).unwrap();
    let there = inside.join("locks.db");
    fs::write(&there, "").unwrap();
    let (file, there, inside) = (file.display(), there.display(), inside.display());
    block_on(async {
        let client = lock_sql::sqlite::connect(&format!("sqlite://{file}")).await.unwrap();
        let guard = client.lock("a").ttl(LIMIT).build().unwrap().acquire().await.unwrap();
        let try_it = format!("{lock} run --on sqlite://{there} --name a --no-wait -- true");
        let output = among_own_mounts(&format!("mount --bind {file} {there}; {try_it}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!matches!(output.status.code(), Some(0 | 75)), "{:?} {said}", output.status);
        assert!(said.contains("mount the folder"), "{said}");
        // If its folder is mounted, the client inside sees the lock of the client outside.
        let whole = format!("mount --bind {} {inside}; {try_it}", folder.path().display());
        assert_eq!(among_own_mounts(&whole)?.status.code(), Some(75), "held outside");
        still_held(&guard);
        Ok(())
    })
}

/// Runs `script` among mounts of its own.
fn among_own_mounts(script: &str) -> Result<Output, NotRun> {
    rights(&["unshare", "--mount", "true"])?;
    run(&["unshare", "--mount", "--propagation", "private", "sh", "-ec", script])
}
