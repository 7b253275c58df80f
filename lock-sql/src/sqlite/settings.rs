//! The settings of the connection to a file: from a URL, or from sqlx' own options.

use std::sync::OnceLock;

use lock_core::driver::Context;
use lock_core::toolkit::{CommonParameters, Location, Opening, Prefix, Process, unescape};
use lock_core::{Client, Error, Options, Result};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::schema;
use super::table::SqliteTable;
use crate::driver::SqlDriver;

/// A SQLite file, and how to open it.
///
/// ```
/// # use lock_sql as onelock;
/// # async fn example() -> lock_core::Result<()> {
/// use onelock::{Options, sqlite::Sqlite, sqlx::sqlite::SqliteConnectOptions};
/// let own = SqliteConnectOptions::new().filename("/var/lib/billing/app.db");
/// let client = Sqlite::from(own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Sqlite {
    pub(crate) options: SqliteConnectOptions,
    pub(crate) common: CommonParameters,
    pub(crate) trust: Trust,
    pub(crate) boot: BootId,
}

/// The file systems that a file may be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Only those that are known to be a disk of this machine.
    Local,
    /// Any file system: the user says that no other machine uses the file.
    Anything,
}

/// The boot id that counts as the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootId {
    /// The kernel's own.
    OfTheMachine,
    /// The one that is read in its place: the user says that no process outside this container uses the file.
    OfTheContainer,
}

const PARAMETERS: &str = "prefix, patience, connect_wait, lazy, fs, boot";

impl Sqlite {
    /// Reads a URL: `sqlite:///absolute/path.db`, or `sqlite:relative.db`, which is relative to the process's folder.
    ///
    /// A `?`, `#` or `%` in the path is written `%3F`, `%23`, `%25`.
    ///
    /// The file is created if it does not exist; its folder must exist. Parameters:
    ///
    /// - `prefix`: stands before every name in the file.
    /// - `patience`: how long one call may take.
    /// - `connect_wait`: for how long opening tries again while the server can\'t be reached, like `30s`.
    /// - `lazy=true`: opening doesn't open the file, or create it. Its folder must exist all the same.
    /// - `fs=trust`: accepts a file on a file system that is not known to be local.
    /// - `boot=trust`: accepts a boot id that a container's manager has made up.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid): the URL names no file, has any other parameter, or a parameter has a
    /// wrong value.
    pub fn from_url(url: &str) -> Result<Sqlite> {
        let mut url = Location::parse(url)?;
        let path = parse_path(url.base())?;
        let options =
            SqliteConnectOptions::new().filename(path).create_if_missing(true).disable_statement_logging();
        let mut sqlite = Sqlite::from(options);
        sqlite.common = url.take_common()?;
        if take_trust(&mut url, "fs")? {
            sqlite = sqlite.trust_file_system();
        }
        if take_trust(&mut url, "boot")? {
            sqlite = sqlite.trust_boot_id();
        }
        url.finish(PARAMETERS)?;
        Ok(sqlite)
    }

    /// Puts `prefix` before every name in the file.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid), as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Sqlite> {
        self.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Accepts a file on a file system that is not known to be a disk of this machine, as `?fs=trust` does.
    ///
    /// If another machine uses the file too, two clients can hold the same lock.
    #[must_use]
    pub fn trust_file_system(mut self) -> Sqlite {
        self.trust = Trust::Anything;
        self
    }

    /// Accepts the boot id that this process reads, even if the manager of its container has mounted another file over
    /// the kernel's, as `?boot=trust` does.
    ///
    /// If a process outside this container uses the file too, two clients can hold the same lock.
    #[must_use]
    pub fn trust_boot_id(mut self) -> Sqlite {
        self.boot = BootId::OfTheContainer;
        self
    }

    /// Returns the statement that creates the table of locks.
    ///
    /// Does no I/O.
    pub fn schema(&self) -> String {
        format!("-- created by the client that opens the file first\n{};", schema::CREATE)
    }

    /// Makes [`open`](Self::open) return without opening the file.
    ///
    /// If the file can't be used, the first call returns that error instead. Its folder must exist all the same.
    #[must_use]
    pub fn lazy(mut self) -> Sqlite {
        self.common.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless [lazy](Self::lazy), it opens the file, and creates the table of locks if it is missing.
    ///
    /// # Errors
    ///
    /// - [`Rejected`](lock_core::ErrorKind::Rejected): the folder is missing; or the file can't be written, is no
    ///   database, can be reached by another path (a hard link, a mount of the file alone), or has a table of another
    ///   version, one that is not a table of locks, or one with triggers.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported): the file is on a file system that other machines may
    ///   reach, or in memory; or the boot id that this process reads is not the kernel's; or this process is a fork of one
    ///   that has opened a client.
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable): another process keeps the file locked, or the disk is
    ///   full.
    /// - [`Invalid`](lock_core::ErrorKind::Invalid): the patience is less than 1 ms; or the client is not
    ///   [`dedicated`](Options::dedicated), and there is no tokio runtime here.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client remains. The file and the table of locks may have been created all the same.
    pub async fn open(self, options: Options) -> Result<Client> {
        let options = self.common.apply_to(options);
        if is_in_memory(&self.options) {
            return Err(Error::unsupported(
                "a database in memory is seen by one connection only; for locks within one process, use memory://",
            ));
        }
        let file = self.options.get_filename().display().to_string();
        options.open("sqlite", &file, |context| open(self.clone(), context)).await
    }
}

impl From<SqliteConnectOptions> for Sqlite {
    /// Describes a file by sqlx' own options, without a prefix. The client sets the journal mode, the synchronous mode
    /// and the busy timeout itself.
    fn from(options: SqliteConnectOptions) -> Sqlite {
        Sqlite {
            options,
            common: CommonParameters::default(),
            trust: Trust::Local,
            boot: BootId::OfTheMachine,
        }
    }
}

impl std::fmt::Debug for Sqlite {
    /// Without sqlx' options, which would show the key of an encrypted file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite")
            .field("file", &self.options.get_filename())
            .field("common", &self.common)
            .field("trust", &self.trust)
            .field("boot", &self.boot)
            .finish_non_exhaustive()
    }
}

/// The process that uses SQLite. A fork has copies of what SQLite knows of this process: mutexes, which may be locked for
/// ever, and locks on files, which the fork does not have (sqlite.org/howtocorrupt.html, 2.6).
static USED: OnceLock<Process> = OnceLock::new();

async fn open(sqlite: Sqlite, context: Context) -> Result<SqlDriver<SqliteTable>> {
    Process::must_be_first(&USED, "SQLite's mutexes and its locks on files are those of that process")?;
    let opening = sqlite.common.opening;
    SqlDriver::open(SqliteTable::new(sqlite)?, opening, context).await
}

/// Takes a parameter out of the URL, and returns whether it says `trust`.
fn take_trust(url: &mut Location, parameter: &str) -> Result<bool> {
    match url.take(parameter).as_deref() {
        None => Ok(false),
        Some("trust") => Ok(true),
        Some(_) => Err(Error::invalid(format!("there is only {parameter}=trust"))),
    }
}

fn is_in_memory(options: &SqliteConnectOptions) -> bool {
    // `in_memory` has no getter, but it gives the file a name that begins like this.
    options.get_filename().to_string_lossy().starts_with("file:sqlx-in-memory")
        || options.get_filename().as_os_str() == ":memory:"
}

fn parse_path(base: &str) -> Result<String> {
    let wrong = |why: &str| {
        Err(Error::invalid(format!("{why}; write sqlite:///absolute/path.db or sqlite:relative.db")))
    };
    let Some(rest) = base.strip_prefix("sqlite:") else { return wrong("not a SQLite URL") };
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        // Two slashes introduce a host, which a file doesn't have: the first folder would be taken for a host.
        Some(_) => return wrong("a path behind two slashes has to be absolute"),
        None => rest,
    };
    if path.contains('#') {
        return wrong("a # in a path is written %23");
    }
    match unescape(path) {
        Ok(path) if path.is_empty() || path.ends_with('/') => wrong("the URL names no file"),
        Ok(path) if path.contains('\0') => wrong("a path has no zero byte"),
        Ok(path) => Ok(path),
        Err(_) => wrong("a broken % escape in the path"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_names_a_file() {
        for (url, path) in [
            ("sqlite:///var/lib/l.db", "/var/lib/l.db"),
            ("sqlite:/var/l.db", "/var/l.db"),
            ("sqlite:l.db", "l.db"),
            ("sqlite:../a%20b%3F%25.db", "../a b?%.db"),
        ] {
            assert_eq!(Sqlite::from_url(url).unwrap().options.get_filename(), Path::new(path), "{url}");
        }
        let sqlite =
            Sqlite::from_url("sqlite:///l.db?prefix=app%3A&patience=250ms&fs=trust&boot=trust").unwrap();
        let mut expected = CommonParameters::default();
        expected.prefix = Prefix::new("app:").unwrap();
        expected.patience = Some(Duration::from_millis(250));
        assert_eq!(sqlite.common, expected);
        assert_eq!((sqlite.trust, sqlite.boot), (Trust::Anything, BootId::OfTheContainer));
        assert_eq!(Sqlite::from_url("sqlite:a?lazy=true").unwrap().common.opening, Opening::Lazy);
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "sqlite:",
            "sqlite://",
            "sqlite:///",
            "sqlite://relative.db",
            "sqlite:a/",
            "sqlite:a#b",
            "sqlite:a%2",
            "sqlite:a%+1",
            "sqlite:a%00",
            "sqlite:a?mode=ro",
            "sqlite:a?fs=nfs",
            "sqlite:a?boot=1",
            "sqlite:a?patience=5",
            "http://h",
        ] {
            assert_eq!(Sqlite::from_url(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
