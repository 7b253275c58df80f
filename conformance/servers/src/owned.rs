//! A server that was started here, and so can be killed, stopped and restarted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_conformance::{Data, Step, record};

use super::catalogue::Listing;
use super::clock::WallClock;
use super::executable::Executable;
use super::folder::Folder;
use super::port::Port;
use super::process_tree::ProcessTree;
use super::product::{Place, Product};
use super::requirement::{Absence, NoServer, Requirement};
use super::settings::{Clock, Persistence, Settings};
use super::waiting::{greeted, last_lines};

/// A server has this long to start, and to end when it is asked to.
const LIMIT: Duration = Duration::from_secs(20);
/// The time between two questions to a server that starts.
const INTERVAL: Duration = Duration::from_millis(2);

/// Servers may tell the time in milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// A server that was started here. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct Owned {
    setup: Setup,
    /// Kept also while the server is down.
    _port: Port,
    url: String,
    version: String,
    // Declared before the folder, so that it is dropped first.
    process: Mutex<Option<ProcessTree>>,
    folder: Folder,
}

/// Everything that a start of a server needs to know.
#[derive(Debug)]
struct Setup {
    product: &'static dyn Product,
    program: Executable,
    settings: Settings,
    place: Place,
    clock: Option<WallClock>,
}

impl Owned {
    /// Starts a server, and waits until it answers.
    ///
    /// # Errors
    ///
    /// The reason if there is no program, or if it does not start. Also if the environment names a server: that server
    /// is the one to be tested, and the suite must not stop it.
    pub fn start(product: &'static dyn Product, settings: &Settings) -> Result<Owned, Absence> {
        let required = required(product.listing())?;
        Owned::from_program(product, settings)
            .map_err(|no_server| required.judge(product.listing(), no_server))
    }

    /// Finds the program of a server, and starts nothing.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Owned::start) that do not depend on the start.
    pub fn find(product: &'static dyn Product) -> Result<(), Absence> {
        let required = required(product.listing())?;
        program(product).map(drop).map_err(|no_server| required.judge(product.listing(), no_server))
    }

    /// Starts a server, whatever the environment names or requires.
    pub(super) fn from_program(
        product: &'static dyn Product,
        settings: &Settings,
    ) -> Result<Owned, NoServer> {
        let program = program(product)?;
        let path = program.path().to_owned();
        Owned::launch(product, program, settings).map_err(|error| no_server(&path, &error))
    }

    fn launch(product: &'static dyn Product, program: Executable, settings: &Settings) -> io::Result<Owned> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let (folder, port) = (Folder::new_in(&program.temporary())?, Port::free()?);
            let setup = Setup::new(product, &program, settings, &folder, port.number())?;
            setup.prepare()?;
            match setup.spawn() {
                Ok((process, version)) => {
                    record::ran_on(&version, &program.source());
                    let (url, process) = (product.url(&setup.place), Mutex::new(Some(process)));
                    return Ok(Owned { setup, _port: port, url, version, process, folder });
                }
                // Another process was faster to take the port. Or a process that another thread was about to start still
                // had the socket by which the port was found free.
                Err(error)
                    if Instant::now() < deadline
                        && (error.kind() == io::ErrorKind::AddrInUse
                            || TcpStream::connect((setup.place.address, setup.place.port)).is_ok()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the URL at which clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the URL at which no other server can answer.
    pub(super) fn own_url(&self) -> String {
        self.setup.own_url()
    }

    /// Returns where clients find it, as `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.setup.place.address, self.setup.place.port)
    }

    /// Returns its port at that address.
    pub fn port(&self) -> u16 {
        self.setup.place.port
    }

    /// Returns its Unix socket, if it has one.
    pub fn socket(&self) -> Option<PathBuf> {
        self.setup.product.socket(&self.setup.place)
    }

    /// Returns the folder with everything that it writes.
    pub fn folder(&self) -> &Path {
        &self.setup.place.folder
    }

    /// Returns the folder with its data, and with [files](Settings::files) for it.
    pub fn data(&self) -> PathBuf {
        self.setup.data()
    }

    /// Returns the program that was started.
    pub fn program(&self) -> &Executable {
        &self.setup.program
    }

    /// Returns the product's name and version, as the server tells them.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the id of its process; `None` if it is down.
    pub fn process_id(&self) -> Option<u32> {
        self.process().as_ref().map(ProcessTree::id)
    }

    /// Returns how its process has ended by itself; `None` if it runs, and if a test has ended it.
    pub fn ended(&self) -> Option<String> {
        let ended = self.process().as_ref()?.ended().ok()??;
        Some(format!("{ended:?}; its log ends with: {}", last_lines(&self.setup.printed())))
    }

    /// Kills it (-9), and waits until it is dead.
    ///
    /// # Errors
    ///
    /// If it is down.
    pub fn kill(&self) -> io::Result<()> {
        let process = self.process().take().ok_or_else(is_down)?;
        process.kill()
    }

    /// Asks it to end (SIGTERM), and waits until it has ended.
    ///
    /// # Errors
    ///
    /// If it is down, or does not end in time.
    pub fn stop(&self) -> io::Result<()> {
        let process = self.process().take().ok_or_else(is_down)?;
        process.terminate(LIMIT).map(drop)
    }

    /// Starts it again on the same port with the same settings, and waits until it answers. Kills it first if it runs.
    ///
    /// # Errors
    ///
    /// If it does not start, or for `Data::Kept` if it was started without persistence.
    pub fn restart(&self, data: Data) -> io::Result<()> {
        let mut running = self.process();
        // Dropping it kills and reaps the old process before the new one needs the port.
        *running = None;
        match (data, self.setup.settings.persistence) {
            (Data::Kept, Persistence::EveryWrite) => {}
            (Data::Kept, Persistence::None) => {
                return Err(io::Error::other("a server without persistence keeps no data"));
            }
            (Data::Lost, _) => {
                self.folder.clear()?;
                self.setup.prepare()?;
            }
        }
        *running = Some(self.setup.spawn()?.0);
        Ok(())
    }

    /// Stops it (SIGSTOP), and waits until it is stopped: connections stay open, and nothing is answered.
    ///
    /// # Errors
    ///
    /// If it is down.
    pub fn pause(&self) -> io::Result<()> {
        self.process().as_ref().ok_or_else(is_down)?.pause()
    }

    /// Lets it continue (SIGCONT).
    ///
    /// # Errors
    ///
    /// If it is down.
    pub fn resume(&self) -> io::Result<()> {
        self.process().as_ref().ok_or_else(is_down)?.resume()
    }

    /// Sets its clock, relative to the time that it shows. The server must run.
    ///
    /// # Errors
    ///
    /// If its clock is the machine's, or if the server does not tell the new time afterwards.
    pub fn step_clock(&self, step: Step) -> io::Result<()> {
        let clock =
            self.setup.clock.as_ref().ok_or_else(|| io::Error::other("its clock is the machine's"))?;
        let ask = || self.setup.product.time(&self.own_url());
        let asked = Instant::now();
        let before = ask()?;
        clock.step(step)?;
        let after = ask()?;
        let earliest = match step {
            Step::Forward(ahead) => before + ahead,
            Step::Back(back) => before - back,
        };
        // Not more time can have passed between the two answers than here.
        let latest = earliest + asked.elapsed();
        if (earliest - ROUNDING..=latest + ROUNDING).contains(&after) {
            return Ok(());
        }
        Err(io::Error::other(format!("set {step:?} from {before:?}, its clock says {after:?}")))
    }

    fn process(&self) -> MutexGuard<'_, Option<ProcessTree>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is required. The error is that the environment names a server, which no test may stop or configure.
fn required(listing: &Listing) -> Result<Requirement, Absence> {
    let required = Requirement::from_env()?;
    match std::env::var_os(listing.variable).is_some_and(|url| !url.is_empty()) {
        true => {
            let why = format!("the server of {} is not ours to stop or to configure", listing.variable);
            Err(Absence::NotRun(why))
        }
        false => Ok(required),
    }
}

fn program(product: &'static dyn Product) -> Result<Executable, NoServer> {
    let listing = product.listing();
    let found = listing.find(&std::env::var_os("PATH").unwrap_or_default());
    let found = found.ok_or_else(|| NoServer::Absent(listing.missing()))?;
    let path = found.program.clone();
    Executable::new(found, product.account()).map_err(|error| no_server(&path, &error))
}

fn no_server(program: &Path, error: &io::Error) -> NoServer {
    match error.kind() {
        io::ErrorKind::Unsupported => NoServer::Absent(error.to_string()),
        _ => NoServer::Failed(format!("{} did not start: {error}", program.display())),
    }
}

fn is_down() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the server is down")
}

impl Setup {
    fn new(
        product: &'static dyn Product,
        program: &Executable,
        settings: &Settings,
        folder: &Folder,
        port: u16,
    ) -> io::Result<Setup> {
        let address = settings.host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.clients());
        let place = Place { folder: folder.path().to_owned(), address, port };
        let clock = match settings.clock {
            Clock::Machines => None,
            Clock::Own => Some(WallClock::new(program)?),
        };
        Ok(Setup { product, program: program.clone(), settings: settings.clone(), place, clock })
    }

    fn own_url(&self) -> String {
        self.product.own_url(&self.place)
    }

    fn data(&self) -> PathBuf {
        self.product.data(&self.place)
    }

    /// Prepares the folder for the server's first start.
    fn prepare(&self) -> io::Result<()> {
        self.program.give(&self.place.folder)?;
        self.product.prepare(&self.program, &self.place, &self.settings)?;
        for (name, content) in &self.settings.files {
            let path = self.data().join(name);
            put(&path, content)?;
            self.program.give(&path)?;
        }
        Ok(())
    }

    /// Starts the process, and waits until the server answers. Returns its name and version, too.
    fn spawn(&self) -> io::Result<(ProcessTree, String)> {
        let log = File::create(self.log())?;
        let mut command = self.product.command(&self.program, &self.place, &self.settings);
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command);
        }
        if let Some(host) = &self.settings.host {
            command = host.command(&command);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = ProcessTree::spawn(&mut command)?;
        let ended = || Ok(process.ended()?.map(|ended| format!("it ended with {ended:?}")));
        let server = (self.product as &dyn Product, &*self.own_url());
        let version = greeted(server, (LIMIT, INTERVAL), ended, || self.printed()).map_err(|error| {
            // In the words of the operating system, whatever the program adds to them.
            match error.to_string().to_lowercase().contains("address already in use") {
                true => io::Error::new(io::ErrorKind::AddrInUse, error),
                false => error,
            }
        })?;
        self.product.started(&self.place)?;
        Ok((process, version))
    }

    /// Returns the file with everything that the server prints.
    fn log(&self) -> PathBuf {
        self.place.folder.join("log")
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }
}

/// Writes a file that its owner alone may read.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content)
}
