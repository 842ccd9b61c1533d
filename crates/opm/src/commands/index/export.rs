//! `opm index export`: writes packages of an index image as directories of manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use legacy::{Database, PackageInfo};
use source::{ContainerTool, Fetcher};

use crate::commands::registry::items;
use crate::database;
use crate::exit::{Failure, Outcome, in_path};
use crate::images::{self, PullFlags, TlsFlags, container_tool};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::tree::NewFiles;

/// Write packages of an index image as directories of manifests
#[derive(clap::Args)]
#[command(
    long_about = "Write packages of an index image as directories of manifests.\n\n\
        Writes a directory per package, with the manifests of each version and a 'package.yaml' that lists its \
        channels. Writes nothing until all images are pulled, and overwrites nothing.",
    after_help = "Examples:\n  opm index export -i quay.io/example/index:v1 -p etcd -f packages"
)]
pub(crate) struct ExportArgs {
    /// Index image
    #[arg(short, long, value_name = "REF")]
    index: String,
    /// Packages to write; defaults to all
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',')]
    package: Vec<String>,
    /// Packages to write
    #[arg(short = 'o', long, value_name = "PACKAGE", value_delimiter = ',', hide = true)]
    xpackage: Vec<String>,
    /// Directory to write to
    #[arg(short = 'f', long, value_name = "DIR", default_value = "downloaded")]
    download_folder: PathBuf,
    /// Program to pull images with
    #[arg(short, long, value_name = "TOOL", default_value = "none", value_parser = container_tool())]
    container_tool: ContainerTool,
    #[command(flatten)]
    pull: PullFlags,
    /// Enable debug logging
    #[arg(long, hide = true)]
    debug: bool,
}

pub(crate) fn run(args: &ExportArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    database::notice(printer);
    let (named, old) = (items(&args.package), items(&args.xpackage));
    if !named.is_empty() && !old.is_empty() {
        return Err(Failure::message("cannot simultaneously set '-p' and '-o' flags, remove '-o'"));
    }
    let wanted = if named.is_empty() { old } else { named };
    let fetcher = images::fetcher(tls, &args.pull, args.container_tool)?;
    let scratch = Unfinished::private("opm-index-")?;
    let file = scratch.path().join("index.db");
    fetcher.database(&args.index, &file)?;
    let database = database::read(&file, printer).map_err(database::failure)?;
    let mut packages = database.packages().map_err(database::failure)?;
    for name in &wanted {
        if !packages.iter().any(|package| package.name == *name) {
            return Err(Failure::message(format!("package \"{name}\" not found in index")));
        }
    }
    packages.retain(|package| wanted.is_empty() || wanted.contains(&package.name));
    let new = NewFiles::start(&args.download_folder)?;
    for package in &packages {
        write_package(&database, package, &fetcher, new.path())?;
    }
    new.finish()
}

/// Writes a package below `root`.
fn write_package(database: &Database, package: &PackageInfo, fetcher: &Fetcher, root: &Path) -> Outcome {
    let directory = root.join(element(&package.name)?);
    fs::create_dir_all(&directory).map_err(|error| in_path(&directory, &error))?;
    let mut bundles: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for bundle in package.channels.iter().flat_map(|channel| &channel.bundles) {
        bundles.insert(&bundle.name, (&bundle.version, &bundle.image));
    }
    let images: Vec<&str> = bundles.values().map(|(_, image)| *image).filter(|image| !image.is_empty()).collect();
    let mut failures = Vec::new();
    let mut unpacked: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for (image, outcome) in images.iter().zip(fetcher.unpack(&images)) {
        match outcome {
            Ok(directory) => drop(unpacked.insert(image, directory)),
            Err(error) => failures.push(format!("exporting bundle image:{image} failed with {error}")),
        }
    }
    if !failures.is_empty() {
        return Err(Failure::message(format!("[{}]", failures.join(", "))));
    }
    for (name, (version, image)) in bundles {
        let target = directory.join(element(if version.is_empty() { name } else { version })?);
        fs::create_dir_all(&target).map_err(|error| in_path(&target, &error))?;
        match unpacked.get(image) {
            Some(bundle) => copy_files(&bundle.join("manifests"), &target).map_err(|error| in_path(&target, &error))?,
            None => {
                for (i, object) in database.objects(name).map_err(database::failure)?.iter().enumerate() {
                    let file = target.join(format!("{i:04}.json"));
                    fs::write(&file, object).map_err(|error| in_path(&file, &error))?;
                }
            }
        }
    }
    let file = directory.join("package.yaml");
    fs::write(&file, package_yaml(package)).map_err(|error| in_path(&file, &error))
}

/// Rejects names that cannot be those of directories.
fn element(name: &str) -> Result<&str, Failure> {
    match fbc::is_file_name(name) {
        true => Ok(name),
        false => Err(Failure::message(format!("{name:?} is not a valid directory name"))),
    }
}

/// Copies the files of a directory, without hidden ones, links and subdirectories.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn package_yaml(package: &PackageInfo) -> String {
    let mut out = format!("packageName: {}\n", scalar(&package.name));
    out.push_str(if package.channels.is_empty() { "channels: []\n" } else { "channels:\n" });
    for channel in &package.channels {
        out.push_str(&format!("    - name: {}\n      currentCSV: {}\n", scalar(&channel.name), scalar(&channel.head)));
    }
    out.push_str(&format!("defaultChannel: {}\n", scalar(&package.default_channel)));
    out
}

/// Encodes text as YAML: plain if it is unambiguous, or else quoted.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    if word && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}
