//! Reads which URL parameters every backend takes: `redis?prefix`.

use super::Items;
use crate::documents::read;
use crate::workspace::root;

/// Backends by the features that enable them, and the constants that list their parameters for error messages.
const LISTS: [(&str, &[(&str, &str)]); 9] = [
    ("etcd", &[("lock-etcd/src/settings.rs", "PARAMETERS")]),
    ("memory", &[("lock-memory/src/registry.rs", "PARAMETERS")]),
    ("mongodb", &[("lock-mongo/src/settings.rs", "OURS")]),
    ("mysql", &[(SQL, "KNOWN"), ("lock-sql/src/mysql/settings.rs", "DRIVERS")]),
    (
        "postgres",
        &[
            (SQL, "KNOWN"),
            ("lock-sql/src/postgres/settings.rs", "DRIVERS"),
            ("lock-sql/src/postgres/settings.rs", "MODES"),
            ("lock-sql/src/postgres/settings.rs", "FILES"),
        ],
    ),
    ("redis", &[("lock-redis/src/settings.rs", "PARAMETERS")]),
    ("redlock", &[("lock-redlock/src/settings.rs", "PARAMETERS")]),
    ("sqlite", &[("lock-sql/src/sqlite/settings.rs", "PARAMETERS")]),
    ("zk", &[("lock-zk/src/settings.rs", "PARAMETERS")]),
];

const SQL: &str = "lock-sql/src/server/parameters.rs";
const FACADE: &str = "onelock/src/backends.rs";

/// Returns the parameters of all backends. `Err` if a backend has no list, or reads a parameter that its list lacks.
pub(super) fn read_of_urls() -> Result<Items, String> {
    let facade = read(&root().join(FACADE))?;
    let offered = backends(&facade);
    if let Some(unlisted) = offered.iter().find(|name| !LISTS.iter().any(|(listed, _)| listed == *name)) {
        return Err(format!("xtask doesn't know where {unlisted}'s URL parameters are listed"));
    }
    let mut all = Items::new();
    for (backend, lists) in LISTS {
        let mut known = Items::new();
        let mut taken = Items::new();
        for (file, constant) in lists {
            let text = read(&root().join(file))?;
            let listed = listed(&text, constant);
            if listed.is_empty() {
                return Err(format!("{file} has no list {constant}"));
            }
            known.extend(listed);
            taken.extend(taken_by(&text));
        }
        if let Some(unlisted) = taken.difference(&known).next() {
            return Err(format!("{backend} reads the URL's parameter {unlisted}, and lists it nowhere"));
        }
        all.extend(known.into_iter().map(|name| format!("{backend}?{name}")));
    }
    Ok(all)
}

/// Returns the features in the lines of `backends!`.
fn backends(facade: &str) -> Vec<&str> {
    let lines = facade.lines().filter(|line| line.starts_with("    \"") && line.contains("] => "));
    lines.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Returns the names in a constant's strings: `a, b; with x:// also c`.
fn listed(text: &str, constant: &str) -> Items {
    let declaration = format!("const {constant}: ");
    let Some((_, rest)) = text.split_once(&declaration) else { return Items::new() };
    let Some((value, _)) = rest.split_once(";\n") else { return Items::new() };
    let strings = value.split('"').skip(1).step_by(2);
    let clauses = strings.flat_map(|string| string.split("; "));
    let names = clauses.flat_map(|clause| clause.rsplit(" also ").next().unwrap_or(clause).split(", "));
    names.map(str::to_owned).collect()
}

/// Calls that take several parameters at once.
const TOGETHER: [(&str, &[&str]); 2] =
    [("take_common(", &["prefix", "patience", "lazy"]), ("take_certificates(", &["ca", "cert", "key"])];

/// Returns the parameters that the code of a file takes out of a URL, without its tests.
fn taken_by(text: &str) -> Items {
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let calls = ["take(\"", "take_duration(\"", "is_trusted(&mut url, \""];
    let found = calls.into_iter().flat_map(|call| code.split(call).skip(1));
    let alone = found.filter_map(|rest| rest.split('"').next());
    let together = TOGETHER.into_iter().filter(|(call, _)| code.contains(call)).flat_map(|(_, taken)| taken);
    alone.chain(together.copied()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(items: &[&str]) -> Items {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn a_list_is_one_string_or_many() {
        let text = "const A: &str =\n    \"p, lazy; with rediss:// also ca, key\";\n\
            const B: [&str; 2] = [\"ssl-mode\", \"socket\"];\n\
            const C: CertificateNames = CertificateNames {\n    ca: &[\"ca\", \"sslrootcert\"],\n};\n";
        assert_eq!(listed(text, "A"), items(&["p", "lazy", "ca", "key"]));
        assert_eq!(listed(text, "B"), items(&["ssl-mode", "socket"]));
        assert_eq!(listed(text, "C"), items(&["ca", "sslrootcert"]));
        assert!(listed(text, "D").is_empty());
    }

    #[test]
    fn what_is_taken_is_read_and_what_tests_take_is_not() {
        let text = "url.take(\"db\"); url.take_duration(\"tick\")?; is_trusted(&mut url, \"fs\")?;\n\
            url.take_certificates(&names)?;\n#[cfg(test)]\nmod tests {\n    url.take(\"x\");\n}\n";
        assert_eq!(taken_by(text), items(&["db", "tick", "fs", "ca", "cert", "key"]));
        assert_eq!(taken_by("ours.take_common()?"), items(&["prefix", "patience", "lazy"]));
    }

    #[test]
    fn backends_are_those_of_the_facade() {
        let facade =
            "    \"etcd\" [\"etcd\", \"etcds\"] => lock_etcd::connect_with, x;\n    let x = \"y\";\n";
        assert_eq!(backends(facade), ["etcd"]);
    }
}
