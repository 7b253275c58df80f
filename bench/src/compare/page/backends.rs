//! What is known of each kind of server without measuring it. What a server promises comes from its `Info`.

use crate::backend::Backend;

/// What a reader has to know before choosing a kind of server.
pub(super) struct Character {
    pub(super) principle: &'static str,
    pub(super) pros: &'static [&'static str],
    pub(super) cons: &'static [&'static str],
    pub(super) reach: Reach,
}

/// Whom a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Process,
    Machine,
    Network,
}

impl Reach {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Reach::Process => "tasks of one process",
            Reach::Machine => "processes of one machine",
            Reach::Network => "processes of all machines that reach the server",
        }
    }
}

/// Returns what is known of a kind of server.
pub(super) fn character(backend: Backend) -> Character {
    match backend {
        Backend::Memory => MEMORY,
        Backend::Sqlite => SQLITE,
        Backend::Redis => REDIS,
        Backend::Redlock => REDLOCK,
        Backend::MySql => MYSQL,
        Backend::Postgres => POSTGRES,
        Backend::Mongo => MONGO,
        Backend::Etcd => ETCD,
        Backend::ZooKeeper => ZOOKEEPER,
    }
}

const MEMORY: Character = Character {
    principle: "A table in the memory of the process. A release wakes the waiters.",
    pros: &["There is no server and no request.", "Tests of code that locks need nothing else."],
    cons: &[
        "It excludes the tasks of one process only.",
        "Everything is lost with the process, holders included.",
    ],
    reach: Reach::Process,
};

const SQLITE: Character = Character {
    principle: "A row of a table in a file. A transaction takes it if it is free or its lease has ended.",
    pros: &["There is no server to run.", "Locks and tokens survive crashes of the machine."],
    cons: &[
        "It excludes the processes of one machine only.",
        "Waiters have to poll.",
        "Each grant waits for the disk.",
    ],
    reach: Reach::Machine,
};

const REDIS: Character = Character {
    principle: "A key that expires. One script grants, renews or releases the lock. A release is published to \
                the waiters.",
    pros: &[
        "Each call is one script on one server.",
        "Waiters are told of a release, if they may subscribe.",
    ],
    cons: &[
        "While the server is down, no lock is granted.",
        "A lock is as safe as the server's persistence: a crash without appendfsync always, an eviction, a flush, \
         or the promotion of a replica that lags forgets it.",
        "Processes are served in no particular order.",
    ],
    reach: Reach::Network,
};

const REDLOCK: Character = Character {
    principle: "A majority of several independent Redis servers grants the lock, and agrees on its token.",
    pros: &[
        "Locks go on while a majority of the servers is up.",
        "A server that lost its data has no vote until no lock that it forgot can be held.",
    ],
    cons: &[
        "There are three servers to run at least, none of them a replica of another.",
        "Each call asks all of them.",
        "Processes are served in no particular order.",
    ],
    reach: Reach::Network,
};

const MYSQL: Character = Character {
    principle: "A row of a table on one primary. A statement takes it if it is free or its lease has ended.",
    pros: &[
        "It uses a database that many programs have already.",
        "The resource can check the token in the same transaction, if it is a table there.",
    ],
    cons: &[
        "Waiters have to poll.",
        "While the primary is down, no lock is granted.",
        "A replica that is promoted lacks the grants that did not reach it.",
    ],
    reach: Reach::Network,
};

const POSTGRES: Character = Character {
    principle: "A row of a table on one primary. A statement takes it if it is free or its lease has ended; NOTIFY \
                tells the waiters of a release.",
    pros: &[
        "It uses a database that many programs have already.",
        "Waiters are told of a release, unless a pooler stands in between.",
        "The resource can check the token in the same transaction, if it is a table there.",
    ],
    cons: &[
        "While the primary is down, no lock is granted.",
        "A standby that is promoted may lack the last grants, unless it is synchronous.",
        "Processes are served in no particular order.",
    ],
    reach: Reach::Network,
};

const MONGO: Character = Character {
    principle: "A document. findAndModify takes it if it is free or its lease has ended; a change stream tells the \
                waiters of a release.",
    pros: &[
        "A replica set goes on when one of its members fails.",
        "On a replica set, a grant counts when a majority of the members has it in its journals.",
    ],
    cons: &[
        "On a standalone server waiters have to poll, and no other member takes over.",
        "Processes are served in no particular order.",
    ],
    reach: Reach::Network,
};

const ETCD: Character = Character {
    principle: "A queue of keys for each lock, bound to the client's session. The oldest key holds the lock; when it \
                goes, the next one is told.",
    pros: &[
        "Locks go on while a majority of the members is up.",
        "Processes are served in the order in which they came.",
        "The token does not depend on any clock.",
    ],
    cons: &[
        "There is a cluster to run.",
        "All locks of a client end with its session.",
        "The shortest ttl follows from the cluster's settings, in whole seconds.",
    ],
    reach: Reach::Network,
};

const ZOOKEEPER: Character = Character {
    principle: "A sequential node for each client, which ends with its session. The lowest number holds the lock; \
                when it goes, the next one is told.",
    pros: &[
        "Locks go on while a majority of the servers is up.",
        "Processes are served in the order in which they came.",
        "The token does not depend on any clock.",
    ],
    cons: &[
        "There is an ensemble to run.",
        "All locks of a client end with its session.",
        "The shortest ttl follows from the servers' tick.",
    ],
    reach: Reach::Network,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_principle_and_both_sides() {
        for backend in Backend::ALL {
            let character = character(backend);
            assert!(character.principle.ends_with('.'), "{backend:?}");
            assert!(!character.pros.is_empty() && !character.cons.is_empty(), "{backend:?}");
            let sentences = character.pros.iter().chain(character.cons);
            assert!(sentences.into_iter().all(|sentence| sentence.ends_with('.')), "{backend:?}");
        }
    }
}
