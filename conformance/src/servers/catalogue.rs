//! Which servers the suite knows, and where a machine gets them.
//!
//! Plain data without dependencies: `xtask` includes this very file, so that what the suite looks for and what
//! `cargo xtask test` installs can't drift apart.

/// A server that the suite can run on.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    /// How `LOCK_TEST_REQUIRE` and reports call it.
    pub name: &'static str,
    /// The environment variable that may hold the URL of a running one.
    pub variable: &'static str,
    /// Programs that can be started, the preferred one first.
    pub programs: &'static [&'static str],
    /// Debian's package.
    pub debian_package: &'static str,
    /// The service that Debian's package brings along.
    pub debian_service: &'static str,
    /// Homebrew's formula.
    pub homebrew: &'static str,
}

/// Redis, or Valkey in its place.
pub const REDIS: Listing = Listing {
    name: "redis",
    variable: "LOCK_TEST_REDIS",
    programs: &["redis-server", "valkey-server"],
    debian_package: "redis-server",
    debian_service: "redis-server",
    homebrew: "redis",
};

/// MongoDB, as a standalone server or as the members of a replica set.
pub const MONGODB: Listing = Listing {
    name: "mongodb",
    variable: "LOCK_TEST_MONGODB",
    programs: &["mongod"],
    debian_package: "mongodb-server",
    debian_service: "mongodb",
    homebrew: "mongodb-community",
};

/// Every server that the suite knows.
pub const ALL: &[&Listing] = &[&REDIS, &MONGODB];

/// The environment variable with the file in which the suite notes what it ran on, for `cargo xtask test`.
pub const RECORD: &str = "LOCK_TEST_RECORD";

/// The environment variable with the path of the program `lock`.
pub const LOCK_BIN: &str = "LOCK_BIN";

impl Listing {
    /// The first of its programs in the folders of `path`, written like `PATH`.
    pub fn program(&self, path: &std::ffi::OsStr) -> Option<std::path::PathBuf> {
        let folders: Vec<_> = std::env::split_paths(path).collect();
        let names = self.programs.iter().map(|program| format!("{program}{}", std::env::consts::EXE_SUFFIX));
        names
            .flat_map(|name| folders.iter().map(move |folder| folder.join(&name)))
            .find(|file| file.is_file())
    }
}
