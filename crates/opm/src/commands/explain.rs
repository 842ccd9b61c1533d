//! `opm explain`: fields, schemas, properties and rules in words.

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;

/// Explain a field, schema, property or rule
#[derive(clap::Args)]
#[command(
    long_about = "Explain a field, schema, property or rule.\n\n\
        A field is named by its way from the schema. The name of a rule stands in brackets in the messages of 'opm \
        validate'. Without NAME everything is listed that can be explained.",
    after_help = "Examples:\n  \
        opm explain\n  \
        opm explain olm.channel\n  \
        opm explain olm.channel.entries.skipRange\n  \
        opm explain property/olm.package\n  \
        opm explain channel-single-head"
)]
pub(crate) struct ExplainArgs {
    /// Field, schema, property or rule
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(args: &ExplainArgs, printer: &mut Printer) -> Outcome {
    let text = match &args.name {
        None => schema::overview(),
        Some(name) => schema::explain(name).map_err(|unknown| {
            let near: Vec<String> = unknown.nearest.iter().map(|name| format!("\"{name}\"")).collect();
            let help = match &*near {
                [] => "'opm explain' lists what there is".to_owned(),
                [one] => format!("did you mean {one}?"),
                [some @ .., last] => format!("did you mean {} or {last}?", some.join(", ")),
            };
            Failure::message(format!("there is nothing to explain by the name \"{name}\"\nhelp: {help}"))
        })?,
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}
