//! The validation rules: a table, one file each.
//!
//! To add a rule, add a file with a `RULE` and a line in [`RULES`], in [`WARNINGS`] if a catalog works without it, or
//! in [`STRICT`] if the definition of the format requires it all the same. Problems of one package, channel or bundle
//! are reported in the order of the table. `docs/rules.md` is generated from it.

use fbc::json::Raw;
pub use fbc::similar::{distance, nearest};
use fbc::{Blob, Place, Problem, property};

use crate::draft::{Draft, DraftChannel, DraftPackage};

mod bundle_image_pull_spec;
mod bundle_image_set;
mod bundle_in_channel;
mod bundle_named;
mod bundle_package_known;
mod bundle_package_property;
mod bundle_release;
mod bundle_release_name;
mod bundle_unique;
mod bundle_version;
mod channel_chain;
mod channel_entry_unique;
mod channel_has_entries;
mod channel_named;
mod channel_package_known;
mod channel_single_head;
mod channel_unique;
mod default_channel_set;
mod deprecation_message;
mod deprecation_package_known;
mod deprecation_reference;
mod deprecations_unique;
mod entry_has_bundle;
mod entry_skip_range;
mod entry_skips;
mod package_has_channels;
mod package_name_label;
mod package_named;
mod package_unique;
mod package_versions_unique;
mod property_values;
mod related_image_pull_spec;
mod spelling;
mod strict_bundle_image;
mod strict_bundle_object;
mod strict_empty_names;
mod strict_icon;
mod strict_legacy;
mod strict_null;
mod strict_properties;
mod strict_schema;
mod strict_unknown_fields;
mod warn_gvk;
mod warn_head_metadata;
mod warn_icon;
mod warn_legacy_ignored;
mod warn_metadata_once;
mod warn_property_shape;
mod warn_related_image_empty;
mod warn_replaces_newer;
mod warn_required_package;
mod warn_skip_range_surprise;
mod warn_skips_cycle;

/// A validation rule.
pub struct Rule {
    /// Its name, which messages include.
    pub name: &'static str,
    /// The condition that must hold.
    pub about: &'static str,
    pub(crate) check: Check,
}

/// The input of a rule.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// One blob, with its text.
    Text(fn(&Blob, Raw<'_>, &mut Vec<Problem>)),
    /// All blobs.
    Catalog(fn(&Draft<'_>, &mut Vec<Problem>)),
    /// One package, before its channels.
    Package(fn(&Draft<'_>, &DraftPackage<'_>, &mut Vec<Problem>)),
    /// One channel, before its entries.
    Channel(fn(&DraftPackage<'_>, &DraftChannel<'_>, &mut Vec<Problem>)),
    /// The entry of a channel at some index, with its bundle.
    Entry(fn(&DraftPackage<'_>, &DraftChannel<'_>, usize, &mut Vec<Problem>)),
    /// One channel, after its entries.
    ChannelAfter(fn(&DraftPackage<'_>, &DraftChannel<'_>, &mut Vec<Problem>)),
    /// The resolved catalog; another crate checks this.
    Resolved,
    /// One package, after its channels.
    PackageAfter(fn(&Draft<'_>, &DraftPackage<'_>, &mut Vec<Problem>)),
}

/// The rules that every catalog must satisfy.
pub const RULES: &[Rule] = &[
    package_named::RULE,
    package_unique::RULE,
    package_name_label::RULE,
    channel_package_known::RULE,
    channel_named::RULE,
    channel_unique::RULE,
    channel_entry_unique::RULE,
    bundle_package_known::RULE,
    bundle_unique::RULE,
    property_values::RULE,
    bundle_package_property::RULE,
    bundle_image_pull_spec::RULE,
    related_image_pull_spec::RULE,
    bundle_version::RULE,
    bundle_release::RULE,
    bundle_in_channel::RULE,
    entry_has_bundle::RULE,
    deprecation_package_known::RULE,
    deprecations_unique::RULE,
    deprecation_reference::RULE,
    default_channel_set::RULE,
    package_has_channels::RULE,
    channel_has_entries::RULE,
    channel_single_head::RULE,
    channel_chain::RULE,
    bundle_named::RULE,
    bundle_release_name::RULE,
    entry_skips::RULE,
    entry_skip_range::RULE,
    bundle_image_set::RULE,
    deprecation_message::OF_BUNDLE,
    deprecation_message::OF_CHANNEL,
    package_versions_unique::RULE,
    deprecation_message::OF_PACKAGE,
];

/// The rules that explain other problems: what they find is reported only beside these.
pub const SPELLING: &[Rule] = &[spelling::OF_SCHEMAS, spelling::OF_FIELDS, spelling::OF_EDGES];

/// The rules that the definition of the format requires and older tools tolerate: warnings, or errors in a strict
/// check.
pub const STRICT: &[Rule] = &[
    warn_required_package::RULE,
    warn_gvk::RULE,
    warn_property_shape::RULE,
    warn_related_image_empty::RULE,
    strict_bundle_image::RULE,
    strict_bundle_object::RULE,
    strict_empty_names::RULE,
    strict_legacy::RULE,
    strict_icon::RULE,
    strict_null::RULE,
    strict_properties::RULE,
    strict_schema::RULE,
    strict_unknown_fields::RULE,
];

/// The rules that catalogs should satisfy.
pub const WARNINGS: &[Rule] = &[
    warn_icon::RULE,
    warn_skips_cycle::RULE,
    warn_skip_range_surprise::RULE,
    warn_head_metadata::RULE,
    warn_metadata_once::RULE,
    warn_legacy_ignored::RULE,
    warn_replaces_newer::RULE,
];

/// The rules on dependencies, which are checked on request: another catalog may provide what a bundle requires.
pub const DEPENDENCIES: &[Rule] = &[
    Rule {
        name: "dependency-met",
        about: "every requirement of a bundle is met by a bundle that clusters can choose",
        check: Check::Resolved,
    },
    Rule {
        name: "dependencies-together",
        about: "the requirements of a bundle can be installed together",
        check: Check::Resolved,
    },
    Rule {
        name: "dependency-readable",
        about: "the requirements of a bundle are valid: their rules compile, and their channels have an order",
        check: Check::Resolved,
    },
];

/// Adds a problem with its place, if it has one.
trait Report {
    fn report(&mut self, problem: Problem, place: Option<Place>);
}

impl Report for Vec<Problem> {
    fn report(&mut self, mut problem: Problem, place: Option<Place>) {
        problem.place = place;
        self.push(problem);
    }
}

/// Iterates over the values of a bundle's properties of one type, with their indexes.
fn properties_of_type<'a>(
    blob: &Blob,
    text: Raw<'a>,
    wanted: &'static str,
) -> impl Iterator<Item = (usize, Raw<'a>)> + use<'a> {
    let bundle = matches!(blob.content, fbc::BlobContent::Bundle(_)).then_some(text);
    bundle
        .into_iter()
        .flat_map(property::of)
        .enumerate()
        .filter_map(move |(index, (kind, value))| if kind == wanted { Some((index, value?)) } else { None })
}

/// Suggests the intended name for an unknown one.
///
/// A guess compares a name with all others. Where most names are wrong there is no typo to find, so guessing stops
/// after some comparisons, and checking stays linear in the size of the catalog.
struct Guesses {
    left: usize,
}

impl Guesses {
    /// Creates the guesses for one run of a rule.
    fn new() -> Guesses {
        Guesses { left: 500_000 }
    }

    /// Returns the one of `names` that `name` probably means.
    fn nearest<'a>(&mut self, name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let (left, mut exhausted) = (&mut self.left, false);
        let counted = names.take_while(|_| {
            fbc::step_counter::step();
            exhausted = *left == 0;
            *left = left.saturating_sub(1);
            !exhausted
        });
        let nearest = nearest(name, counted);
        nearest.filter(|_| !exhausted)
    }

    /// Adds the package that a blob with an unknown one probably belongs to, or else `help`.
    fn package(&mut self, problem: Problem, draft: &Draft<'_>, name: &str, help: &str) -> Problem {
        match self.nearest(name, draft.packages.keys().copied()) {
            Some(near) => problem.meant(near, near, ""),
            None => problem.help(help),
        }
    }
}
