//! `opm explain`: documents fields, schemas, properties and rules.

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;

/// Explain a field, schema, property or rule
#[derive(clap::Args)]
#[command(
    long_about = "Explain a field, schema, property or rule.\n\n\
        A field is named by its path from the schema. The messages of 'opm validate' show the rule in brackets, and the \
        findings of 'opm bundle validate', 'opm rehearse', 'opm security' and 'opm crd-diff' name it too. Without NAME, \
        lists all names.",
    after_help = "Examples:\n  \
        opm explain\n  \
        opm explain olm.channel\n  \
        opm explain olm.channel.entries.skipRange\n  \
        opm explain property/olm.package\n  \
        opm explain channel-single-head\n  \
        opm explain rights-secrets"
)]
pub(crate) struct ExplainArgs {
    /// Field, schema, property or rule
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(args: &ExplainArgs, printer: &mut Printer) -> CommandResult {
    let text = match &args.name {
        None => {
            let rules = bundle::rules::all();
            let width = rules.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
            let rows: String = rules.iter().map(|(name, about)| format!("  {name:width$}  {about}\n")).collect();
            format!("{}\nRules for bundles:\n{rows}", catalog::schema::overview())
        }
        Some(name) => explained(name)?,
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the names that the overview lists.
pub(crate) fn names() -> Vec<String> {
    let overview = catalog::schema::overview();
    let listed = overview.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let rules = bundle::rules::all();
    listed.chain(rules.iter().map(|(name, _)| &**name)).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Explains a name; a rule name can apply to both catalogs and bundles.
fn explained(name: &str) -> Result<String, Failure> {
    match (catalog::schema::explain(name), bundle::rules::explain(name)) {
        (Ok(catalogs), Some(bundles)) => Ok(format!("{catalogs}\n{bundles}")),
        (Ok(text), None) | (Err(_), Some(text)) => Ok(text),
        (Err(unknown), None) => {
            let near: Vec<String> = unknown.nearest.iter().map(|name| format!("\"{name}\"")).collect();
            let help = match &*near {
                [] => "'opm explain' lists all names".to_owned(),
                [one] => format!("did you mean {one}?"),
                [some @ .., last] => format!("did you mean {} or {last}?", some.join(", ")),
            };
            Err(Failure::message(format!("no field, schema, property or rule is named \"{name}\"\nhelp: {help}")))
        }
    }
}
