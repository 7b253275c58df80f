//! The revision of the sources that a run measured.

use std::process::{Command, Stdio};

/// Returns the commit that is checked out where this program was built, followed by `-dirty` if files have changed since;
/// `None` if the sources are no longer there, or in no repository.
pub(crate) fn checked_out() -> Option<String> {
    let mut git = Command::new("git");
    git.args([
        "-C",
        env!("CARGO_MANIFEST_DIR"),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]);
    let output = git.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
