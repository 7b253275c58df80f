//! Calls of git.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder, and returns what it prints.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    output(Command::new("git").current_dir(folder).args(arguments))
}

/// Runs a git command, and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    // A hook's environment names another repository than this one.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let output = command.output().map_err(|e| format!("git can't be run: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Returns the paths that git lists with `-z`.
pub(crate) fn paths(listed: &str) -> Vec<String> {
    listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A test's own repository, which is deleted at its end.
    pub(crate) struct Repository(PathBuf);

    impl Repository {
        pub(crate) fn new(name: &str) -> Repository {
            let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let repository = Repository(folder);
            repository.git(&["init", "--quiet", "--initial-branch", "main"]);
            repository
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }

        pub(crate) fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub(crate) fn commit(&self) {
            self.git(&["add", "--all"]);
            let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
            self.git(&[&who[..], &["commit", "--quiet", "--message", "a commit"]].concat());
        }

        pub(crate) fn git(&self, arguments: &[&str]) {
            git(&self.0, arguments).unwrap();
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
