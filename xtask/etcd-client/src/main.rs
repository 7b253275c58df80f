//! Makes the copy of etcd-client in `lock-etcd/client`, which builds without protoc, from the published crate.
//!
//! ```text
//! onelock-etcd-client            compares the copy with what it would write, and lists the files that differ
//! onelock-etcd-client --write    writes the copy
//! ```

mod generated;
mod original;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files by their paths in the crate, which are written with `/`.
type Files = BTreeMap<String, Vec<u8>>;

/// What the copy has of the original, and what this program therefore owns. The manifest and the README are written by
/// hand.
const COPIED: [&str; 3] = ["src", "LICENSE-APACHE", "LICENSE-MIT"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        ["--write"] => write(),
        _ => Err("usage: onelock-etcd-client [--write]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("onelock-etcd-client: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the copy with the original and the generated code.
fn compare() -> Result<(), Box<dyn Error>> {
    let (copy, wanted) = (read(&copy())?, wanted()?);
    let paths: BTreeSet<&String> = copy.keys().chain(wanted.keys()).collect();
    let differing: Vec<&str> =
        paths.into_iter().filter(|path| copy.get(*path) != wanted.get(*path)).map(String::as_str).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let differing = differing.join(", ");
    Err(format!("in {}, these files are not as --write would write them: {differing}", copy_shown()).into())
}

/// Writes the copy, and removes files that it should not have.
fn write() -> Result<(), Box<dyn Error>> {
    let (copy, wanted) = (copy(), wanted()?);
    for gone in read(&copy)?.keys().filter(|path| !wanted.contains_key(*path)) {
        fs::remove_file(copy.join(gone))?;
    }
    for (path, content) in &wanted {
        let file = copy.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&copy))?;
        fs::write(file, content)?;
    }
    println!("{}: {} files", copy_shown(), wanted.len());
    Ok(())
}

/// Returns the files that the copy must have.
fn wanted() -> Result<Files, Box<dyn Error>> {
    let original = original::folder()?;
    let mut files = read(&original)?;
    original::include_generated_code(&mut files)?;
    files.extend(generated::from(&original.join("proto"))?);
    Ok(files)
}

/// Reads those files of a crate that are copied.
fn read(folder: &Path) -> Result<Files, Box<dyn Error>> {
    let mut files = Files::new();
    let mut paths: Vec<PathBuf> = COPIED.iter().map(|path| folder.join(path)).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                paths.push(entry?.path());
            }
        } else if path.is_file() {
            let relative = path.strip_prefix(folder)?.to_string_lossy().replace('\\', "/");
            files.insert(relative, fs::read(path)?);
        }
    }
    Ok(files)
}

/// Returns the folder of the copy.
fn copy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(copy_shown())
}

fn copy_shown() -> &'static str {
    "lock-etcd/client"
}
