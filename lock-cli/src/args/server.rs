//! The choice of the server: `--on`, `--on-file`, `$LOCK_URL`, or the user's own file.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::{env, fs};

use onelock::{Client, Options};

use crate::exit::{Exit, Failure};

/// The variable with the server's URL if the call doesn't name one.
const URL_VARIABLE: &str = "LOCK_URL";

/// The arguments that name the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    /// A file whose first line is the server's URL, which then shows neither in `ps` nor in the environment
    #[arg(long, value_name = "PATH")]
    on_file: Option<PathBuf>,

    /// The server's URL: redis://host, postgres://user@host/database, or sqlite:///path/of/file
    #[arg(long, value_name = "URL", conflicts_with = "on_file", long_help = on_in_full())]
    on: Option<String>,

    /// Fail if no server is named, instead of using the SQLite file in your state folder
    #[arg(long)]
    require_server: bool,
}

/// Returns the help for `--on`. The schemes are those of all backends.
fn on_in_full() -> String {
    let schemes = onelock::SCHEMES.iter().filter(|scheme| !is_memory(scheme));
    let schemes = schemes.map(|scheme| format!("{scheme}://")).collect::<Vec<_>>().join(", ");
    format!(
        "The server's URL, such as redis://host, postgres://user@host/database, redlock://a,b,c or \
         sqlite:///path/of/file. There are: {schemes}.\n\nA scheme with one more s at its end, such as rediss://, is \
         the same server with TLS; servers without such a scheme have a parameter for it. `ps` shows this argument: put \
         a URL with a password into ${URL_VARIABLE} or a file (--on-file). Without --on, --on-file and ${URL_VARIABLE}, \
         the locks are in a SQLite file in your state folder."
    )
}

impl Server {
    /// Returns the server's URL. If it is the user's own file, creates its folder if necessary. Creates no other
    /// folder.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = self.named()? {
            return Ok(url);
        }
        let folder = own_folder()?;
        refuse_other_owner(&folder)?;
        make(&folder).map_err(|e| {
            let what = format!(
                "the folder {} for this user's locks can't be created: {e}; give --on URL",
                folder.display()
            );
            Failure::new(Exit::Unavailable, what)
        })?;
        own_file(&folder)
    }

    /// Returns what the server needs once. Sends nothing to it, and creates nothing.
    pub(crate) fn schema(&self) -> Result<String, Failure> {
        let url = self.named()?.map_or_else(|| own_file(&own_folder()?), Ok)?;
        Ok(onelock::schema(&url)?)
    }

    fn named(&self) -> Result<Option<String>, Failure> {
        let url = match (&self.on, &self.on_file) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(path)) => Some(first_line(path)?),
            (None, None) => of_environment(env::var_os(URL_VARIABLE))?,
        };
        let url = url.map(|url| bare(&url).to_owned());
        match &url {
            Some(url) => refuse_memory(url)?,
            None if self.require_server => {
                let what = format!(
                    "--require-server is given, but no server: give --on URL, or set ${URL_VARIABLE}"
                );
                return Err(Failure::new(Exit::Usage, what));
            }
            None => {}
        }
        Ok(url)
    }

    /// Opens a client of the server, for a call that looks once.
    pub(crate) async fn open(&self, options: Options) -> Result<Client, Failure> {
        Ok(onelock::connect_with(&self.url()?, options).await?)
    }
}

/// Returns the URL in the environment. A variable that is set but empty is an error, because a secret may be missing:
/// then a file on this machine is not what the user wants.
fn of_environment(variable: Option<OsString>) -> Result<Option<String>, Failure> {
    let Some(url) = variable else { return Ok(None) };
    match url.into_string() {
        Ok(url) if !url.trim().is_empty() => Ok(Some(url)),
        Ok(_) => Err(Failure::new(
            Exit::Usage,
            format!(
                "${URL_VARIABLE} is set, but empty: set it to the server's URL, or unset it to keep the locks in a file \
                 on this machine"
            ),
        )),
        // The value is not shown, because it may contain a password.
        Err(_) => Err(Failure::new(Exit::Usage, format!("${URL_VARIABLE} is not UTF-8"))),
    }
}

/// Returns the URL without what is around it in files of assignments, and in what was read from such a file
/// by a program that is no shell: `export LOCK_URL="redis://host"`. None of it can begin or end a URL.
fn bare(url: &str) -> &str {
    let url = url.trim_start_matches('\u{feff}').trim();
    let url = url.strip_prefix("export ").unwrap_or(url).trim_start();
    let value = url.strip_prefix(URL_VARIABLE).and_then(|rest| rest.trim_start().strip_prefix('='));
    let url = value.unwrap_or(url).trim();
    let quoted = |quote| url.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(url).trim()
}

/// Refuses `memory://`, whose locks exist in one process only: no other process would see them.
fn refuse_memory(url: &str) -> Result<(), Failure> {
    // A malformed URL becomes an error when it is opened.
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match is_memory(&scheme.to_ascii_lowercase()) {
        true => Err(Failure::new(
            Exit::Usage,
            format!(
                "{scheme}:// keeps locks within one process, so this lock would exclude no other process; for the \
                 processes of one machine give sqlite:///path/of/file"
            ),
        )),
        false => Ok(()),
    }
}

fn is_memory(scheme: &str) -> bool {
    matches!(scheme, "memory" | "memory+queue" | "memory+register")
}

/// The longest first line.
const LONGEST: u64 = 64 << 10;

/// Reads no more than the first line: the file may be a pipe that stays open, or have no end.
fn first_line(path: &Path) -> Result<String, Failure> {
    let (path_shown, mut line) = (path.display(), String::new());
    let usage = |what| Err(Failure::new(Exit::Usage, what));
    let read = fs::File::open(path).and_then(|file| BufReader::new(file.take(LONGEST)).read_line(&mut line));
    match (read, line.trim()) {
        (Err(e), _) => usage(format!("{path_shown} can't be read: {e}")),
        (Ok(read), _) if read as u64 == LONGEST => {
            usage(format!("the first line of {path_shown} is too long; it must be the server's URL"))
        }
        (Ok(_), "") => usage(format!("the first line of {path_shown} is empty; it must be the server's URL")),
        (Ok(_), url) => Ok(url.to_owned()),
    }
}

/// Returns the folder of this user's own file on this machine.
fn own_folder() -> Result<PathBuf, Failure> {
    state_folder().ok_or_else(|| {
        let what = format!(
            "no server is named: give --on URL, or set ${URL_VARIABLE} (for example redis://localhost); \
             there is no home folder for a SQLite file either"
        );
        Failure::new(Exit::Usage, what)
    })
}

fn own_file(folder: &Path) -> Result<String, Failure> {
    let file = folder.join("locks.db");
    match file.to_str() {
        Some(path) => Ok(format!("sqlite://{}", escaped(path))),
        None => Err(Failure::new(Exit::Usage, format!("{} is not UTF-8; give --on URL", file.display()))),
    }
}

/// Escapes the characters of a path that have a meaning in a URL.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// The folder for a program's data that must survive the program (XDG Base Directory Specification; a relative path
/// there does not count).
#[cfg(not(any(windows, target_os = "macos")))]
fn state_folder() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| Some(absolute(env::var_os("HOME")?.into())?.join(".local/state")));
    Some(state?.join("onelock"))
}

#[cfg(target_os = "macos")]
fn state_folder() -> Option<PathBuf> {
    Some(PathBuf::from(env::var_os("HOME")?).join("Library/Application Support/onelock"))
}

#[cfg(windows)]
fn state_folder() -> Option<PathBuf> {
    Some(PathBuf::from(env::var_os("LOCALAPPDATA")?).join("onelock"))
}

/// Refuses a folder that belongs to another user, or is to be made in one: what this user makes there would lock the
/// other one out, as root does that has kept the other's HOME (`sudo -E`).
#[cfg(unix)]
fn refuse_other_owner(folder: &Path) -> Result<(), Failure> {
    let exists = folder.ancestors().find_map(|there| Some((there, fs::metadata(there).ok()?)));
    let Some((there, existing)) = exists else { return Ok(()) };
    let owner = std::os::unix::fs::MetadataExt::uid(&existing);
    // In one of root's, such as /tmp, each user can make one that is the user's own.
    let of_root = there != folder && owner == 0;
    if of_root || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let what = format!(
        "the folder for this user's locks would be {}, and {} belongs to another user (uid {owner}): set HOME to this \
         user's own folder, or give --on URL, for example sqlite:///path/of/file",
        folder.display(),
        there.display()
    );
    Err(Failure::new(Exit::Unavailable, what))
}

#[cfg(not(unix))]
fn refuse_other_owner(_folder: &Path) -> Result<(), Failure> {
    Ok(())
}

/// Creates the folder for this user alone: a user that can write the file can take the locks.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_around_a_url_is_no_part_of_it() {
        for around in [
            "redis://h",
            "\u{feff}redis://h",
            " redis://h\r\n",
            "\"redis://h\"",
            "'redis://h'",
            "LOCK_URL=redis://h",
            "LOCK_URL = 'redis://h'",
            "\u{feff}export LOCK_URL=\"redis://h\"\n",
        ] {
            assert_eq!(bare(around), "redis://h", "{around:?}");
        }
        // A part of the URL.
        for url in ["redis://:a'@h", "\"redis://h", "redis://h?prefix='a'", "OTHER=redis://h"] {
            assert_eq!(bare(url), url);
        }
    }
}
