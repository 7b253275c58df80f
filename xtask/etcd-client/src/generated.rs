//! The code that the original's build script generates.

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::Files;

/// The files that the original's build script compiles.
const PROTOS: [&str; 5] = [
    "etcd/api/authpb/auth.proto",
    "etcd/api/etcdserverpb/rpc.proto",
    "etcd/api/mvccpb/kv.proto",
    "etcd/server/etcdserver/api/v3election/v3electionpb/v3election.proto",
    "etcd/server/etcdserver/api/v3lock/v3lockpb/v3lock.proto",
];

/// The packages of these files. Options of the HTTP gateway, from which code is generated as well, are not used.
const PACKAGES: [&str; 5] = ["authpb", "etcdserverpb", "mvccpb", "v3electionpb", "v3lockpb"];

/// Returns the code for the `.proto` files in `folder`. protox takes protoc's place; the rest is as in the original's
/// build script.
pub(crate) fn from(folder: &Path) -> Result<Files, Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([folder])?;
    compiler.include_imports(true).include_source_info(true);
    let described = compiler.open_files(PROTOS)?.file_descriptor_set();
    let out = std::env::current_exe()?.with_file_name("generated");
    fs::create_dir_all(&out)?;
    tonic_prost_build::configure()
        .build_server(false)
        .emit_rerun_if_changed(false)
        .out_dir(&out)
        .compile_fds(described)?;
    let file = |package: &str| {
        Ok((format!("src/rpc/pb/{package}.rs"), fs::read(out.join(format!("{package}.rs")))?))
    };
    PACKAGES.into_iter().map(file).collect()
}
