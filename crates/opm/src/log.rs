//! Log lines on stderr, in the format that users of upstream opm grep for.

use std::fmt::{self, Write};
use std::io;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use fbc::quote::quote;

/// Sends log lines to stderr from now on.
pub(crate) fn start(debug: bool) {
    let level = if debug { Level::DEBUG } else { Level::INFO };
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).event_format(Lines).finish();
    // A second call in one process has no effect.
    let _ = tracing::subscriber::set_global_default(Ours(subscriber));
}

/// Keeps only the events of our own crates; libraries log too much.
struct Ours<S>(S);

impl<S: Subscriber> Subscriber for Ours<S> {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        let ours = ["serve", "opm", "catalog", "cluster", "fbc", "legacy"]
            .iter()
            .any(|name| metadata.target().split("::").next() == Some(name));
        ours && self.0.enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        self.0.max_level_hint()
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.0.new_span(span)
    }

    fn record(&self, span: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        self.0.record(span, values);
    }

    fn record_follows_from(&self, span: &tracing::span::Id, follows: &tracing::span::Id) {
        self.0.record_follows_from(span, follows);
    }

    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }

    fn enter(&self, span: &tracing::span::Id) {
        self.0.enter(span);
    }

    fn exit(&self, span: &tracing::span::Id) {
        self.0.exit(span);
    }
}

struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, rest } = fields;
        writeln!(
            out,
            "time=\"{}\" level={level} msg={}{rest}",
            fbc::spelling::calendar::rfc3339(fbc::spelling::calendar::now()),
            quote(&message)
        )
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
            return;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@^+:[]".contains(c);
        let _ = match !value.is_empty() && value.chars().all(plain) {
            true => write!(self.rest, " {}={value}", field.name()),
            false => write!(self.rest, " {}={}", field.name(), quote(value)),
        };
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &format!("{value:.3}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}
