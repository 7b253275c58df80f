//! Finds out which planted bugs a change concerns.
//!
//! A verdict depends on three things: the patch, the code that it is planted in, and the case that is expected to
//! notice. If one of them changes, the bug is tried again. A change elsewhere, for example in another file of the
//! crate, may also keep a case from noticing; only the run of all planted bugs shows that.

use std::path::Path;

use super::mutant::Mutant;
use crate::git::{git, paths};
use crate::workspace::root;

/// What has changed, and since when.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The commit that the work tree is compared with.
    pub(crate) base: String,
    files: Vec<String>,
}

impl Changes {
    /// Returns the changes since the work tree's history left that of `revision`. If no revision is named, on a branch
    /// the changes since it left main, and on main those since the last commit or merge. `None` if there is no commit
    /// before this one.
    pub(crate) fn since(revision: Option<&str>) -> Result<Option<Changes>, String> {
        Changes::in_folder(root(), revision)
    }

    fn in_folder(folder: &Path, revision: Option<&str>) -> Result<Option<Changes>, String> {
        let base = match revision {
            Some(revision) => git(folder, &["merge-base", revision, "HEAD"])
                .map_err(|why| format!("the work tree can't be compared with {revision:?}: {why}"))?,
            None => match default_base(folder) {
                Some(base) => base,
                None => return Ok(None),
            },
        };
        let base = base.trim().to_owned();
        let mut files = paths(&git(folder, &["diff", "--name-only", "--no-renames", "-z", &base])?);
        files.extend(paths(&git(folder, &["ls-files", "-z", "--others", "--exclude-standard"])?));
        Ok(Some(Changes { base, files }))
    }

    /// Returns whether the verdict on this bug may be another now.
    pub(crate) fn concern(&self, mutant: &Mutant) -> bool {
        let (path, source) = (mutant.path(), mutant.expected.source());
        self.files
            .iter()
            .any(|file| *file == path || mutant.files.contains(file) || file.starts_with(&source))
    }
}

fn default_base(folder: &Path) -> Option<String> {
    let head = git(folder, &["rev-parse", "HEAD"]).ok()?;
    let left = |main: &&str| git(folder, &["merge-base", main, "HEAD"]).ok().filter(|base| *base != head);
    ["origin/main", "main"]
        .iter()
        .find_map(left)
        .or_else(|| git(folder, &["rev-parse", "--verify", "--quiet", "HEAD^"]).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::Repository;

    fn changed(repository: &Repository, revision: Option<&str>) -> Option<Vec<String>> {
        let changes = Changes::in_folder(repository.path(), revision).unwrap();
        changes.map(|changes| changes.files)
    }

    #[test]
    fn a_branch_is_compared_with_where_it_left_main_and_main_with_its_last_commit() {
        let repository = Repository::new("changes");
        repository.write("a", "1");
        repository.commit();
        assert_eq!(changed(&repository, None), None, "there is no earlier commit");
        repository.git(&["switch", "--quiet", "--create", "branch"]);
        for file in ["b", "c"] {
            repository.write(file, "1");
            repository.commit();
        }
        repository.write("d", "not committed");
        assert_eq!(changed(&repository, None).unwrap(), ["b", "c", "d"]);
        assert_eq!(changed(&repository, Some("HEAD~1")).unwrap(), ["c", "d"]);
        repository.git(&["switch", "--quiet", "main"]);
        repository.git(&["merge", "--quiet", "--ff-only", "branch"]);
        assert_eq!(changed(&repository, None).unwrap(), ["c", "d"]);
        assert!(Changes::in_folder(repository.path(), Some("nowhere")).is_err());
    }
}
