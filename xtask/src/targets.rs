//! Reads from cargo's messages which test programs it has built.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::workspace::package_name;

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The package's and the target's name: `lock-redis: conformance`.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// The folder in which it is started.
    pub(crate) folder: PathBuf,
    pub(crate) lane: Lane,
}

/// The main activity of a program. This decides what may run beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The program waits, for servers and for leases to end. Its tests judge lateness, so only a few run at a
    /// time. Such programs have a `main` of their own (`harness = false`).
    Waits,
    /// The program computes, and uses virtual clocks if it tests times. One runs at a time.
    Computes,
}

/// Reads cargo's messages (`--message-format=json`), one per line.
pub(crate) fn read(messages: &str) -> Vec<Target> {
    let mut manifests = BTreeMap::new();
    messages.lines().filter_map(|message| target(message, &mut manifests)).collect()
}

fn target(message: &str, manifests: &mut BTreeMap<PathBuf, String>) -> Option<Target> {
    let is_test = message.split_once("\"profile\":{")?.1.split_once('}')?.0.contains("\"test\":true");
    if !is_test {
        return None;
    }
    let program = PathBuf::from(text(message, "executable")?);
    let manifest = PathBuf::from(text(message, "manifest_path")?);
    let (_, described) = message.split_once("\"target\":{")?;
    let (kind, name) = (described.split('"').nth(3)?, text(described, "name")?);
    let folder = manifest.parent()?.to_owned();
    let manifest =
        manifests.entry(manifest).or_insert_with_key(|path| fs::read_to_string(path).unwrap_or_default());
    let package = package_name(manifest)?;
    let lane = match kind == "test" && has_own_main(manifest, &name) {
        true => Lane::Waits,
        false => Lane::Computes,
    };
    let name = match kind {
        "test" | "example" => format!("{package}: {name}"),
        kind => format!("{package}: units ({kind})"),
    };
    Some(Target { name, program, folder, lane })
}

/// Returns the value of the first such key in `json`.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, value) = json.split_once(&format!("\"{key}\":\""))?;
    // A Windows path has backslashes, which JSON doubles.
    Some(value.split_once('"')?.0.replace("\\\\", "\\"))
}

/// Returns whether this `[[test]]` of the manifest says `harness = false`.
pub(crate) fn has_own_main(manifest: &str, name: &str) -> bool {
    let tests = manifest.split("[[test]]").skip(1);
    let mut sections = tests.map(|test| test.split("\n[").next().unwrap_or_default());
    let says = |section: &str, line: &str| section.lines().any(|said| said.trim() == line);
    sections.any(|section| says(section, &format!("name = \"{name}\"")) && says(section, "harness = false"))
}

#[cfg(test)]
mod tests {
    use super::{Lane, read};
    use crate::workspace::root;

    fn message(kind: &str, name: &str, test: bool) -> String {
        let manifest = root().join("lock-redis/Cargo.toml").display().to_string().replace('\\', "\\\\");
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"p\",\"manifest_path\":\"{manifest}\",\
             \"target\":{{\"kind\":[\"{kind}\"],\"crate_types\":[\"bin\"],\"name\":\"{name}\",\"test\":true}},\
             \"profile\":{{\"opt_level\":\"0\",\"test\":{test}}},\"executable\":\"/t/{name}-1\",\"fresh\":true}}"
        )
    }

    #[test]
    fn test_programs_are_read_with_what_they_do() {
        let messages = [
            message("test", "conformance", true),
            message("lib", "lock_redis", true),
            message("example", "quick", false),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        let targets = read(&messages.join("\n"));
        let read: Vec<_> = targets.iter().map(|target| (target.name.as_str(), target.lane)).collect();
        assert_eq!(
            read,
            [("lock-redis: conformance", Lane::Waits), ("lock-redis: units (lib)", Lane::Computes)]
        );
        assert!(targets[0].program.ends_with("conformance-1") && targets[0].folder.ends_with("lock-redis"));
    }
}
