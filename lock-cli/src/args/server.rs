//! Which server: `--on`, `--on-file`, `$LOCK_URL`, or a file of one's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use onelock::{Client, Options};

use crate::exit::{Exit, Failure};

/// Where the server's URL is looked for when the call doesn't name one.
const URL_VARIABLE: &str = "LOCK_URL";

/// The server.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    /// A file whose first line is the server's URL: neither `ps` nor the environment shows it
    #[arg(long, value_name = "PATH")]
    on_file: Option<PathBuf>,

    /// The server: redis://host, valkey://host, unix:///path/of/socket, redlock://a,b,c, postgres://user@host/database,
    /// mysql://user@host/database, mariadb://…, mongodb://host/database, etcd://a,b,c, zk://a,b,c/chroot, or
    /// sqlite:///path/of/file
    ///
    /// With TLS: rediss://, valkeys://, redlocks://, etcds://, zks://; the others by a parameter of their own. Other
    /// names of the same: redis+unix://, valkey+unix://, postgresql://, mongodb+srv://. It shows in `ps`: a URL with a
    /// password belongs into $LOCK_URL or a file. Without any of the three the server is a SQLite file in your state
    /// folder.
    #[arg(long, value_name = "URL", conflicts_with = "on_file")]
    on: Option<String>,

    /// An error if no server is named, in the place of the SQLite file in your state folder
    #[arg(long)]
    require_server: bool,
}

impl Server {
    /// The server's URL. The folder of a file of one's own is made if it is missing; a server that is asked for is not.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = self.named()? {
            return Ok(url);
        }
        let folder = own_folder()?;
        make(&folder).map_err(|e| {
            let what =
                format!("{} can't be made for the locks of this user: {e}; give --on URL", folder.display());
            Failure::new(Exit::Unavailable, what)
        })?;
        own_file(&folder)
    }

    /// What it needs once. Nothing is asked of it, and nothing is made.
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
        match &url {
            Some(url) => refuse_memory(url)?,
            None if self.require_server => {
                let what = format!("--require-server, and no server: give --on URL, or set ${URL_VARIABLE}");
                return Err(Failure::new(Exit::Usage, what));
            }
            None => {}
        }
        Ok(url)
    }

    /// A client of it, for a call that looks once.
    pub(crate) async fn open(&self, options: Options) -> Result<Client, Failure> {
        Ok(onelock::connect_with(&self.url()?, options).await?)
    }
}

/// A variable that is set and names no server is a mistake, a secret that is missing for one: locks in a file of this
/// machine's are not what was meant.
fn of_environment(variable: Option<OsString>) -> Result<Option<String>, Failure> {
    let Some(url) = variable else { return Ok(None) };
    match url.into_string() {
        Ok(url) if !url.trim().is_empty() => Ok(Some(url)),
        Ok(_) => Err(Failure::new(
            Exit::Usage,
            format!(
                "${URL_VARIABLE} is set, but empty: give it the server's URL, or unset it for locks in a file of this \
                 machine's"
            ),
        )),
        // Not shown: it may hold a password.
        Err(_) => Err(Failure::new(Exit::Usage, format!("${URL_VARIABLE} is not UTF-8"))),
    }
}

/// The locks of `memory://` are those of one process, which nothing but this call is in.
fn refuse_memory(url: &str) -> Result<(), Failure> {
    // What is no URL is told of when it is opened.
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme {
        "memory" | "memory+queue" => Err(Failure::new(
            Exit::Usage,
            format!(
                "{scheme}:// holds locks of one process, and this one is alone in it: they would protect nothing; for \
                 the processes of one machine give sqlite:///path/of/file"
            ),
        )),
        _ => Ok(()),
    }
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let path_shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|e| Failure::new(Exit::Usage, format!("{path_shown} can't be read: {e}")))?;
    match text.lines().next().map(str::trim) {
        Some(url) if !url.is_empty() => Ok(url.to_owned()),
        _ => Err(Failure::new(Exit::Usage, format!("the first line of {path_shown} is no URL: it is empty"))),
    }
}

/// Where the file of this user on this machine is.
fn own_folder() -> Result<PathBuf, Failure> {
    state_folder().ok_or_else(|| {
        let what = format!(
            "no server: give --on URL, or set ${URL_VARIABLE} (redis://localhost, for one); \
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

/// What a URL needs escaped in a path.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// For what a program keeps between its runs (XDG Base Directory Specification: a relative path there counts as none).
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

/// For nobody else: who may write the file may take the locks.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
