//! The composite template: catalogs built from components of several kinds.
//!
//! One file lists the catalogs, their directories and the allowed builders. Another lists the components, each of which
//! generates one file of a catalog. [`Inputs`] supplies what the components are rendered from.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component as Step, Path, PathBuf};

use fbc::json::{JsonPath, Raw};
use fbc::quote::quote;
use fbc::shape::Shape;
use fbc::stream::StreamError;
use fbc::template::{CATALOGS, CATALOGS_SCHEMA, COMPOSITE, COMPOSITE_SCHEMA};
use fbc::{Fbc, Limits};

use super::{Bundles, Template, TemplateKind};

/// A file to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The catalog that it belongs to.
    pub catalog: String,
    /// The working directory of the catalog.
    pub working_dir: PathBuf,
    /// The directory of the file, relative to the working directory.
    pub path: PathBuf,
    /// The file, relative to that directory.
    pub output: PathBuf,
    /// How to generate it.
    pub builder: ComponentBuilder,
}

impl Component {
    /// Returns the directory of the catalog that the file belongs to.
    pub fn directory(&self) -> PathBuf {
        self.working_dir.join(&self.path)
    }
}

/// How to generate a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentBuilder {
    /// From a basic template.
    Basic(String),
    /// From a semver template.
    Semver(String),
    /// From a catalog file.
    Raw(String),
    /// By a command that prints a catalog.
    Custom {
        command: String,
        /// The arguments.
        args: Vec<String>,
    },
}

/// All faults of the two files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct CompositeFaults(pub Vec<String>);

/// Why a component cannot be planned.
#[derive(Debug, thiserror::Error)]
enum ComponentFault {
    #[error("unknown catalog {}", quote(.0))]
    Catalog(String),
    #[error("{}: config has no {}", quote(schema), quote(name))]
    Field { schema: String, name: String },
    #[error("\"strategy.template.schema\" is missing")]
    NoSchema,
    #[error("unknown builder {}", quote(.0))]
    Builder(String),
    #[error("catalog {} does not allow the builder {}", quote(catalog), quote(schema))]
    NotAllowed { catalog: String, schema: String },
    #[error("\"output\" is not a file name")]
    Output,
    #[error("{} {} must be a path below the directory of the catalog", quote(name), quote(path))]
    Outside { name: &'static str, path: String },
}

/// What components are rendered from.
pub trait Inputs {
    /// Returns whether a path is a file.
    fn is_file(&self, path: &Path) -> bool;

    /// Reads a file.
    ///
    /// # Errors
    /// Fails when it cannot be read, or exceeds the limits.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;

    /// Runs a program in a directory, and returns its output.
    ///
    /// # Errors
    /// Fails when the program does, or the output exceeds the limits.
    fn output_of(&self, command: &str, args: &[String], directory: &Path) -> io::Result<Vec<u8>>;
}

/// Why a component cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// An input does not exist.
    #[error("input {input:?} not found: neither {} nor {} is a file", places[0].display(), places[1].display())]
    NotFound {
        input: String,
        /// Where it could be.
        places: [PathBuf; 2],
    },
    /// An input cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A template cannot be parsed.
    #[error("{}:{line}: {source}", file.display())]
    Syntax {
        file: PathBuf,
        line: usize,
        /// The cause.
        source: StreamError,
    },
    /// A template cannot be rendered, or a catalog file is not one.
    #[error("{}: {source}", file.display())]
    Template {
        file: PathBuf,
        /// The cause.
        source: super::TemplateError,
    },
    /// A program cannot be run, or failed.
    #[error("command {command:?}: {source}")]
    Command {
        /// The program.
        command: String,
        /// The cause.
        source: io::Error,
    },
    /// The output of a program is not a catalog.
    #[error("output of command {command:?}: {source}")]
    Output {
        /// The program.
        command: String,
        /// The cause.
        source: super::TemplateError,
    },
}

impl Component {
    /// Renders the component. Inputs are searched for in the working directory and then in `beside`, the directory of
    /// the composite file.
    ///
    /// # Errors
    /// Fails when an input or program does, or a template cannot be rendered.
    pub fn render(
        &self,
        beside: &Path,
        inputs: &dyn Inputs,
        limits: &Limits,
        bundles: &mut Bundles<'_>,
    ) -> Result<Fbc, ComponentError> {
        let read = |input: &str| {
            let places = [self.working_dir.join(input), beside.join(input)];
            match places.iter().find(|place| inputs.is_file(place)).cloned() {
                None => Err(ComponentError::NotFound { input: input.to_owned(), places }),
                Some(file) => match inputs.read(&file) {
                    Ok(text) => Ok((file, text)),
                    Err(source) => Err(ComponentError::Read { file, source }),
                },
            }
        };
        match &self.builder {
            ComponentBuilder::Basic(file) => {
                let (file, text) = read(file)?;
                super::render_basic(&text, limits, &mut super::relative_to(&file, bundles))
                    .map_err(|source| ComponentError::Template { file: file.clone(), source })
            }
            ComponentBuilder::Semver(file) => {
                let (file, text) = read(file)?;
                let template = Template::parse(&text, limits).map_err(|source| ComponentError::Syntax {
                    file: file.clone(),
                    line: super::line_of(&text, source.offset),
                    source,
                })?;
                super::render(&template, TemplateKind::Semver, limits, &mut super::relative_to(&file, bundles))
                    .map_err(|source| ComponentError::Template { file: file.clone(), source })
            }
            ComponentBuilder::Raw(file) => {
                let (file, text) = read(file)?;
                super::load_text(&text, limits).map_err(|source| ComponentError::Template { file, source })
            }
            ComponentBuilder::Custom { command, args } => {
                let text = inputs
                    .output_of(command, args, &self.working_dir)
                    .map_err(|source| ComponentError::Command { command: command.clone(), source })?;
                super::load_text(&text, limits)
                    .map_err(|source| ComponentError::Output { command: command.clone(), source })
            }
        }
    }
}

/// The settings of a catalog.
struct CompositeCatalog {
    working_dir: PathBuf,
    builders: Vec<String>,
}

/// Plans the components of the two files.
///
/// # Errors
/// Fails with all faults of the files.
pub fn plan(catalogs: &Template<'_>, composite: &Template<'_>) -> Result<Vec<Component>, CompositeFaults> {
    let mut faults = Vec::new();
    check("catalogs file", catalogs, CATALOGS_SCHEMA, CATALOGS, &mut faults);
    check("composite file", composite, COMPOSITE_SCHEMA, COMPOSITE, &mut faults);
    if !faults.is_empty() {
        return Err(CompositeFaults(faults));
    }
    let targets = targets(catalogs.raw(), &mut faults);
    let mut components = Vec::new();
    let mut files = BTreeSet::new();
    for (index, item) in composite.raw().get_items("components").enumerate() {
        match component(item, &targets) {
            Ok(component) => {
                let file = normal(&component.directory().join(&component.output));
                if !files.insert(file.clone()) {
                    faults.push(format!("components[{index}]: {} is generated twice", file.display()));
                }
                components.push(component);
            }
            Err(fault) => faults.push(format!("components[{index}]: {fault}")),
        }
    }
    if components.is_empty() && faults.is_empty() {
        faults.push("composite file: no components".to_owned());
    }
    if faults.is_empty() { Ok(components) } else { Err(CompositeFaults(faults)) }
}

fn check(file: &str, template: &Template<'_>, schema: &str, shape: Shape, faults: &mut Vec<String>) {
    if let Err(mismatch) = shape.check(template.raw(), &JsonPath::default()) {
        return faults.push(format!("{file}: {mismatch}"));
    }
    let found = template.raw().get_str("schema").into_owned();
    if found != schema {
        faults.push(format!("{file}: schema is {}, should be {}", quote(&found), quote(schema)));
    }
}

fn targets(catalogs: Raw<'_>, faults: &mut Vec<String>) -> BTreeMap<String, CompositeCatalog> {
    let mut targets = BTreeMap::new();
    for (index, item) in catalogs.get_items("catalogs").enumerate() {
        let name = item.get_str("name").into_owned();
        let working_dir = item.get("destination").map(|it| it.get_str("workingDir").into_owned()).unwrap_or_default();
        let builders = item.get_items("builders").filter_map(Raw::as_str).map(|it| it.into_owned()).collect();
        if name.is_empty() {
            faults.push(format!("catalogs[{index}]: \"name\" is missing"));
        } else if working_dir.is_empty() {
            faults.push(format!("catalogs[{index}]: \"destination.workingDir\" is missing"));
        } else if targets.insert(name.clone(), CompositeCatalog { working_dir: working_dir.into(), builders }).is_some()
        {
            faults.push(format!("catalogs[{index}]: duplicate catalog {}", quote(&name)));
        }
    }
    targets
}

fn component(item: Raw<'_>, targets: &BTreeMap<String, CompositeCatalog>) -> Result<Component, ComponentFault> {
    let catalog = item.get_str("name").into_owned();
    let target = targets.get(&catalog).ok_or_else(|| ComponentFault::Catalog(catalog.clone()))?;
    let template = item.get("strategy").and_then(|strategy| strategy.get("template"));
    let schema = template.map(|template| template.get_str("schema").into_owned()).unwrap_or_default();
    let config = template.and_then(|template| template.get("config"));
    let field = |name: &str| match config.map(|config| config.get_str(name).into_owned()).unwrap_or_default() {
        value if value.is_empty() => Err(ComponentFault::Field { schema: schema.clone(), name: name.to_owned() }),
        value => Ok(value),
    };
    let builder = match &*schema {
        "olm.builder.basic" => ComponentBuilder::Basic(field("input")?),
        "olm.builder.semver" => ComponentBuilder::Semver(field("input")?),
        "olm.builder.raw" => ComponentBuilder::Raw(field("input")?),
        "olm.builder.custom" => {
            let args = config.into_iter().flat_map(|config| config.get_items("args"));
            ComponentBuilder::Custom {
                command: field("command")?,
                args: args.filter_map(Raw::as_str).map(|it| it.into_owned()).collect(),
            }
        }
        "" => return Err(ComponentFault::NoSchema),
        _ => return Err(ComponentFault::Builder(schema)),
    };
    if !target.builders.contains(&schema) {
        return Err(ComponentFault::NotAllowed { catalog, schema });
    }
    let path = item.get("destination").map(|it| it.get_str("path").into_owned()).unwrap_or_default();
    let (path, output) = (below("destination.path", &path)?, below("output", &field("output")?)?);
    if output.file_name().is_none() {
        return Err(ComponentFault::Output);
    }
    Ok(Component { catalog, working_dir: target.working_dir.clone(), path, output, builder })
}

/// Returns a path that stays below its base directory.
fn below(name: &'static str, path: &str) -> Result<PathBuf, ComponentFault> {
    let leads_out = |step: Step<'_>| !matches!(step, Step::Normal(_) | Step::CurDir);
    if Path::new(path).components().any(leads_out) || path.contains('\0') {
        return Err(ComponentFault::Outside { name, path: path.to_owned() });
    }
    Ok(normal(Path::new(path)))
}

/// Normalizes a path by removing redundant components.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|step| *step != Step::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// Files, and a program that prints its arguments.
    struct Files(&'static [(&'static str, &'static str)]);

    impl Inputs for Files {
        fn is_file(&self, path: &Path) -> bool {
            self.0.iter().any(|(name, _)| Path::new(name) == path)
        }

        fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
            let found = self.0.iter().find(|(name, _)| Path::new(name) == file);
            found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn output_of(&self, command: &str, args: &[String], directory: &Path) -> io::Result<Vec<u8>> {
            match command {
                "echo" => Ok(args.join(" ").into_bytes()),
                _ => Err(io::Error::other(format!("no such program in {}", directory.display()))),
            }
        }
    }

    #[test]
    fn a_component_is_rendered_from_files_or_by_a_program() {
        let files = Files(&[
            ("one/raw.yaml", "schema: olm.package\nname: foo\n"),
            ("beside/raw.yaml", "schema: olm.package\nname: bar\n"),
            ("beside/broken.yaml", "a: [\n"),
        ]);
        let rendered = |working_dir: &str, builder: ComponentBuilder| {
            let component = Component {
                catalog: "first".into(),
                working_dir: working_dir.into(),
                path: PathBuf::new(),
                output: "out.yaml".into(),
                builder,
            };
            let fbc = component.render(Path::new("beside"), &files, &Limits::default(), &mut |_| Vec::new());
            match fbc {
                Ok(fbc) => fbc.blobs().iter().map(|blob| blob.name.to_string()).collect::<Vec<_>>().join(" "),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(rendered("one", ComponentBuilder::Raw("raw.yaml".into())), "foo");
        assert_eq!(rendered("two", ComponentBuilder::Raw("raw.yaml".into())), "bar");
        let missing = rendered("two", ComponentBuilder::Basic("none.yaml".into()));
        assert_eq!(missing, "input \"none.yaml\" not found: neither two/none.yaml nor beside/none.yaml is a file");
        let broken = rendered("two", ComponentBuilder::Semver("broken.yaml".into()));
        assert!(broken.starts_with("beside/broken.yaml:"), "{broken}");
        let run = |command: &str, args: &[&str]| {
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            rendered("two", ComponentBuilder::Custom { command: command.into(), args })
        };
        assert_eq!(run("echo", &["{schema: olm.package,", "name: baz}"]), "baz");
        assert_eq!(run("none", &[]), "command \"none\": no such program in two");
        assert!(run("echo", &["[]"]).starts_with("output of command \"echo\": "));
    }

    const CATALOGS: &str = "\
schema: olm.composite.catalogs
catalogs:
- {name: first, destination: {workingDir: one}, builders: [olm.builder.basic, olm.builder.custom]}
- {name: second, destination: {workingDir: /two}, builders: [olm.builder.raw, olm.builder.semver]}
";

    fn planned(catalogs: &str, components: &str) -> String {
        let limits = Limits::default();
        let catalogs = Template::parse(catalogs.as_bytes(), &limits).unwrap();
        let composite = format!("schema: olm.composite\ncomponents:\n{components}");
        let composite = Template::parse(composite.as_bytes(), &limits).unwrap();
        match plan(&catalogs, &composite) {
            Ok(components) => {
                let shown = components.iter().map(|component| {
                    let file = component.directory().join(&component.output);
                    format!("{}: {} from {:?}", component.catalog, file.display(), component.builder)
                });
                shown.collect::<Vec<_>>().join("\n")
            }
            Err(error) => error.to_string(),
        }
    }

    fn component(name: &str, path: &str, schema: &str, config: &str) -> String {
        format!(
            "- {{name: {name}, destination: {{path: {path}}}, strategy: {{template: {{schema: {schema}, config: {{{config}}}}}}}}}\n"
        )
    }

    #[test]
    fn every_component_becomes_a_file_of_its_catalog() {
        let components = [
            component("first", "foo", "olm.builder.basic", "input: in.yaml, output: out.yaml"),
            component("first", "./bar/", "olm.builder.custom", "command: make, args: [it, now], output: out.yaml"),
            component("second", "foo", "olm.builder.semver", "input: in.yaml, output: out.yaml"),
            component("second", "foo", "olm.builder.raw", "input: in.yaml, output: sub/out.json"),
        ];
        assert_snapshot!(planned(CATALOGS, &components.concat()), @r#"
        first: one/foo/out.yaml from Basic("in.yaml")
        first: one/bar/out.yaml from Custom { command: "make", args: ["it", "now"] }
        second: /two/foo/out.yaml from Semver("in.yaml")
        second: /two/foo/sub/out.json from Raw("in.yaml")
        "#);
    }

    #[test]
    fn all_faults_are_reported() {
        let basic = "input: in.yaml, output: out.yaml";
        let components = [
            component("third", "foo", "olm.builder.basic", basic),
            component("first", "foo", "olm.builder.raw", basic),
            component("first", "foo", "olm.builder.other", basic),
            component("first", "foo", "olm.builder.basic", "output: out.yaml"),
            component("first", "../foo", "olm.builder.basic", basic),
            component("first", "foo", "olm.builder.basic", "input: in.yaml, output: /etc/passwd"),
            component("first", "foo", "olm.builder.custom", "output: out.yaml"),
            component("first", "foo", "olm.builder.basic", basic),
            component("first", "./foo", "olm.builder.basic", basic),
        ];
        assert_snapshot!(planned(CATALOGS, &components.concat()), @r#"
        components[0]: unknown catalog "third"
        components[1]: catalog "first" does not allow the builder "olm.builder.raw"
        components[2]: unknown builder "olm.builder.other"
        components[3]: "olm.builder.basic": config has no "input"
        components[4]: "destination.path" "../foo" must be a path below the directory of the catalog
        components[5]: "output" "/etc/passwd" must be a path below the directory of the catalog
        components[6]: "olm.builder.custom": config has no "command"
        components[8]: one/foo/out.yaml is generated twice
        "#);
        assert_snapshot!(planned("schema: x\n", ""), @r#"catalogs file: schema is "x", should be "olm.composite.catalogs""#);
        assert_snapshot!(planned("schema: olm.composite.catalogs\ncatalogs: [{}, {name: a}]\n", "- {name: a}\n"), @r#"
        catalogs[0]: "name" is missing
        catalogs[1]: "destination.workingDir" is missing
        components[0]: unknown catalog "a"
        "#);
        assert_snapshot!(planned(CATALOGS, ""), @"composite file: no components");
        assert_snapshot!(planned(CATALOGS, "- {name: 1}\n"), @r#"composite file: json: cannot unmarshal number into field "components[0].name" of type string"#);
    }
}
