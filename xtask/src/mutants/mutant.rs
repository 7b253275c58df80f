//! A planted bug: a patch, and the fields in its head.

use std::fs;
use std::path::{Path, PathBuf};

use super::judge::{self, Finding, Judge};
use super::scratch::Scratch;
use crate::workspace::root;

/// The folder of the patches, from the repository's root.
pub(crate) const FOLDER: &str = "conformance/mutants";

/// A planted bug.
#[derive(Debug)]
pub(crate) struct Mutant {
    /// The path of its file in the folder of the patches, without `.patch`: `lock-redis/no-token`.
    pub(crate) name: String,
    /// One sentence that says what the bug is.
    pub(crate) planted: String,
    /// The class of bugs that it belongs to, or the rule that it breaks.
    pub(crate) breaks: String,
    /// The judge and case that are expected to notice, and are asked first.
    pub(crate) expected: Probe,
    pub(crate) symptom: Symptom,
    /// The files that it changes, from the repository's root.
    pub(crate) files: Vec<String>,
}

/// A judge, and the case that is asked; all of its cases, if none is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    pub(crate) judge: &'static Judge,
    pub(crate) case: Option<String>,
}

/// How the bug is expected to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symptom {
    /// A case fails.
    Failure,
    /// The program doesn't end.
    Hang,
    /// A case fails now and then. One failure in a run of the judge's cases is enough.
    Sometimes,
}

/// Reads every planted bug, in the order of their names.
pub(crate) fn all() -> Result<Vec<Mutant>, String> {
    let folder = root().join(FOLDER);
    let mut patches = Vec::new();
    for of_package in paths_in(&folder)? {
        patches.extend(paths_in(&of_package)?.into_iter().filter(|path| is_patch(path)));
    }
    patches.sort();
    patches.iter().map(|path| read(&folder, path)).collect()
}

fn paths_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn is_patch(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "patch")
}

fn read(folder: &Path, path: &Path) -> Result<Mutant, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = path.strip_prefix(folder).unwrap_or(path).with_extension("");
    let name = name.to_string_lossy().replace('\\', "/");
    Mutant::parse(&name, &text).map_err(|why| format!("{FOLDER}/{name}.patch: {why}"))
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Result<Mutant, String> {
        let head: Vec<&str> = text.lines().take_while(|line| !line.starts_with("--- ")).collect();
        let field = |key: &str| head.iter().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let needed = |key: &str| field(key).ok_or_else(|| format!("its head has no line \"{key} …\""));
        let symptom = match field("Symptom:") {
            None => Symptom::Failure,
            Some("hang") => Symptom::Hang,
            Some("sometimes") => Symptom::Sometimes,
            Some(other) => {
                return Err(format!("the symptom is \"hang\", \"sometimes\" or left out, and not {other:?}"));
            }
        };
        let files: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect();
        if files.is_empty() {
            return Err("it changes no file (a line \"+++ b/…\" for each)".to_owned());
        }
        Ok(Mutant {
            name: name.to_owned(),
            planted: needed("Planted:")?.to_owned(),
            breaks: needed("Breaks:")?.to_owned(),
            expected: Probe::parse(needed("Judge:")?)?,
            symptom,
            files,
        })
    }

    /// Returns the patch's path from the repository's root.
    pub(crate) fn path(&self) -> String {
        format!("{FOLDER}/{}.patch", self.name)
    }

    /// Returns the judges to ask: first the expected one, then every judge that could notice, the quickest first.
    pub(crate) fn probes(&self) -> impl Iterator<Item = Probe> {
        let others = judge::ALL.iter().filter(|judge| self.files.iter().any(|file| judge.sees(file)));
        let others = others.map(|judge| Probe { judge, case: None }).filter(|probe| *probe != self.expected);
        std::iter::once(self.expected.clone()).chain(others)
    }
}

impl Probe {
    /// Parses `judge` or `judge, case`.
    fn parse(text: &str) -> Result<Probe, String> {
        let (name, case) = match text.split_once(',') {
            Some((name, case)) => (name.trim(), Some(case.trim().to_owned())),
            None => (text, None),
        };
        let known = || judge::ALL.iter().map(|judge| judge.name).collect::<Vec<_>>().join(", ");
        let judge = judge::ALL.iter().find(|judge| judge.name == name);
        let judge = judge.ok_or_else(|| format!("no judge is called {name:?}; there are: {}", known()))?;
        Ok(Probe { judge, case })
    }

    /// Runs the judge in the scratch copy. `Err` if its output says nothing about the cases.
    pub(crate) fn ask(&self, scratch: &Scratch, program: &Path) -> Result<Finding, String> {
        self.judge.ask(scratch, program, self.case.as_deref())
    }

    /// Returns whether the case is written where the judge's cases are; true if none is named.
    pub(crate) fn is_written(&self) -> bool {
        let Some(case) = &self.case else { return true };
        let name = case.rsplit("::").next().unwrap_or(case);
        let folder = self.judge.source.rsplit_once('/').map_or("", |(folder, _)| folder);
        let files = [sources(&root().join(folder)), sources(&root().join(format!("{folder}.rs")))].concat();
        files.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| has_word(&text, name)))
    }

    /// Returns where the judge's cases are written: the beginning of a path.
    pub(crate) fn source(&self) -> String {
        let topic =
            self.case.as_deref().and_then(|case| case.split_once("::")).map_or("", |(topic, _)| topic);
        format!("{}{topic}", self.judge.source)
    }
}

/// Returns whether a text has this name, and not only as a part of another one.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

/// Returns this file, or all files of this folder and of those in it.
fn sources(path: &Path) -> Vec<PathBuf> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().flat_map(|entry| sources(&entry.path())).collect(),
        Err(_) => vec![path.to_owned()],
    }
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.judge.name)?;
        self.case.iter().try_for_each(|case| write!(f, ", {case}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Planted: a bug\nBreaks:  B9\nJudge:   redis suite, contract::x\n\
        --- a/lock-redis/src/claim.rs\n+++ b/lock-redis/src/claim.rs\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn a_head_is_read() {
        let mutant = Mutant::parse("lock-redis/x", PATCH).unwrap();
        assert_eq!((mutant.planted.as_str(), mutant.breaks.as_str()), ("a bug", "B9"));
        assert_eq!(mutant.expected.to_string(), "redis suite, contract::x");
        assert_eq!(mutant.expected.source(), "conformance/suite/src/cases/contract");
        assert_eq!(mutant.files, ["lock-redis/src/claim.rs"]);
        assert_eq!(mutant.symptom, Symptom::Failure);
    }

    #[test]
    fn a_case_that_is_not_written_is_noticed() {
        let written = |case| {
            Mutant::parse("lock-redis/x", &PATCH.replace("contract::x", case)).unwrap().expected.is_written()
        };
        assert!(written("contract::release_never_touches_anothers"));
        assert!(!written("contract::release_never_touches"), "a part of another name");
        assert!(!written("contract::release_never_touches_anothers_lock"));
    }

    #[test]
    fn what_a_head_lacks_is_named() {
        let why = |text: &str| Mutant::parse("lock-redis/x", text).unwrap_err();
        assert!(why(&PATCH.replace("Breaks", "Brakes")).contains("Breaks:"));
        assert!(why(&PATCH.replace("redis suite", "rides suite")).contains("redis suite"));
        assert!(why(&PATCH.replace("+++ b/", "+++ ")).contains("+++ b/"));
        assert!(why(&format!("Symptom: pain\n{PATCH}")).contains("hang"));
        let sometimes = Mutant::parse("lock-redis/x", &format!("Symptom: sometimes\n{PATCH}")).unwrap();
        assert_eq!(sometimes.symptom, Symptom::Sometimes);
    }

    #[test]
    fn the_expected_judge_is_asked_first_and_one_that_cannot_see_the_bug_is_not() {
        let probes: Vec<_> = Mutant::parse("lock-redis/x", PATCH).unwrap().probes().collect();
        assert_eq!(probes[0].to_string(), "redis suite, contract::x");
        assert!(probes[1..].iter().all(|probe| probe.case.is_none()));
        assert!(probes.iter().any(|probe| probe.judge.name == "redis suite" && probe.case.is_none()));
        assert!(!probes.iter().any(|probe| probe.judge.name == "simulation"));
        let of_the_model =
            PATCH.replace("lock-redis/src/claim.rs", "conformance/simulation/src/majority/node.rs");
        let of_the_model = Mutant::parse("conformance/x", &of_the_model).unwrap();
        assert!(of_the_model.probes().any(|probe| probe.judge.name == "redlock simulation"));
    }
}
