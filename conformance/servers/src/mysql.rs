//! MySQL, and MariaDB, which has the same protocol but is set up and configured differently.

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

/// One server of the MySQL family.
#[derive(Debug)]
pub enum MySql {
    /// MySQL itself.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Product for MySql {
    fn listing(&self) -> &'static Listing {
        match self {
            MySql::MySql => &catalogue::MYSQL,
            MySql::MariaDb => &catalogue::MARIADB,
        }
    }

    fn account(&self) -> Account {
        Account::Unprivileged
    }

    fn prepare(&self, program: &Executable, place: &Place, _: &Settings) -> io::Result<()> {
        template::copy(program, &self.data(place), |data| {
            let beginning = data.with_extension("sql");
            fs::write(&beginning, first_statements())?;
            self.initialize(program, data, &beginning)
        })
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        let mut command = program.command();
        let folder = place.folder.display();
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.args(self.storage()).current_dir(&place.folder);
        command.arg(format!("--port={}", place.port)).arg(format!("--socket={folder}/mysql.sock"));
        command.arg(format!("--datadir={folder}/data")).arg(format!("--tmpdir={folder}"));
        command.arg(format!("--pid-file={folder}/pid"));
        command.args(arguments(settings));
        command
    }

    fn url(&self, place: &Place) -> String {
        format!("mysql://{USER}@127.0.0.1:{}/{DATABASE}", place.port)
    }

    fn socket(&self, place: &Place) -> Option<PathBuf> {
        Some(place.folder.join("mysql.sock"))
    }

    fn own_url(&self, place: &Place) -> String {
        let folder = place.folder.display();
        format!("mysql://{USER}@localhost/{DATABASE}?ssl-mode=disabled&socket={folder}/mysql.sock")
    }

    /// Connects as root: another user would need a password, and would have too few rights.
    fn image(&self, settings: &Settings) -> Option<Image> {
        let (name, environment): (_, &[_]) = match self {
            MySql::MySql => {
                ("mysql:8.4", &[("MYSQL_ALLOW_EMPTY_PASSWORD", "1"), ("MYSQL_DATABASE", DATABASE)])
            }
            MySql::MariaDb => (
                "mariadb:11.4",
                &[("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "1"), ("MARIADB_DATABASE", DATABASE)],
            ),
        };
        let arguments = arguments(settings);
        let url = |address: &str| format!("mysql://root@{address}/{DATABASE}");
        Some(Image { name, port: 3306, environment, arguments, url })
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        let version: String = sql::value::<sqlx::MySql, _>(url, "SELECT VERSION()")?;
        Ok(name(&version))
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        let now = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)";
        sql::value::<sqlx::MySql, _>(url, now).map(sql::time)
    }
}

impl MySql {
    /// Makes the data folder, and runs these statements in it.
    fn initialize(&self, program: &Executable, data: &Path, statements: &Path) -> io::Result<()> {
        let mut command = match self {
            MySql::MySql => {
                let mut command = program.command();
                command.args(["--no-defaults", "--initialize-insecure", "--skip-log-bin"]);
                command.arg(format!("--init-file={}", statements.display()));
                command
            }
            MySql::MariaDb => {
                let mut command = program.sibling("mariadb-install-db")?.command();
                command.args(["--no-defaults", "--skip-test-db"]);
                command.arg(format!("--extra-file={}", statements.display()));
                command
            }
        };
        // The folder is copied before any server relies on it, so nothing has to reach the disk.
        command.args(self.storage()).arg("--innodb-flush-method=nosync");
        // Two servers that run at a time would take each other's files in /tmp.
        let temporary = data.parent().unwrap_or(data).display();
        command.arg(format!("--datadir={}", data.display())).arg(format!("--tmpdir={temporary}"));
        template::run(command.current_dir("/"))
    }

    /// The same options for making the folder and for serving it. The files are small, so that a copy costs little.
    fn storage(&self) -> &'static [&'static str] {
        match self {
            MySql::MySql => &[
                "--innodb-buffer-pool-size=32M",
                "--innodb-redo-log-capacity=32M",
                "--innodb-use-native-aio=OFF",
                "--secure-file-priv=NULL",
                "--mysqlx=OFF",
            ],
            MySql::MariaDb => &[
                "--innodb-buffer-pool-size=32M",
                "--innodb-log-file-size=16M",
                "--innodb-use-native-aio=OFF",
            ],
        }
    }
}

/// Returns the options that are the same wherever it runs.
fn arguments(settings: &Settings) -> Vec<String> {
    let persistence: &[&str] = match settings.persistence {
        Persistence::EveryWrite => &["--innodb-flush-log-at-trx-commit=1"],
        Persistence::None => &["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"],
    };
    let set =
        ["--performance-schema=OFF", "--skip-log-bin", "--max-connections=500"].iter().chain(persistence);
    set.map(|&argument| argument.to_owned()).chain(settings.args.iter().cloned()).collect()
}

/// Creates the user twice: `%` stands for every host except `localhost`, which stands for the socket.
fn first_statements() -> String {
    let user = |host| {
        format!("CREATE USER '{USER}'@'{host}';\nGRANT ALL ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;\n")
    };
    // A server runs these before it has read its users.
    format!("FLUSH PRIVILEGES;\nCREATE DATABASE {DATABASE};\n{}{}", user("%"), user("localhost"))
}

/// Returns `mariadb 10.11.19`, from what the server calls its version.
fn name(version: &str) -> String {
    let product = if version.contains("MariaDB") { "mariadb" } else { "mysql" };
    format!("{product} {}", version.split('-').next().unwrap_or_default())
}
