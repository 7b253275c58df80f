//! The scratch copy in which bugs are planted. It is kept with its build results, so that a planted bug costs only what
//! cargo has to rebuild for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::git::{git, paths};
use crate::workspace::root;

/// A copy of the work tree, without what git ignores.
#[derive(Debug)]
pub(crate) struct Scratch {
    tree: PathBuf,
    target: PathBuf,
    output: PathBuf,
}

impl Scratch {
    /// Makes the copy, or updates it. A file that has not changed is not touched, so that it is not built again.
    pub(crate) fn make() -> Result<Scratch, String> {
        Scratch::of(root(), &root().join("target/mutants"))
    }

    fn of(from: &Path, folder: &Path) -> Result<Scratch, String> {
        let copy = Scratch {
            tree: folder.join("tree"),
            target: folder.join("target"),
            output: folder.join("output"),
        };
        let listed = paths(&git(from, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?);
        // git also lists files that are deleted, if that is not committed yet.
        let files: BTreeSet<String> = listed.into_iter().filter(|file| from.join(file).is_file()).collect();
        fs::create_dir_all(&copy.tree).map_err(|e| format!("{}: {e}", copy.tree.display()))?;
        for file in &files {
            copy.update(from, file)?;
        }
        for stray in below(&copy.tree)? {
            let relative = stray.strip_prefix(&copy.tree).unwrap_or(&stray).to_string_lossy().into_owned();
            if !files.contains(&relative) {
                fs::remove_file(&stray).map_err(|e| format!("{}: {e}", stray.display()))?;
            }
        }
        Ok(copy)
    }

    /// Applies a patch whose paths begin at the root.
    pub(crate) fn plant(&self, patch: &Path) -> Result<(), String> {
        let patch = patch.to_string_lossy();
        // The copy is inside a work tree. Without a ceiling git would apply the patch at the root of that tree.
        let ceiling = self.tree.parent().unwrap_or(&self.tree);
        let mut apply = Command::new("git");
        apply.current_dir(&self.tree).env("GIT_CEILING_DIRECTORIES", ceiling).args(["apply", &patch]);
        crate::git::output(&mut apply).map(drop)
    }

    /// Restores these files to their state in the work tree.
    pub(crate) fn restore(&self, files: &[String]) -> Result<(), String> {
        files.iter().try_for_each(|file| self.update(root(), file))
    }

    fn update(&self, from: &Path, file: &str) -> Result<(), String> {
        let (source, target) = (from.join(file), self.tree.join(file));
        let failed = |e: std::io::Error| format!("{}: {e}", target.display());
        let content = fs::read(&source).map_err(|e| format!("{}: {e}", source.display()))?;
        if fs::read(&target).is_ok_and(|old| old == content) {
            return Ok(());
        }
        target.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(&target, content).map_err(failed)?;
        // Scripts have to be executable in the copy as well.
        let permissions = fs::metadata(&source).map(|file| file.permissions()).map_err(failed)?;
        fs::set_permissions(&target, permissions).map_err(failed)
    }

    /// Returns the command `cargo <verb> <arguments>` in the copy.
    pub(crate) fn cargo(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut cargo = crate::workspace::cargo(verb, arguments);
        cargo
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo
    }

    /// Returns a command for a program that was built in the copy.
    pub(crate) fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // If these servers are missing, that is an error and no verdict.
        command.current_dir(&self.tree).env("LOCK_TEST_REQUIRE", "redis,mongodb").env("RUST_BACKTRACE", "0");
        command
    }

    /// The file for a command's output.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }
}

/// Returns every file below a folder.
fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
            let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::Repository;

    const PATCH: &str = "A head.\n\n--- a/x/a.txt\n+++ b/x/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n";

    fn read(copy: &Scratch) -> String {
        fs::read_to_string(copy.tree.join("x/a.txt")).unwrap()
    }

    #[test]
    fn a_bug_is_planted_in_the_copy_alone_and_gone_when_the_copy_is_made_anew() {
        let repository = Repository::new("copy");
        repository.write("x/a.txt", "one\ntwo\n");
        repository.write("a.patch", PATCH);
        let make = || Scratch::of(repository.path(), &repository.path().join("target/mutants")).unwrap();
        repository.write(".gitignore", "/target\n");
        let copy = make();
        copy.plant(&repository.path().join("a.patch")).unwrap();
        assert_eq!(read(&copy), "1\ntwo\n");
        assert_eq!(fs::read_to_string(repository.path().join("x/a.txt")).unwrap(), "one\ntwo\n");
        fs::write(copy.tree.join("x/stray"), "").unwrap();
        let copy = make();
        assert_eq!(read(&copy), "one\ntwo\n");
        assert!(!copy.tree.join("x/stray").exists());
    }

    #[test]
    fn a_patch_that_does_not_fit_is_an_error_and_changes_nothing() {
        let repository = Repository::new("misfit");
        repository.write("x/a.txt", "another\ntwo\n");
        repository.write("a.patch", PATCH);
        repository.write(".gitignore", "/target\n");
        let copy = Scratch::of(repository.path(), &repository.path().join("target/mutants")).unwrap();
        let why = copy.plant(&repository.path().join("a.patch")).unwrap_err();
        assert!(why.contains("x/a.txt"), "{why}");
        assert_eq!(read(&copy), "another\ntwo\n");
    }
}
