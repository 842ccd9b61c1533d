//! Fields that printing leaves out because their schemas do not know them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fbc::json::Raw;
use fbc::{Blob, unknown};

use crate::printer::Printer;

/// So many names of fields are warned of.
const MOST_NAMED: usize = 100;

/// Counts the fields that are left out, by schema and name.
#[derive(Default)]
pub(crate) struct LostFields(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    named: BTreeMap<(Box<str>, String), usize>,
    /// Fields whose names are not kept because there are too many.
    others: usize,
}

impl LostFields {
    /// Counts those of a blob.
    pub(crate) fn count(&self, blob: &Blob, text: Raw<'_>) {
        if !blob.may_have_unknown_fields() {
            return;
        }
        let mut found = Vec::new();
        unknown::fields(&blob.schema, text, &mut |field| found.push(field));
        if found.is_empty() {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for field in found {
            let key = (blob.schema.clone(), field);
            if counts.named.len() < 10 * MOST_NAMED || counts.named.contains_key(&key) {
                *counts.named.entry(key).or_default() += 1;
            } else {
                counts.others += 1;
            }
        }
    }

    /// Warns once for each name.
    pub(crate) fn warn(&self, printer: &Printer) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((schema, field), count) in counts.named.iter().take(MOST_NAMED) {
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            printer.warning(&format!("{schema} does not know the field {field:?}: left out {times}"));
        }
        let rest: usize = counts.named.values().skip(MOST_NAMED).sum::<usize>() + counts.others;
        if rest > 0 {
            printer.warning(&format!("unknown fields with other names: left out {rest} times"));
        }
    }
}
