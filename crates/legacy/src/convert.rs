//! Converts a database to a file-based catalog.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use catalog::Warnings;
use fbc::json::{JsonObject, Text};
use fbc::quote::quote;
use fbc::version::Version;
use fbc::{Fbc, Limits, base64, blob, csv, property};
use rusqlite::Connection;

use crate::defend::excerpt;
use crate::error::Error;
use crate::members::{MemberRow, members};
use crate::open::Database;
use crate::row::{BundleRow, body, objects};
use crate::value;

/// The property of deprecated bundles.
const DEPRECATED: &str = "olm.deprecated";

/// How manifests are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestConversion {
    /// Bundles with an image have none: enough for a listing.
    Omit,
    /// Bundles carry them as objects.
    Objects,
    /// Bundles with an image carry the metadata that consoles show, the others their objects.
    Metadata,
}

impl Database {
    /// Adds the content of the database to `fbc`, blob by blob; returns warnings about skipped content.
    ///
    /// # Errors
    /// Fails when the content is not a valid catalog; `fbc` may then hold a part of it.
    pub fn convert(&self, fbc: &mut Fbc, manifests: ManifestConversion, limits: &Limits) -> Result<Vec<String>, Error> {
        convert(self.connection()?, fbc, manifests, limits).map_err(|error| error.in_file(self.path()))
    }
}

fn convert(
    connection: &Connection,
    fbc: &mut Fbc,
    manifests: ManifestConversion,
    limits: &Limits,
) -> Result<Vec<String>, Error> {
    by_bundle(connection)?;
    let content = DatabaseContent::read(connection)?;
    let mut warnings = content.check(connection, limits)?;
    for package in content.packages.keys() {
        content.blobs(connection, package, manifests, &mut warnings, &mut |text| {
            fbc.add_generated(text, limits)
                .map_err(|error| Error::Message(format!("package {}: {error}", quote(package))))
        })?;
    }
    Ok(warnings)
}

/// The tables of bundle properties, copied and sorted by bundle: the database has no index for them and must not be
/// changed.
const TYPED: [(&str, &str); 2] = [("properties", "opm_properties"), ("dependencies", "opm_dependencies")];

/// The table of bundles without their manifests, copied for the same reason.
const BUNDLES: &str = "opm_bundles";

fn by_bundle(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE IF NOT EXISTS {BUNDLES} AS SELECT name, version, bundlepath, skiprange FROM operatorbundle;
         CREATE INDEX IF NOT EXISTS temp.{BUNDLES}_name ON {BUNDLES}(name);"
    ))?;
    for (table, copy) in TYPED {
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE IF NOT EXISTS {copy} AS SELECT type, value, operatorbundle_name,
                 operatorbundle_version, operatorbundle_path FROM {table} ORDER BY rowid;
             CREATE INDEX IF NOT EXISTS temp.{copy}_bundle ON {copy}(operatorbundle_name);"
        ))?;
    }
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS opm_images AS SELECT image, operatorbundle_name FROM related_image ORDER BY rowid;
         CREATE INDEX IF NOT EXISTS temp.opm_images_bundle ON opm_images(operatorbundle_name);",
    )?;
    Ok(())
}

/// The content of the database, without manifests.
struct DatabaseContent {
    packages: BTreeMap<String, ConvertedPackage>,
}

#[derive(Default)]
struct ConvertedPackage {
    default_channel: String,
    /// The head and the members of each channel.
    channels: BTreeMap<String, (String, Vec<MemberRow>)>,
    bundles: BTreeSet<String>,
}

impl DatabaseContent {
    fn read(connection: &Connection) -> Result<DatabaseContent, Error> {
        let mut packages: BTreeMap<String, ConvertedPackage> = BTreeMap::new();
        {
            let mut statement =
                connection.prepare("SELECT name, default_channel FROM package WHERE name IS NOT NULL")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let package = ConvertedPackage { default_channel: value::text(row, 1)?, ..ConvertedPackage::default() };
                packages.insert(value::text(row, 0)?, package);
            }
            let mut statement =
                connection.prepare("SELECT package_name, name, head_operatorbundle_name FROM channel")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (package, channel) = (value::text(row, 0)?, value::text(row, 1)?);
                let Some(found) = packages.get_mut(&package) else {
                    let (package, channel) = (quote(&package), quote(&channel));
                    return Err(Error::Message(format!("unknown package {package} for channel {channel}")));
                };
                found.channels.insert(channel, (value::text(row, 2)?, Vec::new()));
            }
        }
        if let Some((name, _)) = packages.iter().find(|(_, package)| package.default_channel.is_empty()) {
            return Err(Error::Message(format!("package {} has no default channel", quote(name))));
        }
        let deprecated: HashSet<String> =
            value::strings(connection, "SELECT operatorbundle_name FROM opm_properties WHERE type = ?1", [DEPRECATED])?
                .into_iter()
                .collect();
        for member in members(connection)? {
            let unknown = |what: &str, name: &str| {
                Error::Message(format!("unknown {what} {} for bundle {}", quote(name), quote(&member.bundle)))
            };
            let package = packages.get_mut(&member.package).ok_or_else(|| unknown("package", &member.package));
            if deprecated.contains(&member.bundle) {
                continue;
            }
            let package = package?;
            let (_, entries) =
                package.channels.get_mut(&member.channel).ok_or_else(|| unknown("channel", &member.channel))?;
            package.bundles.insert(member.bundle.clone());
            entries.push(member);
        }
        Ok(DatabaseContent { packages })
    }

    /// Checks that the content is a valid catalog; returns problems inside of bundles.
    ///
    /// Those are not errors: databases were never as strict, and their content must be kept.
    fn check(&self, connection: &Connection, limits: &Limits) -> Result<Vec<String>, Error> {
        let inspect = catalog::inspect(Warnings::Off);
        let mut fbc = Fbc::default();
        let mut problems = Vec::new();
        for package in self.packages.keys() {
            self.blobs(connection, package, ManifestConversion::Omit, &mut Vec::new(), &mut |text| {
                let made = fbc.generated_blob(text, limits).map_err(|error| Error::Message(error.to_string()))?;
                inspect(&made, text.raw(), &mut problems);
                fbc.push(made);
                Ok(())
            })?;
        }
        let checked = catalog::check(&fbc, fbc::LoadReport::default(), Warnings::Off);
        match checked.catalog {
            Ok(_) => Ok(problems.into_iter().map(|problem| problem.message).collect()),
            Err(problems) => Err(Error::Message(catalog::tree::message(problems.errors()))),
        }
    }

    /// Passes the blobs of a package to `each`, one at a time.
    fn blobs(
        &self,
        connection: &Connection,
        name: &str,
        manifests: ManifestConversion,
        warnings: &mut Vec<String>,
        each: &mut dyn FnMut(&Text) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(package) = self.packages.get(name) else { return Ok(()) };
        let icon = match package.channels.get(&package.default_channel) {
            Some((head, _)) if manifests != ManifestConversion::Omit => icon(connection, name, head, warnings)?,
            _ => None,
        };
        each(&Text::object(|blob| {
            blob.string("schema", blob::PACKAGE).string("name", name);
            blob.string("defaultChannel", &package.default_channel);
            if let Some((data, media_type)) = &icon {
                blob.object("icon", |icon| {
                    icon.string("base64data", data).string("mediatype", media_type);
                });
            }
        }))?;
        let mut ranges: HashMap<&str, String> = HashMap::new();
        for bundle in &package.bundles {
            let row = BundleRow::read(connection, BUNDLES, bundle)?.unwrap_or_default();
            if let Err(error) = Version::parse_strict(&row.version) {
                let (name, version) = (quote(bundle), quote(&row.version));
                let text = format!("populate channels: convert bundle {name}: parse version {version}: {error}");
                return Err(Error::Message(text));
            }
            ranges.insert(bundle, row.skip_range);
        }
        for (channel, (_, entries)) in &package.channels {
            each(&channel_blob(name, channel, entries, &ranges))?;
        }
        for bundle in &package.bundles {
            let row = BundleRow::read(connection, BUNDLES, bundle)?.unwrap_or_default();
            each(&bundle_blob(connection, name, &row, manifests)?)?;
        }
        Ok(())
    }
}

/// Returns data and media type of a package's icon: the first icon of the CSV at the head of the default channel.
fn icon(
    connection: &Connection,
    package: &str,
    head: &str,
    warnings: &mut Vec<String>,
) -> Result<Option<(String, String)>, Error> {
    let Some(csv) = body(connection, head, "csv")? else {
        warnings.push(format!(
            "package {}: bundle {} has no manifests and therefore no icon",
            quote(package),
            quote(head)
        ));
        return Ok(None);
    };
    let Some((mut data, media_type)) = value::json(&csv).and_then(csv::icon) else { return Ok(None) };
    if base64::check(&data).is_err() {
        data.retain(|c| !c.is_ascii_whitespace());
    }
    if base64::check(&data).is_err() {
        warnings.push(format!(
            "package {}: skipping the icon of bundle {}, which is not base64",
            quote(package),
            quote(head)
        ));
        return Ok(None);
    }
    if data.is_empty() && media_type.is_empty() {
        return Ok(None);
    }
    Ok(Some((data, media_type)))
}

fn channel_blob(package: &str, channel: &str, entries: &[MemberRow], ranges: &HashMap<&str, String>) -> Text {
    let entry = |member: &MemberRow| blob::ChannelEntry {
        name: member.bundle.as_str().into(),
        replaces: member.replaces.as_str().into(),
        skips: member.skips.iter().map(|skip| skip.as_str().into()).collect(),
        skip_range: ranges.get(member.bundle.as_str()).map_or("", String::as_str).into(),
    };
    blob::channel_json(package, channel, &entries.iter().map(entry).collect::<Vec<_>>(), None)
}

fn bundle_blob(
    connection: &Connection,
    package: &str,
    row: &BundleRow,
    manifests: ManifestConversion,
) -> Result<Text, Error> {
    let stored = row.typed(connection, TYPED[0].1)?;
    let dependencies = row.typed(connection, TYPED[1].1)?;
    let parsed = |what: &str, kind: &str, text: &str| {
        value::json(text).map(Text::from).ok_or_else(|| {
            let (name, kind) = (quote(&row.name), quote(kind));
            Error::Message(format!("bundle {name}: the value of its {what} {kind} is not JSON: {}", excerpt(text)))
        })
    };
    let mut properties: BTreeSet<(String, Text)> = BTreeSet::new();
    let mut late: Vec<(String, Text)> = Vec::new();
    for (kind, text) in stored {
        let text = if text.is_empty() { Text::null() } else { parsed("property", &kind, &text)? };
        match kind.as_str() {
            property::GVK => drop(properties.insert((kind, gvk(&text).unwrap_or(text)))),
            property::BUNDLE_OBJECT | property::CSV_METADATA => late.push((kind, text)),
            _ => drop(properties.insert((kind, text))),
        }
    }
    if properties.iter().all(|(kind, _)| kind != property::PACKAGE) {
        properties.insert((property::PACKAGE.into(), value::package_property(package, &row.version)));
    }
    for (kind, text) in dependencies {
        let text = parsed("dependency", &kind, &text)?;
        properties.insert(match kind.as_str() {
            property::GVK => (property::GVK_REQUIRED.into(), gvk(&text).unwrap_or(text)),
            property::PACKAGE => (property::PACKAGE_REQUIRED.into(), package_required(&text).unwrap_or(text)),
            _ => (kind, text),
        });
    }
    let mut csv = None;
    // A bundle without an image needs its manifests.
    if manifests != ManifestConversion::Omit || row.image.is_empty() {
        csv = body(connection, &row.name, "csv")?;
        objects_of(connection, row, manifests, &mut late)?;
    }
    late.sort_by(|a, b| (a.0 == property::CSV_METADATA, &a.1).cmp(&(b.0 == property::CSV_METADATA, &b.1)));

    let images = images(connection, row, csv.as_deref())?;
    Ok(Text::object(|blob| {
        blob.string("schema", blob::BUNDLE).string("name", &row.name);
        blob.string("package", package).string("image", &row.image);
        blob.objects("properties", properties.into_iter().chain(late), |(kind, value), property| {
            property.string("type", &kind).value("value", value.raw());
        });
        if !images.is_empty() {
            blob.objects("relatedImages", &images, |(image, name), related| {
                related.string("name", name).string("image", image);
            });
        }
    }))
}

/// Adds the manifests of a bundle, or its metadata for consoles.
fn objects_of(
    connection: &Connection,
    row: &BundleRow,
    manifests: ManifestConversion,
    late: &mut Vec<(String, Text)>,
) -> Result<(), Error> {
    let stored = body(connection, &row.name, "bundle")?.unwrap_or_default();
    let migrated = late.iter().any(|(kind, _)| kind == property::CSV_METADATA);
    let csv = objects(&stored).find(|object| csv::is_csv(*object));
    if let (ManifestConversion::Metadata, Some(csv), false, false) = (manifests, csv, row.image.is_empty(), migrated) {
        let value = csv::metadata::from_csv(csv)
            .map_err(|message| Error::Message(format!("bundle {}: migrate: {message}", quote(&row.name))))?;
        late.retain(|(kind, _)| kind != property::BUNDLE_OBJECT);
        late.push((property::CSV_METADATA.into(), value));
        return Ok(());
    }
    for object in objects(&stored) {
        let value = Text::object(|value| {
            value.base64("data", object.text().as_bytes());
        });
        late.push((property::BUNDLE_OBJECT.into(), value));
    }
    Ok(())
}

/// Returns the related images of a bundle with their names: those of its CSV, then the others.
fn images(connection: &Connection, row: &BundleRow, csv: Option<&str>) -> Result<Vec<(String, String)>, Error> {
    let listed = csv.and_then(value::json).into_iter().flat_map(csv::related_images);
    let mut images: Vec<(String, String)> = listed.collect();
    let sql = "SELECT image FROM opm_images WHERE operatorbundle_name = ?1 ORDER BY rowid";
    for image in value::strings(connection, sql, [&row.name])? {
        if !images.iter().any(|(known, _)| *known == image) {
            images.push((image, String::new()));
        }
    }
    images.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(images)
}

/// Writes a GVK with its fields in order.
fn gvk(text: &str) -> Option<Text> {
    let [group, kind, version] = value::fields(text, ["group", "kind", "version"])?;
    Some(value::gvk_property(&group, &kind, &version))
}

/// Converts a package dependency to a property.
fn package_required(text: &str) -> Option<Text> {
    let [package, range] = value::fields(text, ["packageName", "version"])?;
    Some(JsonObject::new().string("packageName", &package).string("versionRange", &range).end())
}
