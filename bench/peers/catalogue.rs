//! The drivers of other libraries' locks that are not in Rust, and how they are built.
//!
//! Plain data. `xtask` includes this same file, so that what the benchmark looks for and what `cargo xtask peers`
//! builds cannot differ.

use crate::interop::{Driver, Listing};

/// The mutex of redsync.
pub const REDSYNC: Listing = Listing {
    name: "redsync",
    programs: &["go"],
    driver: Some(Driver {
        sources: &[
            ("go.mod", include_str!("redsync/go.mod")),
            ("go.sum", include_str!("redsync/go.sum")),
            ("main.go", include_str!("redsync/main.go")),
            ("driver.go", include_str!("go/driver.go")),
        ],
        build: GO,
    }),
};

/// The mutex of etcd's Go client.
pub const ETCD_GO: Listing = Listing {
    name: "etcd-go",
    programs: &["go"],
    driver: Some(Driver {
        sources: &[
            ("go.mod", include_str!("etcd-go/go.mod")),
            ("go.sum", include_str!("etcd-go/go.sum")),
            ("main.go", include_str!("etcd-go/main.go")),
            ("driver.go", include_str!("go/driver.go")),
        ],
        build: GO,
    }),
};

/// The locks of Redisson.
pub const REDISSON: Listing = Listing {
    name: "redisson",
    programs: &["mvn", "javac", "java"],
    driver: Some(Driver {
        sources: &[
            ("pom.xml", include_str!("redisson/pom.xml")),
            ("src/Main.java", include_str!("redisson/src/Main.java")),
            ("src/Driver.java", include_str!("java/Driver.java")),
        ],
        build: MAVEN,
    }),
};

/// The mutex of Curator.
pub const CURATOR: Listing = Listing {
    name: "curator",
    programs: &["mvn", "javac", "java"],
    driver: Some(Driver {
        sources: &[
            ("pom.xml", include_str!("curator/pom.xml")),
            ("src/Main.java", include_str!("curator/src/Main.java")),
            ("src/Driver.java", include_str!("java/Driver.java")),
        ],
        build: MAVEN,
    }),
};

/// The lock of node-redlock.
pub const NODE_REDLOCK: Listing = Listing {
    name: "node-redlock",
    programs: &["npm", "node"],
    driver: Some(Driver {
        sources: &[
            ("package.json", include_str!("node-redlock/package.json")),
            ("package-lock.json", include_str!("node-redlock/package-lock.json")),
            ("driver.js", include_str!("node-redlock/driver.js")),
        ],
        build: "npm ci --ignore-scripts --no-audit --no-fund --loglevel=error",
    }),
};

/// All drivers.
pub const ALL: &[&Listing] = &[&REDSYNC, &ETCD_GO, &REDISSON, &CURATOR, &NODE_REDLOCK];

/// The folder in `target` that has a folder for each driver.
pub const FOLDER: &str = "peers";

const GO: &str = "GOWORK=off GOFLAGS= go build -mod=readonly -trimpath -buildvcs=false -o driver .";
const MAVEN: &str = "mvn --batch-mode --quiet --strict-checksums -Dstyle.color=never compile";
