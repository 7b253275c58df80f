//! `cargo xtask docs`: writes into the documents which tests prove each promise, guard against each class of bugs, and
//! cause each fault.
//!
//! Each test says so itself. A case of the suite does in its line, `case!(name, "one-holder", [B9])`. Any other test has a
//! comment above it, `// Proves: one-holder, B9`; above the first line of a file, the comment is about all tests of the
//! file. The names are anchors of the documents: `<a id="one-holder"></a>`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::documents::{behind, files_below, read};
use crate::workspace::{packages, root};

const DOCUMENTS: [&str; 3] = ["docs/semantics.md", "docs/bug-classes.md", "docs/faults.md"];
/// The text around the list of the anchors before it.
const BEGIN: &str = "<details><summary>Tested by</summary>";
const END: &str = "</details>";
/// The cases of the suite.
const CASES: &str = "conformance/suite/src/cases";
const MARK: &str = "// Proves: ";

/// The tests of each anchor.
type Evidence = BTreeMap<String, BTreeSet<String>>;

/// `cargo xtask docs`
pub(crate) fn write() -> ExitCode {
    let save = |(name, _, text): (&str, String, String)| {
        fs::write(root().join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    match documents().and_then(|documents| documents.into_iter().try_for_each(save)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A step of `cargo xtask ci`: compares the documents with what the sources say.
pub(crate) fn check() -> Result<(), String> {
    let stale = documents()?.into_iter().filter(|(_, before, after)| before != after);
    let stale: Vec<_> = stale.map(|(name, ..)| name).collect();
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!("`cargo xtask docs` would change {}", stale.join(", ")))
    }
}

/// Returns the cases of the suite: `topic::name`.
pub(crate) fn cases() -> Result<BTreeSet<String>, String> {
    Ok(evidence()?.into_values().flatten().filter(|test| !test.contains('/')).collect())
}

/// Returns each document's name, its text, and what the text has to be. `Err` lists promises without a test, and names
/// that no document has.
fn documents() -> Result<Vec<(&'static str, String, String)>, String> {
    let evidence = evidence()?;
    let (mut documents, mut known, mut wrong) = (Vec::new(), BTreeSet::new(), Vec::new());
    for name in DOCUMENTS {
        let before = read(&root().join(name))?;
        let (after, anchors) = written(&before, &evidence).map_err(|why| format!("{name}: {why}"))?;
        let unproven = anchors.iter().filter(|anchor| !evidence.contains_key(*anchor));
        wrong.extend(unproven.map(|anchor| format!("{name}: no test names {anchor}")));
        known.extend(anchors);
        documents.push((name, before, after));
    }
    for (anchor, tests) in evidence.iter().filter(|(anchor, _)| !known.contains(*anchor)) {
        let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
        wrong.push(format!("no document has {anchor}, which these name: {}", tests.join(", ")));
    }
    if wrong.is_empty() { Ok(documents) } else { Err(wrong.join("\n")) }
}

/// Returns a document with its lists made anew, and its anchors.
fn written(document: &str, evidence: &Evidence) -> Result<(String, Vec<String>), String> {
    let (mut text, mut anchors, mut listed) = (String::new(), Vec::new(), 0);
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        text += line;
        text += "\n";
        anchors.extend(behind(line, "<a id=\"").filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        if line == BEGIN {
            let items = anchors[listed..].iter().map(|anchor| item(anchor, evidence));
            text += &format!("\n{}{END}\n", items.collect::<String>());
            listed = anchors.len();
            lines.find(|line| *line == END).ok_or("a list of tests has no end")?;
        }
    }
    match anchors.get(listed) {
        None => Ok((text, anchors)),
        Some(anchor) => Err(format!("no list of tests follows {anchor}")),
    }
}

fn item(anchor: &str, evidence: &Evidence) -> String {
    let tests = evidence.get(anchor).into_iter().flatten().map(|test| format!("`{test}`"));
    format!("- [{anchor}](#{anchor}): {}\n", tests.collect::<Vec<_>>().join(", "))
}

/// Reads what the tests of all packages say.
fn evidence() -> Result<Evidence, String> {
    let mut evidence = Evidence::new();
    // This package names anchors that are no evidence.
    for package in packages()?.into_iter().filter(|package| package.folder != "xtask") {
        let folders = ["src", "tests"].map(|folder| root().join(&package.folder).join(folder));
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            for file in files_below(folder, "rs")? {
                let text = read(&file)?;
                let said =
                    if file.starts_with(root().join(CASES)) { of_cases(&text, &file) } else { Vec::new() };
                let said = said.into_iter().chain(of_others(&text, &file));
                for (anchor, test) in said {
                    evidence.entry(anchor).or_default().insert(test);
                }
            }
        }
    }
    Ok(evidence)
}

/// Returns what the suite's cases in a file say: anchors and tests.
fn of_cases(text: &str, file: &Path) -> Vec<(String, String)> {
    let topic = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut said = Vec::new();
    for case in behind(text, "case!(").filter_map(|rest| rest.split([')', ';']).next()) {
        let Some((name, rest)) = case.split_once(',') else { continue };
        let Some((promises, rest)) = rest.split_once('"').and_then(|(_, rest)| rest.split_once('"')) else {
            continue;
        };
        let classes =
            rest.split_once('[').map_or("", |(_, rest)| rest.trim_end_matches([']', ',', ' ', '\n']));
        let test = format!("{topic}::{}", name.trim());
        said.extend(names(promises).chain(names(classes)).map(|anchor| (anchor, test.clone())));
    }
    said
}

/// Returns what comments say of the tests below them: anchors and tests.
fn of_others(text: &str, file: &Path) -> Vec<(String, String)> {
    let place =
        file.strip_prefix(root()).unwrap_or(file).with_extension("").to_string_lossy().replace('\\', "/");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut said = Vec::new();
    for (at, anchors) in
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix(MARK)?)))
    {
        let mut below = lines[at..].iter().take_while(|line| !line.is_empty() && !line.starts_with("//!"));
        let test = match below.find_map(|line| test(line)) {
            Some(test) => format!("{place}::{test}"),
            None => {
                ["/main", "/mod"].iter().find_map(|end| place.strip_suffix(end)).unwrap_or(&place).to_owned()
            }
        };
        said.extend(names(anchors).map(|anchor| (anchor, test.clone())));
    }
    said
}

/// Returns the name of the test that begins on a line: of a function, or a string in a list of tests.
fn test(line: &str) -> Option<&str> {
    match line.split_once("fn ") {
        Some((_, function)) if !line.starts_with("//") => function.split(['(', '<']).next(),
        _ => line.trim_start_matches('(').strip_prefix('"')?.split('"').next(),
    }
}

fn names(list: &str) -> impl Iterator<Item = String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_names_its_promises_and_classes() {
        let text = "case!(a, \"one, two\", [B1]; if |s| s.x()),\n\
            case!(\n    b,\n    \"one\"\n    ),\ncase!(c, [B2]),";
        let said = of_cases(text, Path::new("src/cases/topic.rs"));
        let said: Vec<_> = said.iter().map(|(anchor, test)| format!("{anchor} {test}")).collect();
        assert_eq!(said, ["one topic::a", "two topic::a", "B1 topic::a", "one topic::b"]);
    }

    #[test]
    fn a_comment_covers_the_test_or_the_file() {
        let text = "// Proves: whole\n//! A file.\n\n    // Proves: one, B1\n    /// A fn that.\n    #[test]\n    fn a() {\n\
            // Proves: two\n(\n    \"a sentence\", b),\n";
        let said = of_others(text, &root().join("p/tests/x/main.rs"));
        let said: Vec<_> = said.iter().map(|(anchor, test)| format!("{anchor} {test}")).collect();
        assert_eq!(
            said,
            [
                "whole p/tests/x",
                "one p/tests/x/main::a",
                "B1 p/tests/x/main::a",
                "two p/tests/x/main::a sentence"
            ]
        );
    }

    #[test]
    fn a_list_has_the_anchors_before_it() {
        let evidence = Evidence::from([("b".to_owned(), BTreeSet::from(["x::y".to_owned()]))]);
        let page = |list: &str| format!("<a id=\"b\"></a>A promise.\n\n{BEGIN}\n{list}{END}\n\nThe rest.\n");
        let (text, anchors) = written(&page("stale\n"), &evidence).unwrap();
        assert_eq!((text, anchors), (page("\n- [b](#b): `x::y`\n"), vec!["b".to_owned()]));
        assert!(written("<a id=\"b\"></a>", &evidence).unwrap_err().contains("follows b"));
    }

    #[test]
    fn every_promise_has_a_test() {
        check().expect("the documents are those of the sources");
    }
}
