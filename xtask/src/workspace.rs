//! Reads the workspace's manifests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::documents::read;

/// A member of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) folder: String,
    pub(crate) name: String,
    /// Without `default`.
    pub(crate) features: Vec<String>,
}

impl Package {
    /// Returns whether this is a backend: the locks of one kind of server.
    pub(crate) fn is_backend(&self) -> bool {
        let folder = self.folder.as_str();
        folder.starts_with("lock-") && !["lock-core", "lock-cli"].contains(&folder)
    }
}

/// Returns the workspace's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Returns the folder in which this program and all others of the workspace are built: `target/debug`.
pub(crate) fn programs() -> PathBuf {
    let this = std::env::current_exe().expect("the system knows where its programs are");
    this.parent().expect("a program is in a folder").to_owned()
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    programs().parent().expect("it is a folder of the target's").to_owned()
}

/// Returns the command `cargo <arguments>` in the workspace. It does not change the lock file.
pub(crate) fn cargo(verb: &str, arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).arg(verb);
    // `cargo run` has told xtask its own name, version and folder. The build script of `ring` asks for those of its
    // caller, so ring and what depends on it would be built anew, and again by the next cargo without xtask.
    let of_a_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_a_package(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    if verb != "fmt" {
        cargo.arg("--locked");
    }
    cargo.args(arguments);
    cargo
}

/// Reads every member of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let manifest = read(&root().join("Cargo.toml"))?;
    let folders = members(&manifest).map(folders).collect::<Result<Vec<_>, _>>()?;
    folders.into_iter().flatten().map(package).collect()
}

fn package(folder: String) -> Result<Package, String> {
    let manifest = read(&root().join(&folder).join("Cargo.toml"))?;
    let name = package_name(&manifest).ok_or_else(|| format!("{folder}/Cargo.toml has no name"))?;
    Ok(Package { name: name.to_owned(), features: features(&manifest), folder })
}

/// Returns the folders that a member stands for: `lock-*` is each folder of the root with such a name and a manifest.
fn folders(member: &str) -> Result<Vec<String>, String> {
    let Some(prefix) = member.strip_suffix('*') else { return Ok(vec![member.to_owned()]) };
    let entries = fs::read_dir(root()).map_err(|error| format!("{}: {error}", root().display()))?;
    let found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = found.filter(|path| path.join("Cargo.toml").is_file());
    let names = found.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    Ok(names)
}

// The manifests are our own and have a regular form, so a few lines can read them. A TOML library would have to be
// built before everything else.

fn members(manifest: &str) -> impl Iterator<Item = &str> {
    let list = manifest
        .split_once("\nmembers")
        .and_then(|(_, rest)| Some(rest.split_once('[')?.1.split_once(']')?.0));
    list.unwrap_or_default().split('"').skip(1).step_by(2)
}

/// Returns the name of the package that a manifest describes.
pub(crate) fn package_name(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Returns the features that a manifest lists, and those that are optional dependencies: as in cargo, each that no
/// feature turns on by `dep:`.
fn features(manifest: &str) -> Vec<String> {
    let listed: Vec<_> = section(manifest, "[features]").collect();
    let is_listed = |name: &str| {
        let named = format!("\"dep:{name}\"");
        listed.iter().any(|(_, turns_on)| turns_on.contains(&named))
    };
    let optional = section(manifest, "[dependencies]").filter(|(_, terms)| terms.contains("optional = true"));
    let dependencies = optional.filter(|(name, _)| !is_listed(name));
    let all = listed.iter().copied().chain(dependencies).filter(|(name, _)| *name != "default");
    all.map(|(name, _)| name.to_owned()).collect()
}

/// Returns the lines of a section: what is before the `=`, and what is behind it.
fn section<'a>(manifest: &'a str, title: &'static str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let lines = manifest.lines().map(str::trim);
    let section =
        lines.skip_while(move |line| *line != title).skip(1).take_while(|line| !line.starts_with('['));
    let entries = section.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    entries.map(|(name, value)| (name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
[package]
name = "one"

[features]
default = ["a"]
# b = is a comment
a = ["dep:x"]
b = []

[dependencies]
x = { version = "1", features = ["c"], optional = true }
y = "1"
z = { package = "two", optional = true }
"#;

    #[test]
    fn features_and_members_are_read() {
        assert_eq!(features(MANIFEST), ["a", "b", "z"], "x is turned on by its name");
        assert_eq!(package_name(MANIFEST), Some("one"));
        let manifest = "[workspace]\nmembers = [\n  \"a\",\n  \"b/c\",\n]\nexclude = [\"d\"]\n";
        assert_eq!(members(manifest).collect::<Vec<_>>(), ["a", "b/c"]);
        assert_eq!(folders("lock-c*").unwrap(), ["lock-cli", "lock-core"]);
    }

    #[test]
    fn this_workspace_is_read() {
        let packages = packages().unwrap();
        let backends: Vec<_> =
            packages.iter().filter(|package| package.is_backend()).map(|it| &*it.folder).collect();
        assert!(backends.contains(&"lock-redis") && !backends.contains(&"lock-core"), "{backends:?}");
        let facade = packages.iter().find(|package| package.name == "onelock").unwrap();
        assert!(facade.features.iter().any(|feature| feature == "redis"));
        assert!(packages.iter().any(|package| package.name == "xtask" && package.features.is_empty()));
    }
}
