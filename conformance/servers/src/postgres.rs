//! PostgreSQL.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::catalogue::{self, Listing};
use super::executable::{Account, Executable};
use super::image::Image;
use super::product::{Place, Product};
use super::settings::{Persistence, Settings};
use super::sql::{self, DATABASE, USER};
use super::template;

/// PostgreSQL, one server.
#[derive(Debug)]
pub enum Postgres {
    /// The one that is installed here.
    Installed,
    /// The newest one that Debian has.
    Unstable,
}

impl Product for Postgres {
    fn listing(&self) -> &'static Listing {
        match self {
            Postgres::Installed => &catalogue::POSTGRES,
            Postgres::Unstable => &catalogue::POSTGRES_UNSTABLE,
        }
    }

    fn account(&self) -> Account {
        Account::Unprivileged
    }

    fn prepare(&self, program: &Executable, place: &Place, _: &Settings) -> io::Result<()> {
        template::copy(program, &self.data(place), |data| {
            let mut initdb = program.sibling("initdb")?.command();
            initdb.args(["--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync", "--no-instructions"]);
            template::run(initdb.arg("--username").arg(USER).arg("--pgdata").arg(data).current_dir("/"))?;
            name_database(program, data)
        })
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        let mut command = program.command();
        command.arg("-D").arg(self.data(place)).arg("-k").arg(&place.folder);
        command.args(["-h", "127.0.0.1", "-p", &place.port.to_string()]).current_dir(&place.folder);
        // Uses files in the data folder: the system's shared memory would outlive a killed server.
        command.args(["-c", "dynamic_shared_memory_type=mmap"]).args(arguments(settings));
        command
    }

    /// Removes the segment in the system's shared memory by which a server sees whether another one runs on its data. A
    /// segment that is removed now lasts as long as its processes, however they end.
    fn started(&self, place: &Place) -> io::Result<()> {
        let written = fs::read_to_string(self.data(place).join("postmaster.pid"))?;
        // Its 7th line has the key and the id, where there is such a segment.
        let id = written.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        id.map_or(Ok(()), |id| template::run(Command::new("ipcrm").args(["-m", id])))
    }

    fn url(&self, place: &Place) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{DATABASE}", place.port)
    }

    fn socket(&self, place: &Place) -> Option<PathBuf> {
        Some(place.folder.join(format!(".s.PGSQL.{}", place.port)))
    }

    fn own_url(&self, place: &Place) -> String {
        let (port, folder) = (place.port, place.folder.display());
        format!("postgres://{USER}@localhost:{port}/{DATABASE}?host={folder}")
    }

    fn image(&self, settings: &Settings) -> Option<Image> {
        Some(Image {
            name: match self {
                Postgres::Installed => "postgres:17",
                Postgres::Unstable => "postgres:18",
            },
            port: 5432,
            environment: &[
                ("POSTGRES_USER", USER),
                ("POSTGRES_DB", DATABASE),
                ("POSTGRES_HOST_AUTH_METHOD", "trust"),
                ("POSTGRES_INITDB_ARGS", "--no-locale --encoding=UTF8 --no-sync"),
            ],
            arguments: arguments(settings),
            url: |address| format!("postgres://{USER}@{address}/{DATABASE}"),
        })
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        let version: String = sql::value::<sqlx::Postgres, _>(url, "SHOW server_version")?;
        Ok(format!("postgres {}", version.split(' ').next().unwrap_or_default()))
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        sql::value::<sqlx::Postgres, _>(url, now).map(sql::time)
    }
}

/// Returns the options that are the same wherever it runs.
fn arguments(settings: &Settings) -> Vec<String> {
    let persistence: &[&str] = match settings.persistence {
        Persistence::EveryWrite => &["fsync=on", "synchronous_commit=on"],
        Persistence::None => &["fsync=off", "synchronous_commit=off", "full_page_writes=off"],
    };
    let set = ["max_connections=300"].iter().chain(persistence);
    let set = set.flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
    set.chain(settings.args.iter().cloned()).collect()
}

/// Renames the first database to the name that the URL has. Runs without a server. A second database would double what
/// is copied.
fn name_database(program: &Executable, data: &Path) -> io::Result<()> {
    let statement = data.join("rename.sql");
    fs::write(&statement, format!("ALTER DATABASE postgres RENAME TO {DATABASE}\n"))?;
    let mut alone = program.command();
    alone.args(["--single", "-F", "-D"]).arg(data).arg("template1").stdin(fs::File::open(&statement)?);
    template::run(alone.current_dir("/"))?;
    fs::remove_file(statement)
}
