//! The table of planted bugs that were tried, with the judges that noticed them: printed, and kept below `target`.

use std::fs;
use std::path::PathBuf;

use super::mutant::{self, Mutant};
use super::trial::Verdict;
use crate::git::git;
use crate::workspace::{root, target};

const HEAD: &str = "| planted bug | in | breaks | caught by |\n|---|---|---|---|\n";

/// A step of `cargo xtask ci`: checks that every planted bug applies, and that the case exists which is expected to notice
/// it.
pub(crate) fn check() -> Result<(), String> {
    let mutants = mutant::all()?;
    let wrong: Vec<String> = mutants.iter().flat_map(wrong_with).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn wrong_with(mutant: &Mutant) -> Vec<String> {
    let applies = git(root(), &["apply", "--check", &mutant.path()]);
    let stale =
        applies.err().map(|why| format!("{} does not apply any more; make it again: {why}", mutant.path()));
    let unknown = (!mutant.expected.is_written())
        .then(|| format!("{} expects \"{}\", and there is no such case", mutant.path(), mutant.expected));
    stale.into_iter().chain(unknown).collect()
}

/// Returns the table of these trials.
pub(crate) fn of(outcomes: &[(Mutant, Verdict)]) -> String {
    outcomes.iter().fold(HEAD.to_owned(), |table, (mutant, verdict)| table + &row(mutant, verdict) + "\n")
}

/// Keeps the table of these trials, and returns its path.
pub(crate) fn keep(outcomes: &[(Mutant, Verdict)]) -> Result<PathBuf, String> {
    let path = target().join("planted-bugs.md");
    fs::write(&path, of(outcomes)).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

fn row(mutant: &Mutant, verdict: &Verdict) -> String {
    let Mutant { name, planted, breaks, files, .. } = mutant;
    let files = files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
    let by = match verdict {
        Verdict::Caught(catch) => format!("{}: {}", catch.judge, catch.what),
        Verdict::Missed(_) => "**no judge**".to_owned(),
        Verdict::Failed(_) => "**not tried**".to_owned(),
    };
    // A judge's text about a case has to stay in one cell.
    format!("| {name}: {planted} | {files} | {breaks} | {} |", by.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planted_bugs_apply_and_the_cases_they_expect_exist() {
        check().expect("every bug applies, and its case exists");
    }
}
