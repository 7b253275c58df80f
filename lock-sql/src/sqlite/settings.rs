//! How a file is named: by a URL, or by sqlx' own options.

use std::time::Duration;

use lock_core::{Client, Context, Error, Location, Options, Prefix, Result};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::schema;
use super::table::SqliteTable;
use crate::driver::SqlDriver;

/// A SQLite file, and how to open it.
///
/// ```
/// # async fn example() -> lock_core::Result<()> {
/// use lock_sql::{Options, sqlite::Sqlite, sqlx::sqlite::SqliteConnectOptions};
/// let own = SqliteConnectOptions::new().filename("/var/lib/billing/app.db");
/// let client = Sqlite::from(own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Sqlite {
    pub(crate) options: SqliteConnectOptions,
    pub(crate) prefix: Prefix,
    pub(crate) trust: Trust,
    pub(crate) boot: BootId,
    patience: Option<Duration>,
}

/// On which file systems a file may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// On those that are known to be a disk of this machine.
    Local,
    /// On any: the user says that no other machine uses the file.
    Anything,
}

/// Which boot id is taken for the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootId {
    /// The kernel's own.
    OfTheMachine,
    /// What is read in its place: the user says that no process outside this container uses the file.
    OfTheContainer,
}

const PARAMETERS: &str = "prefix, patience, fs, boot";

impl Sqlite {
    /// Reads a URL: `sqlite:///absolute/path.db`, or `sqlite:relative.db`, which is relative to the process's folder.
    ///
    /// The file is created if it isn't there; its folder is not. Parameters: `prefix` (stands before every name in the
    /// file), `patience` (how long one call may take), `fs=trust` (takes a file on a file system that is not known to be
    /// local), `boot=trust` (takes the boot id that a container's manager made up). A `?`, `#` or `%` in the path is written `%3F`, `%23`, `%25`. `Invalid` for any other parameter, and for
    /// what names no file.
    pub fn from_url(url: &str) -> Result<Sqlite> {
        let mut url = Location::parse(url)?;
        let path = parse_path(url.base())?;
        let options =
            SqliteConnectOptions::new().filename(path).create_if_missing(true).disable_statement_logging();
        let mut sqlite = Sqlite::from(options);
        sqlite.prefix = url.take_prefix()?;
        sqlite.patience = url.take_duration("patience")?;
        if is_trusted(&mut url, "fs")? {
            sqlite = sqlite.trust_file_system();
        }
        if is_trusted(&mut url, "boot")? {
            sqlite = sqlite.trust_boot_id();
        }
        url.finish(PARAMETERS)?;
        Ok(sqlite)
    }

    /// Puts `prefix` before every name in the file. `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Sqlite> {
        self.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Takes a file on a file system that is not known to be a disk of this machine, as `?fs=trust` does. If another
    /// machine uses the file too, both hold the same lock.
    #[must_use]
    pub fn trust_file_system(mut self) -> Sqlite {
        self.trust = Trust::Anything;
        self
    }

    /// Takes the boot id that this process reads, also where the manager of its container has mounted another file over
    /// the kernel's, as `?boot=trust` does. If a process outside this container uses the file too, both hold the same
    /// lock.
    #[must_use]
    pub fn trust_boot_id(mut self) -> Sqlite {
        self.boot = BootId::OfTheContainer;
        self
    }

    /// The statement that creates the table of locks. Does no I/O.
    pub fn schema(&self) -> String {
        format!("-- made by whoever opens the file first\n{};", schema::CREATE)
    }

    /// Opens a client. The table of locks is created if it isn't there.
    ///
    /// `Rejected` if the folder is missing, the file may not be written, is no database, can be reached by another path
    /// (a hard link, a mount of the file alone), or has a table of another version or one with triggers; `Unsupported`
    /// if it lies on a file system that other machines may reach, or the boot id that this process reads is not the
    /// kernel's; `Unavailable` if another process keeps it locked, or the disk is full.
    pub async fn open(self, options: Options) -> Result<Client> {
        let options = match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        };
        if is_in_memory(&self.options) {
            return Err(Error::unsupported(
                "a database in memory is seen by one connection only; for locks of one process there is memory://",
            ));
        }
        let file = self.options.get_filename().display().to_string();
        options.open("sqlite", &file, |context| open(self, context)).await
    }
}

impl From<SqliteConnectOptions> for Sqlite {
    /// A file as sqlx' own options name it, without a prefix. Journal mode, synchronous and busy timeout are set by us.
    fn from(options: SqliteConnectOptions) -> Sqlite {
        Sqlite {
            options,
            prefix: Prefix::default(),
            trust: Trust::Local,
            boot: BootId::OfTheMachine,
            patience: None,
        }
    }
}

impl std::fmt::Debug for Sqlite {
    /// Without sqlx' options: they show the key of an encrypted file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite")
            .field("file", &self.options.get_filename())
            .field("prefix", &self.prefix)
            .field("trust", &self.trust)
            .field("boot", &self.boot)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

async fn open(sqlite: Sqlite, context: Context) -> Result<SqlDriver<SqliteTable>> {
    let clock = context.clock.clone();
    Ok(SqlDriver::new(SqliteTable::open(sqlite, context).await?, clock))
}

fn is_trusted(url: &mut Location, parameter: &str) -> Result<bool> {
    match url.take(parameter).as_deref() {
        None => Ok(false),
        Some("trust") => Ok(true),
        Some(_) => Err(Error::invalid(format!("there is only {parameter}=trust"))),
    }
}

fn is_in_memory(options: &SqliteConnectOptions) -> bool {
    // `in_memory` has no getter, and gives the file a name that begins so.
    options.get_filename().to_string_lossy().starts_with("file:sqlx-in-memory")
        || options.get_filename().as_os_str() == ":memory:"
}

fn parse_path(base: &str) -> Result<String> {
    let wrong = |why: &str| {
        Err(Error::invalid(format!("{why}; write sqlite:///absolute/path.db or sqlite:relative.db")))
    };
    let Some(rest) = base.strip_prefix("sqlite:") else { return wrong("no SQLite URL") };
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        // Two slashes introduce a host, which a file doesn't have: the folder would be taken for one.
        Some(_) => return wrong("a path behind two slashes has to be absolute"),
        None => rest,
    };
    if path.contains('#') {
        return wrong("a # in a path is written %23");
    }
    match unescape(path) {
        Some(path) if path.is_empty() || path.ends_with('/') => wrong("the URL names no file"),
        Some(path) if path.contains('\0') => wrong("a path has no zero byte"),
        Some(path) => Ok(path),
        None => wrong("a broken % escape in the path"),
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(is_hex.then(|| u8::from_str_radix(digits, 16).ok())??);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        assert_eq!(sqlite.prefix, Prefix::new("app:").unwrap());
        assert_eq!((sqlite.trust, sqlite.boot), (Trust::Anything, BootId::OfTheContainer));
        assert_eq!(sqlite.patience, Some(Duration::from_millis(250)));
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
