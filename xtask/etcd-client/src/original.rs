//! The published crate.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Files;

/// The file that includes the code which the original's build script generates.
const INCLUDES: &str = "src/rpc/pb.rs";

/// Returns the folder into which cargo has unpacked the crate, after it has checked its hash.
pub(crate) fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let original = packages.find(|package| package["name"] == "etcd-client");
    let manifest = original.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    Ok(folder.ok_or("cargo metadata does not list etcd-client")?.to_owned())
}

/// Replaces each `tonic::include_proto!("a")`, which looks in the build script's folder, by an `include!` of a file
/// that lies beside.
pub(crate) fn include_generated_code(files: &mut Files) -> Result<(), Box<dyn Error>> {
    let file = files.get_mut(INCLUDES).ok_or_else(|| format!("the original has no {INCLUDES}"))?;
    let mut parts = std::str::from_utf8(file)?.split("tonic::include_proto!(\"");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (package, rest) = part.split_once('"').ok_or("an include_proto! has no end")?;
        text.push_str(&format!("include!(\"pb/{package}.rs\"{rest}"));
    }
    *file = text.into_bytes();
    Ok(())
}
