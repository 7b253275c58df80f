//! Checks that our crates depend on each other in the workspace's version. cargo builds with an older one as well, and
//! would publish it.

use crate::documents::read;
use crate::workspace::{packages, root};

/// Checks all manifests. `Err` lists the dependencies that want another version.
pub(crate) fn check() -> Result<(), String> {
    let workspace = read(&root().join("Cargo.toml"))?;
    let ours = version(&workspace).ok_or("Cargo.toml has no version")?;
    let folders = packages()?.into_iter().map(|package| format!("{}/Cargo.toml", package.folder));
    let mut wrong = Vec::new();
    for shown in std::iter::once("Cargo.toml".to_owned()).chain(folders) {
        let manifest = read(&root().join(&shown))?;
        let others = wanted(&manifest).filter(|(_, version)| *version != ours);
        wrong.extend(others.map(|(name, version)| format!("{shown} wants {name} {version}, and not {ours}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns the version of all packages of the workspace.
fn version(manifest: &str) -> Option<&str> {
    let section = manifest.lines().skip_while(|line| *line != "[workspace.package]");
    section.skip(1).find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}

/// Returns the dependencies on packages of the workspace that name a version, and that version.
fn wanted(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let dependencies = manifest.lines().filter_map(|line| line.split_once(" = {"));
    let ours = dependencies.filter(|(_, terms)| terms.contains("path = \""));
    ours.filter_map(|(name, terms)| Some((name, terms.split_once("version = \"")?.1.split_once('"')?.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dependencies_of_the_workspace_that_name_a_version_count() {
        let manifest = "[dependencies]\na = { path = \"../a\", version = \"0.1.0\" }\nb = { path = \"../b\" }\n\
            c = { version = \"3\", features = [\"d\"] }\n\
            e = { package = \"f\", path = \"../f\", version = \"0.2.0\", optional = true }\n";
        assert_eq!(wanted(manifest).collect::<Vec<_>>(), [("a", "0.1.0"), ("e", "0.2.0")]);
    }

    #[test]
    fn the_version_is_the_workspaces() {
        let manifest = "[workspace]\nresolver = \"3\"\n\n[workspace.package]\nversion = \"0.3.0\"\n";
        assert_eq!(version(manifest), Some("0.3.0"));
        assert_eq!(version("[package]\nversion = \"0.3.0\"\n"), None);
    }

    #[test]
    fn our_crates_want_each_other_in_this_version() {
        check().expect("the versions");
    }
}
