//! `opm template render composite`: several catalogs from their parts, written to files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use catalog::Warnings;
use edit::template::composite::{self, Builder, Component};
use edit::template::{self, Kind, Template};
use fbc::{Fbc, Format, Limits, stream};
use tempfile::NamedTempFile;

use super::render_template::{Bundles, relative_to};
use super::{line_of, read_input};
use crate::exit::{Failure, Outcome};
use crate::images::Images;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{report, source, tree};

/// What to do.
pub(super) struct Plan<'a> {
    /// The file that names the components.
    pub(super) composite: &'a str,
    /// The file that names the catalogs, or where on the web it is.
    pub(super) catalogs: &'a str,
    pub(super) format: Format,
    /// Whether the catalogs must be valid.
    pub(super) validate: bool,
    pub(super) images: &'a Images,
    pub(super) limits: &'a Limits,
}

/// Makes all files aside, checks the catalogs that they are parts of, and puts them in their places.
pub(super) fn run(plan: &Plan<'_>, bundles: &mut Bundles<'_>, printer: &Printer) -> Outcome {
    let components = read(plan)?;
    let aside = Unfinished::private("opm-composite-").map_err(|error| failed(&std::env::temp_dir(), &error))?;
    let mut made = Vec::new();
    for (number, component) in components.iter().enumerate() {
        let about = |error: String| {
            Failure::message(format!(
                "rendering template: components[{number}] of catalog {:?}: {error}",
                component.catalog
            ))
        };
        let fbc = build(component, plan, bundles).map_err(about)?;
        source::warn_of_dropped(&fbc, printer)?;
        let file = aside.path().join(format!("part-{number}"));
        let mut out = BufWriter::new(fs::File::create_new(&file).map_err(|error| failed(&file, &error))?);
        fbc.write(&fbc.in_order(), plan.format, &mut out).map_err(|error| about(error.to_string()))?;
        out.flush().map_err(|error| failed(&file, &error))?;
        made.push(file);
    }
    if plan.validate {
        validate(&components, &made, aside.path(), plan, printer)?;
    }
    put_in_place(&components, &made)
}

/// Reads the two files.
fn read(plan: &Plan<'_>) -> Result<Vec<Component>, Failure> {
    let from_web = plan.catalogs.starts_with("http://") || plan.catalogs.starts_with("https://");
    let cannot_open = |file: &str, error: String| Failure::message(format!("unable to open {file:?}: {error}"));
    let catalogs = if from_web {
        let client = plan.images.client().map_err(Failure::Message)?;
        client.download(plan.catalogs, plan.limits.file_size).map_err(|error| error.to_string())
    } else {
        read_input(plan.catalogs, plan.limits).map_err(|error| error.to_string())
    }
    .map_err(|error| cannot_open(plan.catalogs, error))?;
    let composite =
        read_input(plan.composite, plan.limits).map_err(|error| cannot_open(plan.composite, error.to_string()))?;
    let parse = |file: &str, text| {
        Template::parse(text, plan.limits).map_err(|error| {
            Failure::message(format!("rendering template: {file}:{}: {error}", line_of(text, error.offset)))
        })
    };
    let components = composite::plan(&parse(plan.catalogs, &catalogs)?, &parse(plan.composite, &composite)?)
        .map_err(|error| Failure::message(format!("rendering template: {error}")))?;
    for component in components.iter().filter(|_| from_web) {
        // Where files are written is for whoever runs this to say, and not for a web server.
        let dir = &component.working_dir;
        if !dir.components().all(|step| matches!(step, std::path::Component::Normal(_) | std::path::Component::CurDir))
        {
            return Err(Failure::message(format!(
                "{}: working directory {:?} of catalog {:?} must be below the current directory",
                plan.catalogs, dir, component.catalog
            )));
        }
    }
    Ok(components)
}

/// Makes the catalog of one file.
fn build(component: &Component, plan: &Plan<'_>, bundles: &mut Bundles<'_>) -> Result<Fbc, String> {
    let (input, limits) = (|input: &str| find_input(input, component, plan), plan.limits);
    match &component.builder {
        Builder::Basic(file) => {
            let (file, text) = input(file)?;
            super::render_template::basic_or_plain(&text, limits, &mut relative_to(&file, bundles))
                .map_err(|error| format!("{}{error}", at(&file)))
        }
        Builder::Semver(file) => {
            let (file, text) = input(file)?;
            let template = Template::parse(&text, limits)
                .map_err(|error| format!("{}:{}: {error}", file.display(), line_of(&text, error.offset)))?;
            template::render(&template, Kind::Semver, limits, &mut relative_to(&file, bundles))
                .map_err(|error| format!("{}{error}", at(&file)))
        }
        Builder::Raw(file) => {
            let (file, text) = input(file)?;
            blobs(&text, limits).map_err(|error| format!("{}{error}", at(&file)))
        }
        Builder::Custom { command, args } => {
            let text = output_of(command, args, &component.working_dir, limits)
                .map_err(|error| format!("command {command:?}: {error}"))?;
            blobs(&text, limits).map_err(|error| format!("output of command {command:?}: {error}"))
        }
    }
}

fn at(file: &Path) -> String {
    format!("{}: ", file.display())
}

/// Makes a catalog of a text.
fn blobs(text: &[u8], limits: &Limits) -> Result<Fbc, String> {
    let documents =
        stream::documents(text, limits).map_err(|error| format!("line {}: {error}", line_of(text, error.offset)))?;
    template::load_blobs(&documents, limits).map_err(|error| error.to_string())
}

/// Reads an input, which is searched for in the directory of the catalog and then beside the composite file.
fn find_input(input: &str, component: &Component, plan: &Plan<'_>) -> Result<(PathBuf, Vec<u8>), String> {
    let beside = Path::new(plan.composite).parent().unwrap_or(Path::new(""));
    let places = [component.working_dir.join(input), beside.join(input)];
    let found = places.iter().find(|place| place.is_file());
    let Some(file) = found else {
        let [first, second] = places.each_ref().map(|place| place.display());
        return Err(format!("input {input:?} is neither {first} nor {second}"));
    };
    match read_input(&file.to_string_lossy(), plan.limits) {
        Ok(text) => Ok((file.clone(), text)),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Runs a program and returns what it prints.
fn output_of(command: &str, args: &[String], directory: &Path, limits: &Limits) -> io::Result<Vec<u8>> {
    let mut child = Command::new(command)
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut text = Vec::new();
    let read = match child.stdout.take() {
        Some(out) => out.take(limits.file_size.saturating_add(1)).read_to_end(&mut text).map(drop),
        None => Ok(()),
    };
    if read.is_err() || text.len() as u64 > limits.file_size {
        // It may wait for ever for somebody who reads the rest.
        let _ = child.kill();
    }
    let status = child.wait()?;
    read?;
    if text.len() as u64 > limits.file_size {
        return Err(io::Error::other(format!("prints more than the limit of {} bytes", limits.file_size)));
    }
    if status.success() { Ok(text) } else { Err(io::Error::other(status.to_string())) }
}

/// Checks every directory as it will be: what is there, with the new files in it.
fn validate(components: &[Component], made: &[PathBuf], aside: &Path, plan: &Plan<'_>, printer: &Printer) -> Outcome {
    let mut directories: BTreeMap<PathBuf, Vec<(&Path, &Path)>> = BTreeMap::new();
    for (component, file) in components.iter().zip(made) {
        directories.entry(component.directory()).or_default().push((&component.output, file));
    }
    let mut valid = true;
    for (number, (directory, files)) in directories.iter().enumerate() {
        let copy = aside.join(format!("catalog-{number}"));
        let copied = fs::create_dir(&copy).and_then(|()| match directory.exists() {
            true => tree::copy(directory, &copy).map(drop),
            false => Ok(()),
        });
        copied.map_err(|error| failed(directory, &error))?;
        for (output, file) in files {
            let target = copy.join(output);
            let placed = target.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(file, &target));
            placed.map_err(|error| failed(&target, &error))?;
        }
        let inspect = catalog::inspect(Warnings::Off);
        let options =
            source::Options { inspect: Some(&inspect), ..source::Options::catalogs(plan.limits.clone(), plan.images) };
        let mut fbc = Fbc::default();
        let loaded = source::load_catalog(&mut fbc, &copy, &options).map_err(|error| failed(directory, &error))?;
        let checked = catalog::check(&fbc, loaded, Warnings::Off);
        if let Err(problems) = &checked.catalog {
            printer.error(&format!("validation failed, {} is left as it is:", directory.display()));
            let mut found = report::find(&fbc, problems.errors());
            for path in found.iter_mut().filter_map(|found| found.path.as_mut()) {
                *path = path.replace(&*copy.to_string_lossy(), &directory.to_string_lossy());
            }
            report::show(printer, &found);
            valid = false;
        }
    }
    if valid { Ok(()) } else { Err(Failure::Reported) }
}

/// Writes all files beside their places, and only then moves them there.
fn put_in_place(components: &[Component], made: &[PathBuf]) -> Outcome {
    let mut ready = Vec::new();
    for (component, file) in components.iter().zip(made) {
        let target = component.directory().join(&component.output);
        let parent = target.parent().unwrap_or(Path::new("."));
        let place = || -> io::Result<NamedTempFile> {
            fs::create_dir_all(parent)?;
            let mut new = tempfile::Builder::new()
                .prefix(".opm-composite-")
                .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
                .tempfile_in(parent)?;
            io::copy(&mut fs::File::open(file)?, new.as_file_mut())?;
            new.as_file().sync_all()?;
            Ok(new)
        };
        let new = place().map_err(|error| failed(&target, &error))?;
        ready.push((new, target));
    }
    for (new, target) in ready {
        new.persist(&target).map_err(|error| failed(&target, &error.error))?;
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::message(format!("{}: {error}", path.display()))
}
