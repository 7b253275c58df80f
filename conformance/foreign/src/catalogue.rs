//! The clients of other libraries that the suite knows, and how they are built.
//!
//! Plain data without dependencies. `xtask` includes this same file, so that what the suite looks for and what `cargo
//! xtask test` builds cannot differ.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A lock client of another library.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its name in `LOCK_TEST_REQUIRE` and in reports.
    pub name: &'static str,
    /// Programs that must be on the `PATH`, to build it and to run it.
    pub programs: &'static [&'static str],
    /// The build of its driver, if it has one.
    pub driver: Option<Driver>,
}

/// A driver, which is built in its own folder, from its language's own registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its sources, each as a path in that folder and a text.
    pub sources: &'static [(&'static str, &'static str)],
    /// The command that a shell runs there.
    pub build: &'static str,
}

/// `CONSTANT = "its name", needs [programs], built by COMMAND from "folder" { files };`
macro_rules! clients {
    ($(
        $(#[$doc:meta])+
        $constant:ident = $name:literal, needs [$($program:literal),+]
        $(, built by $build:ident from $($folder:literal { $($path:literal),+ }),+)?;
    )+) => {
        $(
            $(#[$doc])+
            pub const $constant: Listing = Listing {
                name: $name,
                programs: &[$($program),+],
                driver: clients!($($build $($folder { $($path),+ }),+)?),
            };
        )+

        /// All clients that the suite knows.
        pub const ALL: &[&Listing] = &[$(&$constant),+];
    };
    () => { None };
    ($build:ident $($folder:literal { $($path:literal),+ }),+) => {
        Some(Driver {
            sources: &[$($(($path, include_str!(concat!("../", $folder, "/", $path)))),+),+],
            build: $build,
        })
    };
}

clients! {
    /// The mutex of etcd's Go client.
    ETCD_GO = "etcd-go", needs ["go"], built by GO from
        "etcd-go" { "go.mod", "go.sum", "main.go", "bench.go" };
    /// `etcdctl lock`. It comes with the server.
    ETCDCTL = "etcdctl", needs ["etcdctl"];
    /// The mutex of Curator.
    CURATOR = "curator", needs ["mvn", "javac", "java"], built by MAVEN from
        "curator" { "pom.xml", "src/Driver.java", "src/Bench.java" };
    /// The lock of kazoo.
    KAZOO = "kazoo", needs ["python3"], built by PIP from
        "kazoo" { "requirements.txt", "driver.py" };
    /// The lock of redis-py.
    REDIS_PY = "redis-py", needs ["python3"], built by PIP from
        "redis-py" { "requirements.txt", "driver.py" };
    /// The lock of node-redlock.
    NODE_REDLOCK = "node-redlock", needs ["npm", "node"], built by NPM from
        "node-redlock" { "package.json", "package-lock.json", "driver.js" };
    /// The lock of rslock.
    RSLOCK = "rslock", needs ["cargo"], built by CARGO from
        "rslock" { "Cargo.toml", "Cargo.lock", "src/main.rs" };
    /// The mutex of redsync.
    REDSYNC = "redsync", needs ["go"], built by GO from
        "redsync" { "go.mod", "go.sum", "main.go" }, "go" { "driver.go" };
    /// The lock of bsm/redislock.
    REDISLOCK = "redislock", needs ["go"], built by GO from
        "redislock" { "go.mod", "go.sum", "main.go" }, "go" { "driver.go" };
    /// The locks of Redisson.
    REDISSON = "redisson", needs ["mvn", "javac", "java"], built by MAVEN from
        "redisson" { "pom.xml", "src/Driver.java", "src/Turns.java" };
    /// The fences of lock-sql in transactions of tokio-postgres, sqlx 0.8 and diesel.
    SQL_FENCES = "sql-fences", needs ["cargo"], built by CARGO from
        "sql-fences" {
            "Cargo.toml", "Cargo.lock",
            "src/main.rs", "src/diesel.rs", "src/sqlx.rs", "src/tokio_postgres.rs"
        };
}

const GO: &str = "GOWORK=off GOFLAGS= go build -mod=readonly -trimpath -buildvcs=false -o driver .";
const CARGO: &str =
    "CARGO_TARGET_DIR=build cargo build --quiet --locked && cp build/debug/driver . && rm -r build";
const MAVEN: &str = "mvn --batch-mode --quiet --strict-checksums -Dstyle.color=never compile";
const PIP: &str = "PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check \
                   --require-hashes --only-binary=:all: --target lib --requirement requirements.txt";
const NPM: &str = "npm ci --ignore-scripts --no-audit --no-fund --loglevel=error";

impl Listing {
    /// Returns the first of its programs that is in none of the folders of `path`, which is written like `PATH`.
    pub fn missing(&self, path: &OsStr) -> Option<&'static str> {
        let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
        let is_there = |program: &str| {
            folders.iter().any(|folder| folder.join(format!("{program}{EXE_SUFFIX}")).is_file())
        };
        self.programs.iter().copied().find(|program| !is_there(program))
    }
}

impl Driver {
    /// Returns whether it was built in `folder` from exactly these sources.
    pub fn is_built(&self, folder: &Path) -> bool {
        let is_same = |(path, text): &(&str, &str)| {
            fs::read_to_string(folder.join(path)).is_ok_and(|found| found == *text)
        };
        self.sources.iter().all(is_same)
    }

    /// Writes its sources to `folder`, which has nothing else in it.
    ///
    /// # Errors
    ///
    /// If a file can't be written.
    pub fn unpack(&self, folder: &Path) -> io::Result<()> {
        for (path, text) in self.sources {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().unwrap_or(folder))?;
            fs::write(file, text)?;
        }
        Ok(())
    }
}
