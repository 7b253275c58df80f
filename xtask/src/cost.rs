//! Checks what a further backend costs outside of its own folder: six lines in four files, or fewer. One backend
//! stands for all, and every line that names it is counted, in all files that are needed to build the library and the
//! program.

use std::path::{Path, PathBuf};

use crate::documents::{files_below, read};
use crate::workspace::{packages, root};

/// The backend that is counted: its folder, and the words that name it.
const FOLDER: &str = "lock-etcd";
const WORDS: [&str; 4] = ["lock-etcd", "lock_etcd", "etcd", "etcds"];

/// The lines that a backend costs.
const ALLOWED: [(&str, usize); 4] = [
    // The dependency, which is the feature, too; its places in `all-servers`, and in `tls` where encryption is optional.
    ("onelock/Cargo.toml", 3),
    // Its schemes, its module, and how it is opened.
    ("onelock/src/backends.rs", 1),
    // The program's feature, by which it is built for this server alone.
    ("lock-cli/Cargo.toml", 1),
    // Its row in the table. Sentences about a server are not counted.
    ("README.md", 1),
];

/// What names servers for a reason, and is not needed to build the library and the program.
const NOT_COUNTED: [&str; 5] = [
    // The backend itself.
    FOLDER,
    // Comparisons with that server's raw client and with other libraries.
    "bench",
    // Servers that tests start, other libraries' clients, and planted bugs. The suite's list of what our documents
    // promise of each backend says nothing of a backend that it does not know.
    "conformance",
    // The programs that may notice a planted bug.
    "xtask/src/mutants",
    // This file.
    "xtask/src/cost.rs",
];

/// Checks all files. `Err` lists the lines of each file that has more of them than a backend may cost.
pub(crate) fn check() -> Result<(), String> {
    let mut wrong = Vec::new();
    for path in files()? {
        let shown = shown(&path);
        let lines = naming(&shown, &read(&path)?);
        let allowed = ALLOWED.iter().find(|(file, _)| *file == shown).map_or(0, |(_, lines)| *lines);
        if lines.len() > allowed {
            let lines: String = lines.iter().map(|(at, line)| format!("\n  {at}: {line}")).collect();
            wrong.push(format!("{shown} may name {FOLDER} in {allowed} lines, and does in{lines}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns the files that a build needs: manifests and sources without tests, and the README.
fn files() -> Result<Vec<PathBuf>, String> {
    let mut found = vec![root().join("Cargo.toml"), root().join("README.md")];
    for package in packages()? {
        let folder = root().join(package.folder);
        found.push(folder.join("Cargo.toml"));
        found.extend(files_below(&folder.join("src"), "rs")?);
    }
    found.retain(|path| !NOT_COUNTED.iter().any(|not| Path::new(&shown(path)).starts_with(not)));
    Ok(found)
}

/// Returns the path as it is written here: from the root, with `/`.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string().replace('\\', "/")
}

/// Returns the lines of a file that name the backend, with their numbers. Comments don't count, and unit tests don't,
/// which take any name for an example.
fn naming(file: &str, text: &str) -> Vec<(usize, String)> {
    let counts: fn(&str) -> bool = match file.rsplit('.').next() {
        Some("rs") => |line| !line.starts_with("//"),
        Some("toml") => |line| !line.starts_with('#'),
        _ => |line| line.starts_with("| `"),
    };
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    let lines = lines.map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| counts(line) && names(line));
    lines.map(|(at, line)| (at, line.to_owned())).collect()
}

fn names(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || "-_".contains(c)));
    words.any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(file: &str, text: &str) -> Vec<usize> {
        naming(file, text).into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn lines_that_name_it_are_counted_and_comments_and_unit_tests_are_not() {
        let source = "// etcd\nuse lock_etcd::x;\n    \"etcds\" => 1,\nuse etcd_client::y;\n#[cfg(test)]\nlet e = \"etcd\";\n";
        assert_eq!(numbers("a/src/b.rs", source), [2, 3]);
        let manifest = "# etcd://\netcd-client = \"1\"\nlock-etcd = { path = \"lock-etcd\" }\ntls = [\"lock-etcd?/tls\"]\n";
        assert_eq!(numbers("Cargo.toml", manifest), [3, 4]);
        assert_eq!(numbers("README.md", "On etcd:\n| `etcd://a` | a cluster |\n"), [2]);
    }

    #[test]
    fn what_is_counted_names_it_where_it_must() {
        let files: Vec<String> = files().expect("the workspace").iter().map(|path| shown(path)).collect();
        for (file, lines) in ALLOWED {
            assert!(files.iter().any(|counted| counted == file), "{file} is not counted");
            let text = read(&root().join(file)).expect("it is there");
            assert_eq!(naming(file, &text).len(), lines, "{file}");
        }
        assert_eq!(ALLOWED.map(|(_, lines)| lines).iter().sum::<usize>(), 6);
        for file in ["Cargo.toml", "lock-cli/src/args/server.rs"] {
            assert!(files.iter().any(|counted| counted == file), "{file} is not counted");
        }
        assert!(!files.iter().any(|file| file.starts_with("lock-etcd/") || file.starts_with("bench/")));
    }

    #[test]
    fn a_backend_costs_no_more_lines() {
        check().expect("the lines of a backend");
    }
}
