//! Which servers are measured, by their names: `redis`, and `redis-durable` for a Redis that writes to the disk before
//! it acknowledges.

use crate::Outcome;
use crate::backend::Backend;
use crate::servers::{self, Asked, Durability, KNOWN, Known};

/// The kinds that are also measured with a disk, each as a server of its own.
const DURABLE: [&str; 4] = ["redis", "mariadb", "mysql", "postgres"];
const SUFFIX: &str = "-durable";

/// What is measured only if it is asked for: a second version of a product would be in the way of a choice.
const ON_DEMAND: &str = "postgres-unstable";

/// Returns every kind, and those with a disk each after the same kind without one.
pub(crate) fn everything() -> Vec<(Asked, Durability)> {
    let mut all = Vec::new();
    for known in usual() {
        all.push((Asked::Any(known), Durability::InMemory));
        if DURABLE.contains(&known.name) {
            all.push((Asked::Any(known), Durability::EveryWrite));
        }
    }
    all
}

/// Returns every kind once, on a disk where there is a choice.
pub(crate) fn everything_on_disk() -> Vec<(Asked, Durability)> {
    usual().map(|known| (Asked::Any(known), Durability::EveryWrite)).collect()
}

fn usual() -> impl Iterator<Item = Known> {
    KNOWN.into_iter().filter(|known| known.name != ON_DEMAND)
}

/// Reads a value of `--on`: a URL, the name of a kind, or that of a kind with a disk.
pub(crate) fn named(on: &str) -> Outcome<(Asked, Durability)> {
    if let Some(kind) = on.strip_suffix(SUFFIX)
        && let Asked::Named(known) = servers::parse(kind)?
        && has_a_choice(known)
    {
        return Ok((Asked::Named(known), Durability::EveryWrite));
    }
    Ok((servers::parse(on)?, Durability::InMemory))
}

/// Returns the name of a kind as it is started.
pub(crate) fn name(known: Known, durability: Durability) -> String {
    match durability {
        Durability::EveryWrite if has_a_choice(known) => format!("{}{SUFFIX}", known.name),
        _ => known.name.to_owned(),
    }
}

/// Whether [`everything`] has the kind with a disk and without one.
pub(crate) fn has_a_twin(known: Known) -> bool {
    DURABLE.contains(&known.name)
}

/// Whether this program starts it with or without a disk.
fn has_a_choice(known: Known) -> bool {
    matches!(known.backend, Backend::Redis | Backend::Redlock | Backend::MySql | Backend::Postgres)
}

/// Returns whether a server writes to the disk before it acknowledges, if this program knows.
pub(crate) fn writes_first(backend: Backend, asked: &Asked, durability: Durability) -> Option<bool> {
    match (backend, asked) {
        (Backend::Memory, _) => Some(false),
        // The library sets `synchronous=FULL`, and `journal=true`.
        (Backend::Sqlite | Backend::Mongo, _) => Some(true),
        (_, Asked::Url(_)) => None,
        // It is started with its default, which is to write first.
        (Backend::Etcd | Backend::ZooKeeper, _) => Some(true),
        _ => Some(durability == Durability::EveryWrite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: Vec<(Asked, Durability)>) -> Vec<String> {
        let name = |(asked, durability)| match asked {
            Asked::Named(known) | Asked::Any(known) => name(known, durability),
            Asked::Url(url) => url,
        };
        all.into_iter().map(name).collect()
    }

    #[test]
    fn a_kind_with_a_disk_comes_after_the_same_kind_without_one() {
        let all = names(everything());
        let redis = all.iter().position(|name| name == "redis").unwrap();
        assert_eq!(all[redis + 1], "redis-durable");
        assert!(
            !all.contains(&ON_DEMAND.to_owned()) && !all.contains(&"sqlite-durable".to_owned()),
            "{all:?}"
        );
        let on_disk = names(everything_on_disk());
        assert!(on_disk.contains(&"redis-durable".to_owned()) && !on_disk.contains(&"redis".to_owned()));
        assert!(on_disk.contains(&"sqlite".to_owned()), "it has no other form: {on_disk:?}");
    }

    #[test]
    fn a_name_says_whether_there_is_a_disk() {
        let of = |on| named(on).map(|asked| (asked.1, names(vec![asked]).remove(0))).ok();
        assert_eq!(of("redis"), Some((Durability::InMemory, "redis".to_owned())));
        assert_eq!(of("postgres-durable"), Some((Durability::EveryWrite, "postgres-durable".to_owned())));
        assert_eq!(of("redlock-durable"), Some((Durability::EveryWrite, "redlock-durable".to_owned())));
        assert_eq!(of("redis://a-durable"), Some((Durability::InMemory, "redis://a-durable".to_owned())));
        assert_eq!((of("etcd-durable"), of("new-durable")), (None, None));
    }

    #[test]
    fn of_a_server_that_was_there_it_is_not_known() {
        let url = Asked::Url("redis://h".to_owned());
        assert_eq!(writes_first(Backend::Redis, &url, Durability::InMemory), None);
        assert_eq!(writes_first(Backend::Sqlite, &url, Durability::InMemory), Some(true));
        let (asked, durability) = named("redis-durable").unwrap();
        assert_eq!(writes_first(Backend::Redis, &asked, durability), Some(true));
    }
}
