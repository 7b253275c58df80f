//! Calls of git.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder, and returns what it prints.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.current_dir(folder).args(arguments);
    // A hook's environment names another repository than this one.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    let output = git.output().map_err(|error| format!("git can't be run: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
