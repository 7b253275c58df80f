//! The servers that the suite knows, and where a machine gets them.
//!
//! Plain data without dependencies. `xtask` includes this same file, so that what the suite looks for and what `cargo
//! xtask test` installs cannot differ.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that the suite can run on.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its name in `LOCK_TEST_REQUIRE` and in reports.
    pub name: &'static str,
    /// The environment variable that may have the URL of a running server.
    pub variable: &'static str,
    /// Where its programs are looked for, the preferred place first.
    pub systems: &'static [System],
    /// Programs that can be started, the preferred one first.
    pub programs: &'static [Program],
    /// Folders that may have these programs without being on the `PATH`. A `*` stands for any part of a name. Of
    /// several such folders, the one with the highest number comes first.
    pub folders: &'static [&'static str],
    /// Ways to get them, the preferred one first.
    pub origins: &'static [Origin],
}

/// A system that may have the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The system that runs here.
    This,
    /// Debian's unstable distribution in a folder, which is run under chroot. That needs root.
    Unstable,
    /// The system that runs here, with programs that were put into a folder for tests only, beside the libraries that
    /// they need (`target/servers/NAME/bin` and `lib`).
    Tests,
}

/// The name of a program, and how to tell it from another product's program of the same name.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// The mark that tells it from other programs of this name.
    pub mark: Mark,
}

/// The mark that tells a program from other programs of the same name.
#[derive(Debug, PartialEq, Eq)]
pub enum Mark {
    /// There are no others.
    None,
    /// Its answer to `--version` contains this.
    Says(&'static str),
    /// Its answer to `--version` does not contain this.
    SaysNot(&'static str),
}

/// A way to get a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// Packages of the Debian release that runs here.
    Debian {
        /// Their names.
        packages: &'static [&'static str],
        /// The service that they install.
        service: Option<&'static str>,
    },
    /// A formula of Homebrew.
    Homebrew(&'static str),
    /// These packages, into [`System::Unstable`].
    Unstable(&'static [&'static str]),
    /// Python packages that contain MongoDB's program and a library that it needs, unpacked into [`System::Tests`].
    Wheels,
}

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub program: PathBuf,
    /// The folder with the system that it belongs to; `None` if that runs here.
    pub system: Option<PathBuf>,
}

/// Redis, or Valkey in its place.
pub const REDIS: Listing = Listing {
    name: "redis",
    variable: "LOCK_TEST_REDIS",
    systems: &[System::This],
    programs: &[Program::named("redis-server"), Program::named("valkey-server")],
    folders: &[],
    origins: &[
        Origin::Debian { packages: &["redis-server"], service: Some("redis-server") },
        Origin::Homebrew("redis"),
    ],
};

/// PostgreSQL.
pub const POSTGRES: Listing = Listing {
    name: "postgres",
    variable: "LOCK_TEST_POSTGRES",
    systems: &[System::This],
    programs: &[Program::named("postgres")],
    folders: &[
        "/usr/lib/postgresql/*/bin",
        "/opt/homebrew/opt/postgresql@*/bin",
        "/usr/local/opt/postgresql@*/bin",
    ],
    origins: &[
        Origin::Debian { packages: &["postgresql"], service: Some("postgresql") },
        Origin::Homebrew("postgresql@17"),
    ],
};

/// The newest PostgreSQL that Debian has.
pub const POSTGRES_UNSTABLE: Listing = Listing {
    name: "postgres-unstable",
    variable: "LOCK_TEST_POSTGRES_UNSTABLE",
    systems: &[System::Unstable],
    programs: &[Program::named("postgres")],
    folders: POSTGRES.folders,
    origins: &[Origin::Unstable(&["postgresql"])],
};

/// A pooler of connections to PostgreSQL.
pub const PGBOUNCER: Listing = Listing {
    name: "pgbouncer",
    variable: "LOCK_TEST_PGBOUNCER",
    systems: &[System::This],
    programs: &[Program::named("pgbouncer")],
    folders: &["/usr/sbin"],
    origins: &[
        Origin::Debian { packages: &["pgbouncer"], service: Some("pgbouncer") },
        Origin::Homebrew("pgbouncer"),
    ],
};

/// MariaDB.
pub const MARIADB: Listing = Listing {
    name: "mariadb",
    variable: "LOCK_TEST_MARIADB",
    systems: &[System::This],
    programs: &[Program::named("mariadbd"), Program { name: "mysqld", mark: Mark::Says("MariaDB") }],
    folders: &["/usr/sbin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin"],
    origins: &[
        Origin::Debian { packages: &["mariadb-server-core", "mariadb-client-core"], service: None },
        Origin::Homebrew("mariadb"),
    ],
};

/// MySQL itself.
pub const MYSQL: Listing = Listing {
    name: "mysql",
    variable: "LOCK_TEST_MYSQL",
    systems: &[System::This, System::Unstable],
    programs: &[Program { name: "mysqld", mark: Mark::SaysNot("MariaDB") }],
    folders: &["/usr/sbin", "/opt/homebrew/opt/mysql/bin", "/usr/local/opt/mysql/bin"],
    // Debian's releases have no MySQL.
    origins: &[Origin::Unstable(&["mysql-server-core"]), Origin::Homebrew("mysql")],
};

/// MongoDB, as a standalone server or as the members of a replica set.
pub const MONGODB: Listing = Listing {
    name: "mongodb",
    variable: "LOCK_TEST_MONGODB",
    systems: &[System::This, System::Tests],
    programs: &[Program::named("mongod")],
    folders: &["/opt/homebrew/opt/mongodb-community/bin", "/usr/local/opt/mongodb-community/bin"],
    // No release of Debian has it, and Homebrew does not have it among its own formulas.
    origins: &[Origin::Wheels],
};

/// etcd, as a cluster of one member or of three.
pub const ETCD: Listing = Listing {
    name: "etcd",
    variable: "LOCK_TEST_ETCD",
    systems: &[System::This],
    programs: &[Program::named("etcd")],
    folders: &[],
    origins: &[
        Origin::Debian { packages: &["etcd-server", "etcd-client"], service: Some("etcd") },
        Origin::Homebrew("etcd"),
    ],
};

/// ZooKeeper, as a standalone server or as the members of an ensemble.
pub const ZOOKEEPER: Listing = Listing {
    name: "zookeeper",
    variable: "LOCK_TEST_ZOOKEEPER",
    systems: &[System::This],
    programs: &[Program::named("zkServer.sh"), Program::named("zkServer")],
    folders: &["/usr/share/zookeeper/bin"],
    origins: &[Origin::Debian { packages: &["zookeeper"], service: None }, Origin::Homebrew("zookeeper")],
};

/// Every server that the suite knows.
pub const ALL: &[&Listing] =
    &[&REDIS, &POSTGRES, &POSTGRES_UNSTABLE, &PGBOUNCER, &MARIADB, &MYSQL, &MONGODB, &ETCD, &ZOOKEEPER];

/// A program that the tests or the build run themselves, and that not every machine has.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// The name of its file.
    pub program: &'static str,
    /// The things that can't be run without it.
    pub wanted_for: &'static str,
    /// The Debian packages that have it.
    pub packages: &'static [&'static str],
    /// Homebrew's formula.
    pub formula: Option<&'static str>,
}

/// The compiler of `.proto` files, which the build script of etcd-client runs.
pub const PROTOC: Tool = Tool {
    program: "protoc",
    wanted_for: "the build of etcd's client",
    // The second has the `.proto` files that others import.
    packages: &["protobuf-compiler", "libprotobuf-dev"],
    formula: Some("protobuf"),
};

/// The tools that tests run. Other programs that the tests run belong to Debian's smallest systems.
#[cfg(target_os = "linux")]
pub const TOOLS: &[Tool] = &[Tool {
    program: "ip",
    wanted_for: "clusters whose members are cut off",
    packages: &["iproute2"],
    formula: None,
}];

/// There are none where no case makes its own networks.
#[cfg(not(target_os = "linux"))]
pub const TOOLS: &[Tool] = &[];

/// A test's own networks, with hosts that can be cut off from each other. They need root, `ip`, `unshare` and
/// `nsenter`.
pub const NETWORKS: &str = "networks";
/// Servers' clocks that tests set. They need Linux and a C compiler.
pub const CLOCKS: &str = "clocks";
/// Things that a machine can or can't do, besides the servers that it has.
#[allow(dead_code, reason = "this file is also xtask's, which installs none of them")]
pub const ABILITIES: &[&str] = &[NETWORKS, CLOCKS];

/// The clients of other libraries, as `lock-foreign-clients` lists them.
#[allow(dead_code, reason = "this file is also xtask's, which builds them from their own list")]
pub const CLIENTS: &[&str] = &[
    "etcd-go",
    "etcdctl",
    "curator",
    "kazoo",
    "redis-py",
    "node-redlock",
    "rslock",
    "redsync",
    "redislock",
    "redisson",
    "sql-fences",
];

/// The environment variable with the path of the program `lock`.
pub const LOCK_BIN: &str = "LOCK_BIN";

/// The environment variable with the folder for [`System::Unstable`], if it isn't `target/servers/unstable`.
pub const UNSTABLE: &str = "LOCK_TEST_UNSTABLE";

impl Listing {
    /// Returns the first of its programs that is in the folders of `path`, which is written like `PATH`, or in its own
    /// folders.
    pub fn find(&self, path: &OsStr) -> Option<Found> {
        self.systems.iter().find_map(|system| match system {
            System::This => {
                let program = self.program(Path::new("/"), std::env::split_paths(path).collect());
                program.map(|program| Found { program, system: None })
            }
            System::Unstable => {
                let system = unstable().filter(|folder| folder.is_dir())?;
                let program = self.program(&system, vec![system.join("usr/sbin"), system.join("usr/bin")]);
                program.map(|program| Found { program, system: Some(system) })
            }
            System::Tests => {
                let folder = built("servers", self.name).filter(|folder| folder.is_dir())?;
                let program = self.program(&folder, vec![folder.join("bin")]);
                program.map(|program| Found { program, system: None })
            }
        })
    }

    /// Looks in these folders, and in the product's own folders of that system.
    fn program(&self, system: &Path, mut folders: Vec<PathBuf>) -> Option<PathBuf> {
        let own = self.folders.iter().filter_map(|pattern| pattern.strip_prefix('/'));
        folders.extend(own.flat_map(|pattern| matching(system, pattern)));
        let found = self.programs.iter().flat_map(|program| {
            folders.iter().map(move |folder| (program, folder.join(format!("{}{EXE_SUFFIX}", program.name))))
        });
        let mut found = found.filter(|(_, file)| file.is_file());
        found.find(|(program, file)| program.mark.is_on(file)).map(|it| it.1)
    }

    /// Returns a text that says that it was not found.
    pub fn missing(&self) -> String {
        let programs = self.programs.iter().map(|program| program.name).collect::<Vec<_>>().join(" or ");
        let places = self.systems.iter().map(|system| match system {
            System::This => "on the PATH",
            System::Unstable => "in target/servers/unstable",
            System::Tests => "in target/servers",
        });
        let places = places.collect::<Vec<_>>().join(" or ");
        format!("there is no {programs} {places}, and no URL in {}", self.variable)
    }
}

impl Program {
    /// A program whose name no other product has.
    pub const fn named(name: &'static str) -> Program {
        Program { name, mark: Mark::None }
    }
}

impl Mark {
    fn is_on(&self, program: &Path) -> bool {
        let says = |what| {
            let answer = Command::new(program).arg("--version").output();
            answer.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains(what))
        };
        match self {
            Mark::None => true,
            Mark::Says(what) => says(what),
            Mark::SaysNot(what) => !says(what),
        }
    }
}

/// Returns the folders below `below` that a pattern with one `*` stands for, the highest number first.
fn matching(below: &Path, pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![below.join(pattern)] };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let (suffix, rest) = after.split_once('/').unwrap_or((after, ""));
    let entries = fs::read_dir(below.join(parent)).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let star = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some((star.parse().unwrap_or(0), entry.path().join(rest)))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// Returns the folder for [`System::Unstable`]: the one that `LOCK_TEST_UNSTABLE` names, otherwise
/// `target/servers/unstable`.
pub fn unstable() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(UNSTABLE).filter(|folder| !folder.is_empty()) {
        return Some(PathBuf::from(folder));
    }
    built("servers", "unstable")
}

/// Returns the folder of what was installed or built for tests only: `KIND/NAME` in the folder in which cargo has built
/// this program (`target`), or in a folder above it.
pub fn built(kind: &str, name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let mut folders = program.ancestors().map(|folder| folder.join(kind).join(name));
    folders.find(|folder| folder.is_dir())
}
