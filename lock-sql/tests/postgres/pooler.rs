//! A transaction pooler in between: pgbouncer, where there is one.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lock_core::driver::{Level, Wakes};
use lock_core::{Ending, Options};
use sqlx::ConnectOptions;

use crate::Outcome;
use crate::server::{Site, TTL, claim, granted, run, until};

/// Ends with the test.
struct Pgbouncer {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Pgbouncer {
    fn start(site: &Site) -> Result<Pgbouncer, String> {
        let program = program().ok_or("there is no pgbouncer on the PATH")?;
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(|e| e.to_string())?;
        let (port, server) = (port.port(), site.options());
        let users = folder.path().join("users");
        std::fs::write(&users, "\"lock\" \"\"\n").map_err(|e| e.to_string())?;
        let settings = folder.path().join("ini");
        // Fewer of the server's sessions than clients: each is lent to many.
        let text = format!(
            "[databases]\nlocks = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 3\n",
            server.get_host(),
            server.get_port(),
            users.display()
        );
        std::fs::write(&settings, text).map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.arg(&settings).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        as_another_user(&mut command, folder.path())?;
        Ok(Pgbouncer { process: command.spawn().map_err(|e| e.to_string())?, port, _folder: folder })
    }
}

/// It refuses to run as root.
#[cfg(unix)]
fn as_another_user(command: &mut Command, folder: &std::path::Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let id = |what| Command::new("id").args(what).output().map_err(|e| e.to_string());
    let number =
        |output: std::process::Output| String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok();
    if number(id(&["-u"][..])?) == Some(0) {
        let nobody = number(id(&["-u", "nobody"][..])?).ok_or("we are root, and there is no user nobody")?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
            .map_err(|e| e.to_string())?;
        command.uid(nobody);
    }
    Ok(())
}

fn program() -> Option<std::path::PathBuf> {
    let mut folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    folders.push("/usr/sbin".into());
    folders.into_iter().map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}

pub(crate) fn behind_a_transaction_pooler_locks_work_and_waiters_look() -> Outcome {
    let site = Site::new();
    let pooler = Pgbouncer::start(&site)?;
    run(async {
        let options = site.options().host("127.0.0.1").port(pooler.port).extra_float_digits(None);
        until("it listens", async || options.connect().await.is_ok()).await;
        let open = async || site.backend_as(options.clone()).open(Options::default()).await.unwrap();
        let clients = [open().await, open().await, open().await];
        assert!(clients.iter().all(|client| client.info().wakes == Wakes::Polled));
        let findings = clients[0].check().await.unwrap();
        let push = findings.iter().find(|finding| finding.subject == "push").unwrap();
        assert!(push.level == Level::Warning && push.message.contains("pooler"), "{push:?}");

        // Each client has more connections than the server lends sessions.
        let counter = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..12 {
            let (client, counter) = (clients[task % 3].clone(), counter.clone());
            tasks.spawn(async move {
                let lock = client.lock("it's é\\").ttl(TTL).build().unwrap();
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap();
                    let before = counter.load(std::sync::atomic::Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    counter.store(before + 1, std::sync::atomic::Ordering::SeqCst);
                    guard.renew(TTL).await.unwrap();
                    assert_eq!(guard.release().await, Ending::Released);
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(counter.load(std::sync::atomic::Ordering::SeqCst), 60);

        // Who is not behind it is woken by releases that come through it.
        let direct = site.client().await;
        let (mut holder, mut waiter) = (claim(&clients[0], "b"), claim(&direct, "b"));
        granted(&mut holder).await;
        waiter.listen().await.unwrap();
        while tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_ok() {}
        holder.release().await.unwrap();
        tokio::time::timeout(Duration::from_secs(2), waiter.changed()).await.unwrap();
    })
}
