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

/// Reads sources at compile time: the files of each folder beside this crate's `src`.
macro_rules! sources {
    ($($folder:literal { $($path:literal),+ }),+) => {
        &[$($(($path, include_str!(concat!("../", $folder, "/", $path)))),+),+]
    };
}

/// The mutex of etcd's Go client.
pub const ETCD_GO: Listing = Listing {
    name: "etcd-go",
    programs: &["go"],
    driver: Some(Driver {
        sources: sources!("etcd-go" { "go.mod", "go.sum", "main.go", "bench.go" }),
        build: GO,
    }),
};

/// `etcdctl lock`. It comes with the server.
pub const ETCDCTL: Listing = Listing { name: "etcdctl", programs: &["etcdctl"], driver: None };

/// The mutex of Curator.
pub const CURATOR: Listing = Listing {
    name: "curator",
    programs: &["mvn", "javac", "java"],
    driver: Some(Driver {
        sources: sources!("curator" { "pom.xml", "src/Driver.java", "src/Bench.java" }),
        build: MAVEN,
    }),
};

/// The lock of kazoo.
pub const KAZOO: Listing = Listing {
    name: "kazoo",
    programs: &["python3"],
    driver: Some(Driver { sources: sources!("kazoo" { "requirements.txt", "driver.py" }), build: PIP }),
};

/// The lock of redis-py.
pub const REDIS_PY: Listing = Listing {
    name: "redis-py",
    programs: &["python3"],
    driver: Some(Driver { sources: sources!("redis-py" { "requirements.txt", "driver.py" }), build: PIP }),
};

/// The lock of node-redlock.
pub const NODE_REDLOCK: Listing = Listing {
    name: "node-redlock",
    programs: &["npm", "node"],
    driver: Some(Driver {
        sources: sources!("node-redlock" { "package.json", "package-lock.json", "driver.js" }),
        build: "npm ci --ignore-scripts --no-audit --no-fund --loglevel=error",
    }),
};

/// The lock of rslock.
pub const RSLOCK: Listing = Listing {
    name: "rslock",
    programs: &["cargo"],
    driver: Some(Driver {
        sources: sources!("rslock" { "Cargo.toml", "Cargo.lock", "src/main.rs" }),
        build: CARGO,
    }),
};

/// The mutex of redsync.
pub const REDSYNC: Listing = Listing {
    name: "redsync",
    programs: &["go"],
    driver: Some(Driver {
        sources: sources!("redsync" { "go.mod", "go.sum", "main.go" }, "go" { "driver.go" }),
        build: GO,
    }),
};

/// The lock of bsm/redislock.
pub const REDISLOCK: Listing = Listing {
    name: "redislock",
    programs: &["go"],
    driver: Some(Driver {
        sources: sources!("redislock" { "go.mod", "go.sum", "main.go" }, "go" { "driver.go" }),
        build: GO,
    }),
};

/// The locks of Redisson.
pub const REDISSON: Listing = Listing {
    name: "redisson",
    programs: &["mvn", "javac", "java"],
    driver: Some(Driver {
        sources: sources!("redisson" { "pom.xml", "src/Driver.java", "src/Turns.java" }),
        build: MAVEN,
    }),
};

/// The fences of lock-sql in transactions of tokio-postgres, sqlx 0.8 and diesel.
pub const SQL_FENCES: Listing = Listing {
    name: "sql-fences",
    programs: &["cargo"],
    driver: Some(Driver {
        sources: sources!("sql-fences" { "Cargo.toml", "Cargo.lock", "src/main.rs", "src/diesel.rs", "src/sqlx.rs", "src/tokio_postgres.rs" }),
        build: CARGO,
    }),
};

const GO: &str = "GOWORK=off GOFLAGS= go build -mod=readonly -trimpath -buildvcs=false -o driver .";
const CARGO: &str =
    "CARGO_TARGET_DIR=build cargo build --quiet --locked && cp build/debug/driver . && rm -r build";
const MAVEN: &str = "mvn --batch-mode --quiet --strict-checksums -Dstyle.color=never compile";
const PIP: &str = "PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check \
                   --require-hashes --only-binary=:all: --target lib --requirement requirements.txt";

/// All clients that the suite knows.
pub const ALL: &[&Listing] = &[
    &ETCD_GO,
    &ETCDCTL,
    &CURATOR,
    &KAZOO,
    &REDIS_PY,
    &NODE_REDLOCK,
    &RSLOCK,
    &REDSYNC,
    &REDISLOCK,
    &REDISSON,
    &SQL_FENCES,
];

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
