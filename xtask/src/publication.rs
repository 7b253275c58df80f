//! Checks that the crates which users depend on can be published: what the registry and docs.rs show of each, and that
//! cargo packs all of them.

use crate::documents::read;
use crate::steps::command;
use crate::workspace::{Package, cargo, root};

/// What the manifest of each published crate has.
const MANIFEST: [&str; 5] =
    ["\ndescription = \"", "\nlicense", "\nrepository", "\nkeywords = [", "\ncategories = ["];

/// What it has if the crate is a library, for docs.rs.
const DOCS: &str =
    "[package.metadata.docs.rs]\nall-features = true\nrustdoc-args = [\"--cfg\", \"docsrs\"]\n";

/// What makes docs.rs show of each item which feature it takes.
const SHOWS_FEATURES: &str = "\n#![cfg_attr(docsrs, feature(doc_cfg))]\n";

/// The files that each published crate has beside its manifest.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Checks all members. `Err` lists what is missing.
pub(crate) fn check(packages: &[Package]) -> Result<(), String> {
    let mut missing = Vec::new();
    for package in packages {
        missing.extend(missing_of(package)?);
    }
    if missing.is_empty() { pack() } else { Err(missing.join("\n")) }
}

fn missing_of(package: &Package) -> Result<Vec<String>, String> {
    let folder = root().join(&package.folder);
    let manifest = read(&folder.join("Cargo.toml"))?;
    if manifest.contains("\npublish = false\n") {
        return Ok(Vec::new());
    }
    let mut missing: Vec<&str> = lacking(&manifest);
    missing.extend(FILES.into_iter().filter(|file| !folder.join(file).is_file()));
    let library = folder.join("src/lib.rs");
    if library.is_file() {
        missing.extend([DOCS].into_iter().filter(|text| !manifest.contains(text)));
        missing.extend(
            [SHOWS_FEATURES].into_iter().filter(|text| !read(&library).is_ok_and(|it| it.contains(text))),
        );
    }
    Ok(missing.into_iter().map(|what| format!("{} lacks {}", package.folder, what.trim())).collect())
}

/// Returns what a manifest lacks.
fn lacking(manifest: &str) -> Vec<&'static str> {
    MANIFEST.into_iter().filter(|text| !manifest.contains(text)).collect()
}

/// Packs every crate in the order of their dependencies, as for the registry. The packages are not built: `cargo publish
/// --workspace --dry-run` does that, too, and takes minutes.
fn pack() -> Result<(), String> {
    let dry = ["--workspace", "--dry-run", "--no-verify", "--allow-dirty", "--quiet"];
    command(&mut cargo("publish", &dry))
}

#[cfg(test)]
mod tests {
    use super::{lacking, missing_of};
    use crate::workspace::packages;

    #[test]
    fn a_crate_for_users_says_what_it_is() {
        let manifest =
            "[package]\nname = \"a\"\ndescription = \"A\"\nlicense = \"MIT\"\nkeywords = [\"b\"]\n";
        assert_eq!(lacking(manifest), ["\nrepository", "\ncategories = ["]);
    }

    #[test]
    fn our_crates_say_what_they_are() {
        let packages = packages().expect("the manifests are readable");
        let missing: Vec<_> =
            packages.iter().map(|package| missing_of(package).expect("it is readable")).collect();
        assert_eq!(missing.concat(), [""; 0]);
    }

    #[test]
    fn tools_and_tests_are_not_published() {
        let packages = packages().expect("the manifests are readable");
        let published = packages.iter().filter(|package| {
            let manifest = crate::workspace::root().join(&package.folder).join("Cargo.toml");
            !std::fs::read_to_string(manifest).expect("it is readable").contains("\npublish = false\n")
        });
        let mut published: Vec<_> = published.map(|package| package.name.as_str()).collect();
        published.sort_unstable();
        assert_eq!(
            published,
            [
                "lock-cli",
                "lock-conformance",
                "lock-core",
                "lock-etcd",
                "lock-memory",
                "lock-mongo",
                "lock-redis",
                "lock-redlock",
                "lock-sql",
                "lock-zk",
                "onelock"
            ]
        );
    }
}
