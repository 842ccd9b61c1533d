//! `opm template render` and `opm alpha render-template`: render a template as a catalog.

use std::path::Path;

use catalog::{GraphOptions, mermaid};
use clap::builder::TypedValueParser;
use edit::template::{self, TemplateFile, TemplateKind};
use fbc::Format;
use source::CompositeRequest;

use super::editor_schema::EditorFlags;
use super::{MigrateLevel, composite, migrate_level, read_input};
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits};

/// Render a template as a file-based catalog
#[derive(clap::Args)]
#[command(
    long_about = "Render a template as a file-based catalog.\n\n\
        TYPE is one of\n  \
        basic        a catalog that lists bundles by image (schema olm.template.basic)\n  \
        semver       lists of bundles; versions define channels and upgrade edges (schema olm.semver)\n  \
        substitutes  a catalog in which newer builds replace bundles (schema olm.template.substitutes)\n  \
        composite    catalogs built from templates, catalog files and programs (see below)\n\
        Without TYPE, opm detects the type from the schema, except for composite. Without FILE, or with '-', it reads the \
        template from standard input.\n\n\
        A template lists bundles by image, and opm pulls the images. Instead of an image, it can name a bundle directory by a path \
        that starts with './', '../' or '/'. Relative paths start at the template. Such a bundle has an empty image, as in \
        'opm render'.\n\n\
        A composite template consists of two files: --catalog-config defines catalogs, their output directories and the allowed \
        builders; --composite-config defines their components. The builder olm.builder.custom runs a program in the directory \
        of the catalog and uses its output. opm writes the files only after all components succeed and the catalogs are \
        valid.",
    after_help = "Examples:\n  \
        opm template render semver.yaml -o yaml > catalog/catalog.yaml\n  \
        opm template render basic template.yaml\n  \
        opm template convert basic catalog.yaml | opm template render -o mermaid\n  \
        opm template render composite -c composite.yaml -f catalogs.yaml -o yaml"
)]
pub(crate) struct TemplateArgs {
    /// Template type
    #[arg(value_name = "TYPE")]
    first: Option<String>,
    /// Template file, or '-' for standard input
    #[arg(value_name = "FILE")]
    second: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "json", value_parser = output())]
    output: TemplateOutput,
    /// Migrations to apply to bundles
    #[arg(long, value_name = "LEVEL", value_parser = migrate_level())]
    migrate_level: Option<MigrateLevel>,
    /// File with the components of a composite template; defaults to composite.yaml
    #[arg(short, long, value_name = "FILE")]
    composite_config: Option<String>,
    /// File or URL with the catalogs of a composite template; defaults to catalogs.yaml
    #[arg(short = 'f', long, value_name = "FILE|URL")]
    catalog_config: Option<String>,
    /// Validate the catalogs of a composite template; defaults to true
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = crate::cli::parse_bool)]
    validate: Option<bool>,
    #[command(flatten)]
    editor: EditorFlags,
    #[command(flatten)]
    pull: PullFlags,
}

/// Render a template as a file-based catalog
#[derive(clap::Args)]
#[command(
    hide = true,
    long_about = "Render a template as a file-based catalog, as 'opm template render' does.\n\n\
        Under this name, a basic template can also be a plain catalog file that lists bundles by image.",
    after_help = "Examples:\n  opm alpha render-veneer basic catalog-of-images.yaml"
)]
pub(crate) struct VeneerArgs {
    #[command(flatten)]
    template: TemplateArgs,
}

const COMPOSITE: &str = "composite";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateOutput {
    Blobs(Format),
    Mermaid,
}

fn output() -> impl TypedValueParser<Value = TemplateOutput> {
    choice([
        ("json", TemplateOutput::Blobs(Format::Json)),
        ("yaml", TemplateOutput::Blobs(Format::Yaml)),
        ("mermaid", TemplateOutput::Mermaid),
    ])
}

/// A function that renders the bundles that a template names.
pub(super) type Bundles<'a> = template::Bundles<'a>;

pub(crate) fn run(args: &TemplateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    render(args, Form::Template, tls, printer)
}

/// Runs `render-veneer`, the old name, which also accepts the old form of the basic template.
pub(crate) fn run_veneer(args: &VeneerArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    render(&args.template, Form::Veneer, tls, printer)
}

/// The accepted forms of templates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Templates with a schema.
    Template,
    /// A basic template can also be a plain catalog.
    Veneer,
}

fn render(args: &TemplateArgs, form: Form, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let comment = args.editor.comment(match args.output {
        TemplateOutput::Blobs(format) => Some(format),
        TemplateOutput::Mermaid => None,
    })?;
    let limits = limits::from_env()?;
    let images = images::open(tls, &args.pull);
    let migrate = args.migrate_level == Some(MigrateLevel::CsvMetadata);
    let shared: &Printer = printer;
    let mut bundles = |references: &[&str]| source::template_bundles(references, migrate, &limits, &images);
    if let Some(composite) = args.composite()? {
        let TemplateOutput::Blobs(format) = args.output else {
            return Err(Failure::message("composite templates support only the output formats json and yaml"));
        };
        if !comment.is_empty() {
            return Err(Failure::message(
                "--editor-schema does not support composite templates, because they write several files",
            ));
        }
        let request = CompositeRequest {
            composite,
            catalogs: args.catalog_config.as_deref().unwrap_or("catalogs.yaml"),
            format,
            validate: args.validate.unwrap_or(true),
            limits: &limits,
            read: &|file| read_input(file, &limits),
            rendered: &|fbc| catalogs::warn_of_dropped(fbc, shared),
        };
        return composite::run(&request, &images, &mut bundles, shared);
    }
    let (kind, file) = kind_and_file(args.first.as_deref(), args.second.as_deref())?;
    let text =
        read_input(file, &limits).map_err(|error| Failure::message(format!("unable to open {file:?}: {error}")))?;
    let template = TemplateFile { name: file, text: &text, kind, plain: form == Form::Veneer };
    let fbc = template.render(&limits, &mut bundles).map_err(Failure::fault)?;
    if fbc.blobs().is_empty() {
        printer.warning(&format!("{file:?} renders an empty catalog: it has no `entries`"));
    }
    match args.output {
        TemplateOutput::Blobs(format) => {
            catalogs::warn_of_dropped(&fbc, printer);
            printer.data().write_all(comment.as_bytes())?;
            fbc.write(&fbc.in_order(), format, printer.data())?;
        }
        TemplateOutput::Mermaid => {
            let options = GraphOptions { v0_semantics: true, ..GraphOptions::default() };
            let (text, warnings) = mermaid::mermaid(&fbc, &options)
                .map_err(|error| Failure::message(format!("rendering template: {error}")))?;
            warnings.iter().for_each(|warning| printer.warning(warning));
            printer.data().write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

impl TemplateArgs {
    /// Returns the components file if the user requested a composite template.
    fn composite(&self) -> Result<Option<&str>, Failure> {
        if self.first.as_deref() == Some(COMPOSITE) && (self.second.is_some() || !Path::new(COMPOSITE).exists()) {
            if let Some(file) = &self.second {
                return Err(Failure::message(format!(
                    "composite templates take no argument {file:?}: pass the files with -c and -f"
                )));
            }
            return Ok(Some(self.composite_config.as_deref().unwrap_or("composite.yaml")));
        }
        let flags = [
            ("--composite-config", self.composite_config.is_some()),
            ("--catalog-config", self.catalog_config.is_some()),
            ("--validate", self.validate.is_some()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::message(format!("{flag} requires the template type composite"))),
            None => Ok(None),
        }
    }
}

/// Returns type and file. A single argument can be either.
fn kind_and_file<'a>(
    first: Option<&'a str>,
    second: Option<&'a str>,
) -> Result<(Option<TemplateKind>, &'a str), Failure> {
    const STDIN: &str = "-";
    let (name, file) = match (first, second) {
        (None, _) => return Ok((None, STDIN)),
        (Some(name), Some(file)) => (name, file),
        (Some(either), None) => {
            return Ok(TemplateKind::named(either).map_or((None, either), |kind| (Some(kind), STDIN)));
        }
    };
    match TemplateKind::named(name) {
        Some(kind) => Ok((Some(kind), file)),
        None => {
            let kinds = TemplateKind::ALL.map(TemplateKind::name).join(" ");
            Err(Failure::message(format!("invalid template type {name:?}, must be one of: [{kinds}]")))
        }
    }
}
