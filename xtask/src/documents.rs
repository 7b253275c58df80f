//! Checks that the documents name what exists: cases and backends' own tests by their names, other documents by their
//! paths. Checks also that every case is named by a promise or a rule, and that no page of the guide is left out of the
//! book and of the tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::{packages, root};

/// The folder of the guide's pages.
const GUIDE: &str = "docs/guide";

/// Documents that list cases and promise nothing.
const LISTS: [&str; 2] = ["bug-classes.md", "claims.md"];

/// Checks all documents. `Err` lists names of what doesn't exist, and the cases that no promise and no rule names.
pub(crate) fn check() -> Result<(), String> {
    let cases = cases()?;
    let topics: BTreeSet<&str> = cases.iter().filter_map(|case| case.split("::").next()).collect();
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    for path in documents()? {
        let text = read(&path)?;
        let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        for name in code(&text).filter(|name| topics.iter().any(|topic| is_in(topic, name))) {
            if !cases.contains(name) {
                wrong.push(format!("{shown} names {name}, which is no case"));
            } else if !LISTS.iter().any(|list| shown.ends_with(list)) {
                named.insert(name.to_owned());
            }
        }
        let missing = code(&text).filter(|name| is_missing_test(name));
        wrong.extend(missing.map(|name| format!("{shown} names {name}, which is no test")));
        let folder = path.parent().unwrap_or(root());
        let broken = links(&text).filter(|link| !folder.join(link).exists());
        wrong.extend(broken.map(|link| format!("{shown} links to {link}, which isn't there")));
    }
    wrong.extend(left_out()?);
    let unnamed = cases.difference(&named);
    wrong.extend(unnamed.map(|case| format!("no document says what {case} is for")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns `topic::name` of every case of the suite.
pub(crate) fn cases() -> Result<BTreeSet<String>, String> {
    let folder = root().join("conformance/suite/src/cases");
    let mut cases = BTreeSet::new();
    for path in files(&folder, "rs")? {
        let topic = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = read(&path)?;
        for rest in behind(&text, "    case!(").chain(behind(&text, "[case!(")) {
            let name: String =
                rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            cases.insert(format!("{topic}::{name}"));
        }
    }
    if cases.is_empty() { Err(format!("no cases in {}", folder.display())) } else { Ok(cases) }
}

/// Returns the Markdown files that people read.
fn documents() -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in ["", "docs", "docs/decisions", GUIDE, "docs/protocols", "bench"] {
        found.extend(files(&root().join(folder), "md")?);
    }
    let readmes = packages()?.into_iter().map(|package| root().join(package.folder).join("README.md"));
    found.extend(readmes.filter(|readme| readme.is_file() && !found.contains(readme)).collect::<Vec<_>>());
    Ok(found)
}

/// Returns the pages that the book lacks, and the guide's pages whose code no test compiles.
fn left_out() -> Result<Vec<String>, String> {
    let book = read(&root().join("docs/SUMMARY.md"))?;
    let compiled = read(&root().join("onelock/src/guide.rs"))?;
    let mut wrong = Vec::new();
    for path in files_below(&root().join("docs"), "md")? {
        let page =
            path.strip_prefix(root().join("docs")).unwrap_or(&path).display().to_string().replace('\\', "/");
        if page != "SUMMARY.md" && !book.contains(&format!("({page})")) {
            wrong.push(format!("docs/SUMMARY.md lacks {page}"));
        }
    }
    for path in files(&root().join(GUIDE), "md")? {
        let page = path.file_name().unwrap_or_default().to_string_lossy();
        if !compiled.contains(&format!("\"{page}\"")) {
            wrong.push(format!(
                "onelock/src/guide.rs lacks the guide's page {page}: its code is not compiled"
            ));
        }
    }
    Ok(wrong)
}

pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect())
}

/// Returns the files of a folder and of all folders in it.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = files(folder, extension)?;
    for entry in folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?.flatten() {
        if entry.path().is_dir() {
            found.extend(files_below(&entry.path(), extension)?);
        }
    }
    Ok(found)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the texts between single backticks, outside of code blocks.
pub(crate) fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Returns whether a name has the form of a test's name and no such test exists.
fn is_missing_test(name: &str) -> bool {
    match name.split_once("::") {
        Some(("interop", case)) => !is_interop(case),
        Some((place, _)) => place.contains('/') && !is_test(name),
        None => false,
    }
}

/// Returns whether a case with this name is played with other libraries' clients.
fn is_interop(case: &str) -> bool {
    let list = fs::read_to_string(root().join("conformance/foreign/src/case.rs")).unwrap_or_default();
    list.contains(&format!("=> \"{case}\""))
}

/// Returns whether `redis/grant::name` is a test that some package has in `tests/redis/grant.rs`, or
/// `lock-core/src/location::name` a test in that file.
pub(crate) fn is_test(name: &str) -> bool {
    let Some((place, test)) = name.split_once("::").filter(|(place, _)| place.contains('/')) else {
        return false;
    };
    // Packages are folders of the root, or of its folder `conformance`.
    let within = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten();
    let folders = within(root().to_owned()).chain(within(root().join("conformance")));
    let packages = folders.filter_map(|entry| Some(entry.ok()?.path()));
    let files = packages.map(|package| package.join(format!("tests/{place}.rs")));
    let mut files = files.chain([root().join(format!("{place}.rs"))]);
    files.any(|file| {
        let list = fs::read_to_string(file.with_file_name("main.rs")).unwrap_or_default();
        let is_listed = |text: &str| lists(text, test) || lists(&list, test);
        fs::read_to_string(&file)
            .is_ok_and(|text| runs(&text, test) || defines(&text, test) && is_listed(&text))
    })
}

/// Returns whether a file has this test, for cargo's own test runner.
fn runs(text: &str, test: &str) -> bool {
    let function = format!("fn {test}(");
    let behind = ["#[test]", "#[tokio::test"].into_iter().flat_map(|attribute| text.split(attribute).skip(1));
    // The rest of the attribute's line and further attributes come before the function.
    let mut functions = behind.filter_map(|behind| behind.lines().find(|line| line.contains("fn ")));
    functions.any(|line| line.contains(&function))
}

/// Returns whether a file has this function, which may be in a list of tests.
fn defines(text: &str, test: &str) -> bool {
    text.contains(&format!("fn {test}("))
}

/// Returns whether a list of tests has this test: as a line of `rules!`, or by its name in a string.
fn lists(text: &str, test: &str) -> bool {
    let is_line = |line: &str| line.trim().strip_suffix(',') == Some(test);
    text.lines().any(is_line) || ["\"", "::"].iter().any(|before| text.contains(&format!("{before}{test}\"")))
}

fn is_in(topic: &str, name: &str) -> bool {
    name.strip_prefix(topic).is_some_and(|rest| rest.starts_with("::"))
}

/// Returns the relative targets of links, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    behind(text, "](")
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|link| !link.is_empty() && !link.contains("://"))
}

/// Returns the text behind each `mark`.
fn behind<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).map(move |(at, _)| &text[at + mark.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_prose_count_and_code_blocks_do_not() {
        let text = "a `lease::one` and `x`\n```text\n`lease::two`\n```\n(`names::three`)";
        let found: Vec<_> = code(text).collect();
        assert_eq!(found, ["lease::one", "x", "names::three"]);
        assert!(is_in("lease", "lease::one") && !is_in("lease", "leases::one") && !is_in("lease", "lease"));
    }

    #[test]
    fn tests_of_a_backends_own_are_looked_for_in_its_folder() {
        let name = "redis/grant::the_script_refuses_an_attempt_after_its_deadline";
        assert!(!is_missing_test(name) && is_missing_test("redis/grant::x") && is_missing_test("redis/x::y"));
        assert!(!is_missing_test("lease::x") && !is_missing_test("docs/x.md"));
        assert!(!is_missing_test("interop::a_storm_of_both") && is_missing_test("interop::x"));
        assert!(
            is_test("lock-core/src/location::durations_have_a_unit")
                && !is_test("lock-core/src/location::parse")
        );
        // A function in a file of tests is a test only if it is in the list.
        assert!(!is_test("redis/server::run") && !is_test("redis/server::granted"));
    }

    #[test]
    fn links_are_relative_and_lose_their_anchors() {
        let text = "[a](docs/a.md#x) [b](https://b) [c](#c) [d](../d.md)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "../d.md"]);
    }

    #[test]
    fn the_documents_are_true() {
        check().expect("they name what exists");
    }
}
