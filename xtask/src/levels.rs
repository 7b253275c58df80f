//! Checks that inside lock-core every import goes to the same level or to a lower one. A file can then be read after
//! the files below it, and without those above it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::documents::{files_below, read};
use crate::workspace::root;

const CORE: &str = "lock-core/src";
/// The folders and files above the values, the lowest level first. Those of one level do not import each other, but
/// for the last one's. All other files are values, on the lowest level.
const LEVELS: [&[&str]; 4] = [
    &["driver"],
    &["home", "local_queue", TOOLKIT],
    &["acquisition"],
    &["blocking", "client", "guard", "lib", "lock", "multi", "opening", "periodic", "reentrant"],
];

/// The tools for authors of backends, which the core itself does not use.
const TOOLKIT: &str = "toolkit";

/// Checks all files. `Err` lists the imports that go upwards.
pub(crate) fn check() -> Result<(), String> {
    let folder = root().join(CORE);
    let mut wrong = Vec::new();
    for path in files_below(&folder, "rs")? {
        let shown = path.strip_prefix(&folder).unwrap_or(&path);
        let part = part_of(shown);
        let upwards = imported(&read(&path)?).into_iter().filter(|imported| !may_import(&part, imported));
        wrong.extend(upwards.map(|imported| format!("{CORE}/{} imports {imported}", shown.display())));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn may_import(part: &str, imported: &str) -> bool {
    let (own, other) = (level(part), level(imported));
    if imported == TOOLKIT {
        return part == TOOLKIT;
    }
    part == imported || other < own || other == own && (own == 0 || own == LEVELS.len())
}

/// Returns the level of a folder or file: 0 for values.
fn level(part: &str) -> usize {
    LEVELS.iter().position(|level| level.contains(&part)).map_or(0, |at| at + 1)
}

/// Returns the folder directly below the sources that a file is in, or its own name.
fn part_of(path: &Path) -> String {
    let first = path.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned());
    let first = first.unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

/// Returns what a file imports of its crate: `acquisition` of `use crate::acquisition::{Life, Outcome};`.
/// Tests don't count.
fn imported(text: &str) -> BTreeSet<String> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let paths = lines.filter_map(|line| line.split_once("use crate::")).map(|(_, path)| path);
    let names = paths.map(|path| path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_go_to_the_same_level_or_down() {
        assert!(["driver", "acquisition", "clock"].iter().all(|lower| may_import("acquisition", lower)));
        assert!(may_import("error", "name") && may_import("lock", "guard"));
        assert!(!may_import("acquisition", "lock") && !may_import("events", "driver"));
        assert!(!may_import("home", "local_queue"), "neighbours on one level");
        assert!(may_import("toolkit", "driver") && !may_import("driver", "toolkit"));
        assert!(!may_import("acquisition", "toolkit"), "the core uses no tool for backends");
    }

    #[test]
    fn imports_are_read_only_before_the_tests() {
        let text = "pub(crate) use crate::acquisition::{\n    Life,\n};\nuse crate::error::Error;\nuse super::x;\n\
            #[cfg(test)]\nmod tests {\n    use crate::clock::Time;\n}\n";
        assert_eq!(imported(text).into_iter().collect::<Vec<_>>(), ["acquisition", "error"]);
        assert_eq!(part_of(Path::new("acquisition/mod.rs")), "acquisition");
        assert_eq!(part_of(Path::new("error.rs")), "error");
    }

    #[test]
    fn no_import_goes_upwards() {
        check().expect("the levels of lock-core");
    }
}
