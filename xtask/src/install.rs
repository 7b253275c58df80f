//! How this machine installs a server.

use std::env::{consts, split_paths, var_os};
use std::fmt;
use std::process::Command;

use crate::catalogue::Listing;
use crate::steps::command;

/// What installs packages here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installer {
    /// apt-get, run as root.
    Debian(Root),
    /// brew, which starts no service by itself.
    Homebrew,
}

/// How a command becomes root's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// We are.
    Already,
    /// By sudo.
    Sudo,
}

impl Installer {
    /// The one of this machine, if there is one that we know and may use.
    pub(crate) fn here() -> Option<Installer> {
        Installer::choose(is_program, is_root())
    }

    fn choose(is_program: impl Fn(&str) -> bool, is_root: bool) -> Option<Installer> {
        if is_program("apt-get") {
            match is_root {
                true => Some(Installer::Debian(Root::Already)),
                false => is_program("sudo").then_some(Installer::Debian(Root::Sudo)),
            }
        } else {
            is_program("brew").then_some(Installer::Homebrew)
        }
    }

    /// Installs a server's programs, and nothing that runs by itself.
    pub(crate) fn install(self, server: &Listing) -> Result<(), String> {
        command(&mut self.command(server))
    }

    fn command(self, server: &Listing) -> Command {
        let mut command = Command::new(match self {
            Installer::Debian(Root::Already) => "sh",
            Installer::Debian(Root::Sudo) => "sudo",
            Installer::Homebrew => "brew",
        });
        match self {
            Installer::Debian(root) => {
                command.args((root == Root::Sudo).then_some("sh"));
                command.args([
                    "-c",
                    include_str!("debian.sh"),
                    "sh",
                    server.debian_package,
                    server.debian_service,
                ])
            }
            Installer::Homebrew => command.args(["install", server.homebrew]),
        };
        command
    }

    /// What a person would type.
    pub(crate) fn describe(self, server: &Listing) -> impl fmt::Display {
        match self {
            Installer::Debian(Root::Already) => format!("apt-get install {}", server.debian_package),
            Installer::Debian(Root::Sudo) => format!("sudo apt-get install {}", server.debian_package),
            Installer::Homebrew => format!("brew install {}", server.homebrew),
        }
    }
}

fn is_program(name: &str) -> bool {
    let name = format!("{name}{}", consts::EXE_SUFFIX);
    split_paths(&var_os("PATH").unwrap_or_default()).any(|folder| folder.join(&name).is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::{Installer, Root};
    use crate::catalogue::REDIS;

    #[test]
    fn the_machine_decides_how_to_install() {
        let choose = |programs: &[&str], is_root| Installer::choose(|name| programs.contains(&name), is_root);
        assert_eq!(choose(&["apt-get", "sudo"], true), Some(Installer::Debian(Root::Already)));
        assert_eq!(choose(&["apt-get", "sudo"], false), Some(Installer::Debian(Root::Sudo)));
        assert_eq!(choose(&["apt-get"], false), None);
        assert_eq!(choose(&["brew"], false), Some(Installer::Homebrew));
        assert_eq!(choose(&["sudo"], true), None);
    }

    #[test]
    fn sudo_runs_the_very_script_that_root_runs() {
        let words = |installer: Installer| {
            let command = installer.command(&REDIS);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let root = words(Installer::Debian(Root::Already));
        assert_eq!(words(Installer::Debian(Root::Sudo)), [vec!["sudo".to_owned()], root.clone()].concat());
        assert_eq!(
            (&*root[0], &*root[1], &root[3..]),
            ("sh", "-c", &["sh", "redis-server", "redis-server"].map(String::from)[..])
        );
        assert_eq!(words(Installer::Homebrew), ["brew", "install", "redis"]);
    }
}
