//! The table of planted bugs and of the judges that noticed them: `docs/planted-bugs.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::mutant::{self, Mutant};
use super::trial::Verdict;
use crate::git::git;
use crate::workspace::root;

const DOCUMENT: &str = "docs/planted-bugs.md";
/// The lines above the rows.
const HEAD: &str = "| planted bug | in | breaks | caught by |\n|---|---|---|---|\n";

/// The last cell of a bug that no judge noticed, and of one that could not be tried.
const MISSED: &str = "**no judge**";
const NOT_TRIED: &str = "**not tried**";

/// A step of `cargo xtask ci`: checks that every planted bug applies, and is in the table as caught.
pub(crate) fn check() -> Result<(), String> {
    let mutants = mutant::all()?;
    let rows = rows(&read()?);
    let mut wrong = Vec::new();
    for mutant in &mutants {
        if let Err(why) = git(root(), &["apply", "--check", &mutant.path()]) {
            wrong.push(format!("{} does not apply any more; make it again: {why}", mutant.path()));
        }
        match rows.get(&mutant.name) {
            None => wrong
                .push(format!("{DOCUMENT} lacks {0}; run `cargo xtask mutants --write {0}`", mutant.name)),
            Some(row) if !row.starts_with(&described(mutant)) => wrong.push(format!(
                "{DOCUMENT} and the head of {0} differ; run `cargo xtask mutants --write {0}`",
                mutant.name
            )),
            Some(row) if [MISSED, NOT_TRIED].iter().any(|open| row.contains(open)) => wrong.push(format!(
                "{DOCUMENT} says that no judge notices {}: write the case that is missing",
                mutant.name
            )),
            Some(_) => {}
        }
    }
    let gone = rows.keys().filter(|name| !mutants.iter().any(|mutant| mutant.name == **name));
    wrong.extend(gone.map(|name| format!("{DOCUMENT} has {name}, which has no patch: remove the row")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns the table of these trials.
pub(crate) fn of(outcomes: &[(Mutant, Verdict)]) -> String {
    outcomes.iter().fold(HEAD.to_owned(), |table, (mutant, verdict)| table + &row(mutant, verdict) + "\n")
}

/// Writes these trials into the document, in place of the rows of the same bugs.
pub(crate) fn write(outcomes: &[(Mutant, Verdict)]) -> Result<(), String> {
    let text = read()?;
    let mut rows = rows(&text);
    let known = mutant::all()?;
    rows.retain(|name, _| known.iter().any(|mutant| mutant.name == *name));
    rows.extend(outcomes.iter().map(|(mutant, verdict)| (mutant.name.clone(), row(mutant, verdict))));
    let intro = text.split_once(HEAD).map(|(intro, _)| intro).ok_or_else(no_table)?;
    let rows: String = rows.values().map(|row| format!("{row}\n")).collect();
    let path = path();
    fs::write(&path, format!("{intro}{HEAD}{rows}")).map_err(|e| format!("{}: {e}", path.display()))
}

fn row(mutant: &Mutant, verdict: &Verdict) -> String {
    let by = match verdict {
        Verdict::Caught(catch) => format!("{}: {}", catch.judge, catch.what),
        Verdict::Missed(_) => MISSED.to_owned(),
        Verdict::Failed(_) => NOT_TRIED.to_owned(),
    };
    // A judge's text about a case has to stay in one cell.
    format!("{} {} |", described(mutant), by.replace('|', "\\|"))
}

/// Returns a row up to its verdict.
fn described(mutant: &Mutant) -> String {
    let Mutant { name, planted, breaks, files, .. } = mutant;
    let files = files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
    format!("| [{name}](../{}): {planted} | {files} | {breaks} |", mutant.path())
}

/// Returns the rows of the document by their planted bugs. The table is the end of the document.
fn rows(text: &str) -> BTreeMap<String, String> {
    let table = text.split_once(HEAD).map_or("", |(_, table)| table);
    let named = table.lines().filter_map(|row| {
        let (name, _) = row.strip_prefix("| [")?.split_once(']')?;
        Some((name.to_owned(), row.to_owned()))
    });
    named.collect()
}

fn read() -> Result<String, String> {
    let path = path();
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if text.contains(HEAD) { Ok(text) } else { Err(no_table()) }
}

fn no_table() -> String {
    format!("{DOCUMENT} has no table that begins with:\n{HEAD}")
}

fn path() -> PathBuf {
    root().join(DOCUMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planted_bugs_apply_and_are_in_the_table() {
        check().expect("every bug applies and is listed");
    }

    #[test]
    fn rows_are_known_by_their_names() {
        let text = format!("# Intro\n\n{HEAD}| [01-a](x) | y |\n| [02-b](x) | z |\n");
        let rows = rows(&text);
        assert_eq!(rows.keys().collect::<Vec<_>>(), ["01-a", "02-b"]);
        assert_eq!(rows["02-b"], "| [02-b](x) | z |");
    }
}
