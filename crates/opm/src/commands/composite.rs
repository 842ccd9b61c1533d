//! `opm template render composite`: renders the components of several catalogs to files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use catalog::Warnings;
use edit::template::composite::{self, Builder, Component};
use edit::template::{self, Template, TemplateKind};
use fbc::scratch::{TempFile, umasked};
use fbc::{Fbc, Format, Limits, stream};
use source::{Images, LoadedCatalog, Source};

use super::render_template::{Bundles, relative_to};
use super::{line_of, read_input};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{catalogs, report};

/// The inputs of a rendering.
pub(super) struct Plan<'a> {
    /// The file that lists the components.
    pub(super) composite: &'a str,
    /// The file that lists the catalogs, or its URL.
    pub(super) catalogs: &'a str,
    pub(super) format: Format,
    /// Whether to validate the catalogs.
    pub(super) validate: bool,
    pub(super) images: &'a Images,
    pub(super) limits: &'a Limits,
}

/// Renders all files to a temporary directory, validates the resulting catalogs, and moves the files into place.
pub(super) fn run(plan: &Plan<'_>, bundles: &mut Bundles<'_>, printer: &Printer) -> Outcome {
    let components = read(plan)?;
    let staging = Unfinished::private("opm-composite-").map_err(|error| failed(&std::env::temp_dir(), &error))?;
    let mut rendered = Vec::new();
    for (number, component) in components.iter().enumerate() {
        let about = |error: String| {
            Failure::message(format!(
                "rendering template: components[{number}] of catalog {:?}: {error}",
                component.catalog
            ))
        };
        let fbc = build(component, plan, bundles).map_err(about)?;
        catalogs::warn_of_dropped(&fbc, printer)?;
        let file = staging.path().join(format!("part-{number}"));
        let mut out = BufWriter::new(fs::File::create_new(&file).map_err(|error| failed(&file, &error))?);
        fbc.write(&fbc.in_order(), plan.format, &mut out).map_err(|error| about(error.to_string()))?;
        out.flush().map_err(|error| failed(&file, &error))?;
        rendered.push(file);
    }
    if plan.validate {
        validate(&components, &rendered, staging.path(), plan, printer)?;
    }
    put_in_place(&components, &rendered)
}

/// Reads both files and returns the components.
fn read(plan: &Plan<'_>) -> Result<Vec<Component>, Failure> {
    let from_web = plan.catalogs.starts_with("http://") || plan.catalogs.starts_with("https://");
    let cannot_open = |file: &str, error: String| Failure::message(format!("unable to open {file:?}: {error}"));
    let catalogs = if from_web {
        let client = plan.images.client()?;
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
        // The user decides where files are written, not a web server.
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

/// Renders one component.
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
            template::render(&template, TemplateKind::Semver, limits, &mut relative_to(&file, bundles))
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

/// Parses a catalog from text.
fn blobs(text: &[u8], limits: &Limits) -> Result<Fbc, String> {
    let documents =
        stream::documents(text, limits).map_err(|error| format!("line {}: {error}", line_of(text, error.offset)))?;
    template::load_blobs(&documents, limits).map_err(|error| error.to_string())
}

/// Reads an input, searched for in the directory of the catalog and then next to the composite file.
fn find_input(input: &str, component: &Component, plan: &Plan<'_>) -> Result<(PathBuf, Vec<u8>), String> {
    let beside = Path::new(plan.composite).parent().unwrap_or(Path::new(""));
    let places = [component.working_dir.join(input), beside.join(input)];
    let found = places.iter().find(|place| place.is_file());
    let Some(file) = found else {
        let [first, second] = places.each_ref().map(|place| place.display());
        return Err(format!("input {input:?} not found: neither {first} nor {second} is a file"));
    };
    match read_input(&file.to_string_lossy(), plan.limits) {
        Ok(text) => Ok((file.clone(), text)),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Runs a program and returns its output.
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
        // The program can block forever on a full pipe.
        let _ = child.kill();
    }
    let status = child.wait()?;
    read?;
    if text.len() as u64 > limits.file_size {
        return Err(io::Error::other(format!("output exceeds the limit of {} bytes", limits.file_size)));
    }
    if status.success() { Ok(text) } else { Err(io::Error::other(status.to_string())) }
}

/// Validates every directory in its future state: the existing files plus the new ones.
fn validate(
    components: &[Component],
    rendered: &[PathBuf],
    staging: &Path,
    plan: &Plan<'_>,
    printer: &Printer,
) -> Outcome {
    let mut directories: BTreeMap<PathBuf, Vec<(&Path, &Path)>> = BTreeMap::new();
    for (component, file) in components.iter().zip(rendered) {
        directories.entry(component.directory()).or_default().push((&component.output, file));
    }
    let mut valid = true;
    for (number, (directory, files)) in directories.iter().enumerate() {
        let copy = staging.join(format!("catalog-{number}"));
        fs::create_dir(&copy).map_err(|error| failed(&copy, &error))?;
        if directory.exists() {
            let options = source::Options::catalogs(plan.limits.clone(), plan.images);
            let existing = source::load_catalog(&mut Fbc::default(), directory, &options);
            let copied = existing.and_then(|existing| existing.members.copy_to(&copy));
            copied.map_err(|error| failed(directory, &error))?;
        }
        for (output, file) in files {
            let target = copy.join(output);
            let placed = target.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(file, &target));
            placed.map_err(|error| failed(&target, &error))?;
        }
        let options = source::Options::catalogs(plan.limits.clone(), plan.images);
        let shown = directory.to_string_lossy();
        let LoadedCatalog { fbc, checked } =
            source::read(&shown, &Source::Catalog(copy.clone()), &options, Warnings::Off)?;
        if let Err(problems) = &checked.catalog {
            printer.error(&format!("validation failed, {} is unchanged:", directory.display()));
            let mut found = report::find(&fbc, problems.errors());
            for path in found.iter_mut().flat_map(report::Found::paths_mut) {
                *path = path.replace(&*copy.to_string_lossy(), &shown);
            }
            report::show(printer, &found);
            valid = false;
        }
    }
    if valid { Ok(()) } else { Err(Failure::Reported) }
}

/// Writes all files next to their targets, then renames them.
fn put_in_place(components: &[Component], rendered: &[PathBuf]) -> Outcome {
    let mut ready = Vec::new();
    for (component, file) in components.iter().zip(rendered) {
        let target = component.directory().join(&component.output);
        let parent = target.parent().unwrap_or(Path::new("."));
        let place = || -> io::Result<TempFile> {
            fs::create_dir_all(parent)?;
            let mut new = TempFile::create(parent, ".opm-composite-")?;
            io::copy(&mut fs::File::open(file)?, new.file())?;
            new.file().sync_all()?;
            Ok(new)
        };
        let new = place().map_err(|error| failed(&target, &error))?;
        ready.push((new, target));
    }
    for (new, target) in ready {
        new.finish(&target, umasked(0o666)).map_err(|error| failed(&target, &error))?;
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::message(format!("{}: {error}", path.display()))
}
