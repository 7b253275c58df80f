//! A primary with two replicas, which can be killed and stopped one by one.

use std::io;

use super::super::cluster;
use super::super::owned::Owned;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::{Redis, login};

/// A primary and two replicas that were started here. No program promotes a replica, unless [sentinels] watch them.
/// Dropping it kills them.
///
/// [sentinels]: super::RedisSentinels
#[derive(Debug)]
pub struct RedisReplicas {
    servers: Vec<Owned>,
    password: Option<String>,
}

impl RedisReplicas {
    /// Starts a server and two replicas of it, and waits until these follow. The settings' arguments may have a
    /// `--requirepass`, which is the password of all three.
    ///
    /// # Errors
    ///
    /// If Redis is missing or does not start, or if a replica does not follow in time.
    pub fn start(settings: &Settings) -> Result<RedisReplicas, Absence> {
        let password = argument(settings, "--requirepass");
        // Without a delay, a replica is as soon a copy as it can be.
        let mut settings = settings.clone().and(&["--repl-diskless-sync-delay", "0"]);
        if let Some(password) = &password {
            settings = settings.and(&["--masterauth", password]);
        }
        let mut servers = vec![Owned::start(&Redis, &settings)?];
        settings = settings.and(&["--replicaof", "127.0.0.1", &servers[0].port().to_string()]);
        for _ in 0..2 {
            servers.push(Owned::start(&Redis, &settings)?);
        }
        let replicas = RedisReplicas { servers, password };
        replicas.become_whole().map_err(|e| Absence::Failure(format!("no replicas: {e}")))?;
        Ok(replicas)
    }

    /// Returns the URL for clients, which names all servers.
    pub fn url(&self) -> String {
        let login = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{login}{}", cluster::addresses(&self.servers))
    }

    /// Returns the servers. The first one was the primary at the start.
    pub fn servers(&self) -> &[Owned] {
        &self.servers
    }

    /// Returns the password of all servers.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Waits until exactly one server that runs is a primary, and returns which one.
    ///
    /// # Errors
    ///
    /// If there is none in time.
    pub fn primary(&self) -> io::Result<usize> {
        cluster::one(&self.servers, "primary", |server| self.is_primary(server))
    }

    fn is_primary(&self, server: &Owned) -> bool {
        self.line(server, "role").as_deref() == Some("master")
    }

    /// Waits until there is one primary, and each other server has all its data.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn become_whole(&self) -> io::Result<()> {
        // Which one is the primary may change meanwhile.
        let whole = cluster::all(&self.servers, |server| {
            let mut primaries = self.servers.iter().filter(|server| self.is_primary(server));
            let (Some(primary), None) = (primaries.next(), primaries.next()) else { return false };
            let port = primary.port();
            server.port() == port
                || (self.line(server, "master_port") == Some(port.to_string())
                    && self.line(server, "master_link_status").as_deref() == Some("up"))
        });
        whole.map_err(|e| io::Error::new(e.kind(), format!("{e}: {}", self.state())))
    }

    /// Says what each server is, for a person.
    fn state(&self) -> String {
        let of = |server: &Owned| {
            let [role, of, link] = ["role", "master_port", "master_link_status"]
                .map(|line| self.line(server, line).unwrap_or_else(|| "-".to_owned()));
            format!("{} is {role} of {of}, link {link}", server.port())
        };
        self.servers.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// Makes a primary of this server. It no longer follows the primary that it had, which is not told.
    ///
    /// # Errors
    ///
    /// If the server refuses, or does not answer.
    pub fn promote(&self, server: usize) -> io::Result<()> {
        self.ask(server, &["REPLICAOF", "NO", "ONE"])
    }

    /// Makes a replica of this server, which follows `primary` from now on. Its connections stay open.
    ///
    /// # Errors
    ///
    /// If the server refuses, or does not answer.
    pub fn demote(&self, server: usize, primary: usize) -> io::Result<()> {
        let port = self.servers[primary].port().to_string();
        self.ask(server, &["REPLICAOF", "127.0.0.1", &port])
    }

    /// Waits until no replica lags behind the primary by a byte, while no client writes.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn catch_up(&self) -> io::Result<()> {
        self.become_whole()?;
        let offset = |server: &Owned| self.line(server, "master_repl_offset");
        cluster::all(&self.servers, |server| {
            let there = offset(server);
            there.is_some() && there == offset(&self.servers[0])
        })
    }

    fn ask(&self, server: usize, command: &[&str]) -> io::Result<()> {
        super::ask(&login(&self.servers[server].own_url(), self.password()), command)
    }

    /// Returns the value of this line of the server's answer to `INFO replication`.
    fn line(&self, server: &Owned, name: &str) -> Option<String> {
        super::line(&login(&server.own_url(), self.password()), &["INFO", "replication"], name)
    }
}

/// Returns the value of one argument of the program.
fn argument(settings: &Settings, name: &str) -> Option<String> {
    let at = settings.args.iter().position(|argument| argument == name)?;
    settings.args.get(at + 1).cloned()
}
