//! Warns about fields that are dropped because their schema does not define them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fbc::json::Raw;
use fbc::{Blob, unknown_fields};

use crate::printer::Printer;

/// The maximum number of warnings by field name.
const MAX_WARNINGS: usize = 100;

/// Counts dropped fields by schema and name.
#[derive(Default)]
pub(crate) struct DroppedFields(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    named: BTreeMap<(Box<str>, String), usize>,
    /// The number of fields beyond the limit on names.
    others: usize,
}

impl DroppedFields {
    /// Counts the dropped fields of a blob.
    pub(crate) fn count(&self, blob: &Blob, text: Raw<'_>) {
        if !blob.may_have_unknown_fields() {
            return;
        }
        let mut found = Vec::new();
        unknown_fields::fields(&blob.schema, text, &mut |field| found.push(field.without_indexes()));
        if found.is_empty() {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for field in found {
            let key = (blob.schema.clone(), field);
            if counts.named.len() < 10 * MAX_WARNINGS || counts.named.contains_key(&key) {
                *counts.named.entry(key).or_default() += 1;
            } else {
                counts.others += 1;
            }
        }
    }

    /// Warns once per name.
    pub(crate) fn warn(&self, printer: &Printer) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((schema, field), count) in counts.named.iter().take(MAX_WARNINGS) {
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            printer.warning(&format!("{schema} has no field {field:?}: dropped {times}"));
        }
        let rest: usize = counts.named.values().skip(MAX_WARNINGS).sum::<usize>() + counts.others;
        if rest > 0 {
            printer.warning(&format!("other unknown fields: dropped {rest} times"));
        }
    }
}
