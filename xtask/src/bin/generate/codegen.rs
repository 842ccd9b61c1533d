//! Generates the Rust code of the registry API from its `.proto` file, and the table of Kubernetes fields.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use prost::Message;

use crate::{Project, known_fields};

/// Messages that the server sends already encoded; they get no Rust type.
const REPLIES: &[&str] = &[
    ".api.PackageName",
    ".api.Package",
    ".api.Channel",
    ".api.Bundle",
    ".api.ChannelEntry",
    ".api.GroupVersionKind",
    ".api.Dependency",
    ".api.Property",
    ".api.Deprecation",
    ".google.protobuf.Struct",
];
/// The placeholder type for these messages; nothing refers to it.
const ENCODED: &str = "()";

/// Writes the generated files; with `check`, fails if they are stale.
pub(crate) fn run(project: &Project, check: bool) -> Result<()> {
    let root = project.root.join("crates/serve");
    let (proto, target) = (root.join("proto"), root.join("src/grpc/gen"));
    let files = protox::compile(["registry.proto"], [&proto]).map_err(|error| anyhow!("{error:?}"))?;
    let descriptors = files.encode_to_vec();
    let scratch = std::env::temp_dir().join(format!("opm-codegen-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let mut builder = tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .out_dir(&scratch)
        .emit_rerun_if_changed(false);
    for reply in REPLIES {
        builder = builder.extern_path(*reply, ENCODED);
    }
    builder.compile_fds(files).context("generating code")?;
    let code = fs::read_to_string(scratch.join("api.rs")).context("generated code");
    let _ = fs::remove_dir_all(&scratch);
    put(check, target.join("api.rs"), code?.as_bytes())?;
    put(check, target.join("descriptors.bin"), &descriptors)?;
    let table = project.root.join("crates/bundle/src/rehearse/typed/kubernetes.txt");
    put(check, table, known_fields::table(project)?.as_bytes())
}

fn put(check: bool, path: PathBuf, content: &[u8]) -> Result<()> {
    if !check {
        return fs::write(&path, content).with_context(|| path.display().to_string());
    }
    let present = fs::read(&path).with_context(|| path.display().to_string())?;
    ensure!(present == content, "{} is stale; run: cargo xtask codegen", path.display());
    Ok(())
}
