//! Checks that the documents name what exists: cases of the suite by their names, other documents by their paths. Checks
//! also that no page of the guide is left out of the book and of the tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::evidence::cases;
use crate::git::git;
use crate::workspace::root;

/// The folder of the guide's pages.
const GUIDE: &str = "docs/guide";

/// Checks all documents. `Err` lists names of what doesn't exist.
pub(crate) fn check() -> Result<(), String> {
    let cases = cases()?;
    let topics: BTreeSet<&str> = cases.iter().filter_map(|case| case.split("::").next()).collect();
    let mut wrong = Vec::new();
    for shown in git(root(), &["ls-files", "*.md"])?.lines() {
        let path = root().join(shown);
        let text = read(&path)?;
        let of_the_suite =
            code(&text).filter(|name| name.split_once("::").is_some_and(|(topic, _)| topics.contains(topic)));
        let missing = of_the_suite.filter(|name| !cases.contains(*name));
        wrong.extend(missing.map(|name| format!("{shown} names {name}, which is no case")));
        let folder = path.parent().unwrap_or(root());
        let broken = links(&text).filter(|link| !folder.join(link).exists());
        wrong.extend(broken.map(|link| format!("{shown} links to {link}, which isn't there")));
    }
    wrong.extend(left_out()?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
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
    for path in files_below(&root().join(GUIDE), "md")? {
        let page = path.file_name().unwrap_or_default().to_string_lossy();
        if !compiled.contains(&format!("\"{page}\"")) {
            wrong.push(format!(
                "onelock/src/guide.rs lacks the guide's page {page}: its code is not compiled"
            ));
        }
    }
    Ok(wrong)
}

/// Returns the files of a folder and of all folders in it.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?.flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files_below(&path, extension)?),
            false if path.extension().is_some_and(|its| its == extension) => found.push(path),
            false => {}
        }
    }
    Ok(found)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the texts between single backticks, outside of code blocks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Returns the relative targets of links, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    behind(text, "](")
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|link| !link.is_empty() && !link.contains("://"))
}

/// Returns the text behind each `mark`.
pub(crate) fn behind<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
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
