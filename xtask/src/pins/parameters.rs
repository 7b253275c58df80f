//! Reads which URL parameters every backend takes: `redis?prefix`.

use std::collections::BTreeSet;

use super::Items;
use crate::documents::read;
use crate::workspace::{packages, root};

/// The section of a backend's manifest that says which constants list its parameters for error messages:
/// `redis = ["src/settings.rs PARAMETERS"]`. The key is the feature that enables the backend.
const SECTION: &str = "[package.metadata.parameters]";
const FACADE: &str = "onelock/src/backends.rs";

/// Returns the parameters of all backends. `Err` if a backend has no list, or reads a parameter that its list lacks.
pub(super) fn read_of_urls() -> Result<Items, String> {
    let facade = read(&root().join(FACADE))?;
    let mut unlisted: BTreeSet<&str> = backends(&facade).into_iter().collect();
    let mut all = Items::new();
    for package in packages()? {
        let manifest = read(&root().join(&package.folder).join("Cargo.toml"))?;
        for (backend, lists) in lists(&manifest) {
            unlisted.remove(backend);
            let names = of_backend(&package.folder, backend, &lists)?;
            all.extend(names.into_iter().map(|name| format!("{backend}?{name}")));
        }
    }
    match unlisted.first() {
        Some(backend) => {
            Err(format!("no manifest says in {SECTION} where {backend}'s parameters are listed"))
        }
        None => Ok(all),
    }
}

/// Returns the parameters in these lists of one backend: constants by their files.
fn of_backend(folder: &str, backend: &str, lists: &[(&str, &str)]) -> Result<Items, String> {
    let (mut known, mut taken) = (Items::new(), Items::new());
    for (file, constant) in lists {
        let text = read(&root().join(folder).join(file))?;
        let listed = listed(&text, constant);
        if listed.is_empty() {
            return Err(format!("{folder}/{file} has no list {constant}"));
        }
        known.extend(listed);
        taken.extend(taken_by(&text));
    }
    match taken.difference(&known).next() {
        Some(unlisted) => {
            Err(format!("{backend} reads the URL's parameter {unlisted}, and lists it nowhere"))
        }
        None => Ok(known),
    }
}

/// Returns the lines of the manifest's section: a backend, and its lists.
fn lists(manifest: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
    let section = manifest.lines().skip_while(|line| *line != SECTION).skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let read = lines.filter_map(|line| {
        let (backend, lists) = line.split_once(" = ")?;
        let lists = lists.split('"').skip(1).step_by(2).filter_map(|list| list.split_once(' '));
        Some((backend, lists.collect()))
    });
    read.collect()
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
const TOGETHER: [(&str, &[&str]); 2] = [
    ("take_common(", &["prefix", "patience", "connect_wait", "lazy"]),
    ("take_certificates(", &["ca", "cert", "key"]),
];

/// Returns the parameters that the code of a file takes out of a URL, without its tests.
fn taken_by(text: &str) -> Items {
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let calls = ["take(\"", "take_duration(\"", "take_trust(&mut url, \""];
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
            const C: CertificateNames = CertificateNames::new(\n    &[\"ca\", \"sslrootcert\"],\n);\n";
        assert_eq!(listed(text, "A"), items(&["p", "lazy", "ca", "key"]));
        assert_eq!(listed(text, "B"), items(&["ssl-mode", "socket"]));
        assert_eq!(listed(text, "C"), items(&["ca", "sslrootcert"]));
        assert!(listed(text, "D").is_empty());
    }

    #[test]
    fn what_is_taken_is_read_and_what_tests_take_is_not() {
        let text = "url.take(\"db\"); url.take_duration(\"tick\")?; take_trust(&mut url, \"fs\")?;\n\
            url.take_certificates(&names)?;\n#[cfg(test)]\nmod tests {\n    url.take(\"x\");\n}\n";
        assert_eq!(taken_by(text), items(&["db", "tick", "fs", "ca", "cert", "key"]));
        assert_eq!(taken_by("ours.take_common()?"), items(&["prefix", "patience", "connect_wait", "lazy"]));
    }

    #[test]
    fn a_manifest_says_where_the_lists_are() {
        let manifest = "[package]\nname = \"x\"\n\n[package.metadata.parameters]\n\
            a = [\"src/a.rs ONE\", \"src/b.rs TWO\"]\nb = [\"src/b.rs TWO\"]\n\n[features]\nc = [\"d e\"]\n";
        let (one, two) = (("src/a.rs", "ONE"), ("src/b.rs", "TWO"));
        assert_eq!(lists(manifest), [("a", vec![one, two]), ("b", vec![two])]);
        assert!(lists("[package]\nname = \"x\"\n").is_empty());
    }

    #[test]
    fn backends_are_those_of_the_facade() {
        let facade = "    \"toy\" [\"toy\", \"toys\"] => lock_toy as toy, connect, x;\n    let x = \"y\";\n";
        assert_eq!(backends(facade), ["toy"]);
    }
}
