//! Turns an image set or a lock into a mirror plan: opens catalogs, resolves images, writes and builds catalogs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use image::{Client, Digest, Parts, Platform, Reference};
use mirror::imageset::{ImageSet, Kind};
use mirror::lock::{LeftOut, Lock, LockedImage, Role};
use mirror::part::Part;
use mirror::plan::{self, Plan};
use mirror::report::{self, Missing, OnMissing};
use source::Images;

use super::catalog_image::build_one;
use super::flags::{ChoiceFlags, notes, report_missing};
use super::installed::Installed;
use super::open::{self, Catalog};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::TlsFlags;
use crate::limits;
use crate::printer::Printer;

/// The input of a mirror command.
pub(crate) enum Input {
    /// An image set.
    Set(Box<Request>),
    /// The lock of an earlier run.
    Lock(Box<Lock>),
}

/// The request of an image set.
pub(crate) struct Request {
    pub(crate) set: ImageSet,
    /// The digest of the file and of the flags that affect the selection.
    pub(crate) request: Digest,
    /// The installed bundles of a cluster, if they restrict the selection.
    pub(crate) installed: Option<Installed>,
}

/// Reads an image set or a lock.
pub(crate) fn read(file: &str, choice: &ChoiceFlags, printer: &Printer) -> Result<(Input, Vec<u8>), Failure> {
    let mut limits = limits::from_env()?;
    limits.file_size = limits.file_size.min(mirror::lock::LIMIT);
    let text = crate::commands::read_input(file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let is_lock = text.trim_ascii_start().starts_with(b"{") && memfind(&text, b"\"request\"");
    if is_lock {
        let lock = Lock::read(&text).map_err(|error| Failure::message(format!("{file}: {error}")))?;
        return Ok((Input::Lock(Box::new(lock)), text));
    }
    let set = open::image_set(file, &text, Kind::Mirror, &choice.skip, printer)?;
    let mut request = text.clone();
    request.extend(choice.request().as_bytes());
    let installed = choice.installed.as_ref().map(|from| Installed::read(from, choice)).transpose()?;
    if let Some(installed) = &installed {
        request.extend(installed.request());
    }
    let request = Digest::of(&request);
    Ok((Input::Set(Box::new(Request { set, request, installed })), text))
}

fn memfind(text: &[u8], word: &[u8]) -> bool {
    text[..text.len().min(4096)].windows(word.len()).any(|window| window == word)
}

/// A mirror plan in progress.
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) request: Digest,
    /// The catalogs of the plan, by index; `None` if the image is already built.
    pub(crate) catalogs: Vec<Option<Catalog>>,
}

/// Opens catalogs and resolves images. Manifests go to the client's store.
pub(crate) fn prepare(
    input: Input,
    choice: &ChoiceFlags,
    base: &Path,
    client: &Client,
    images: &Images,
    printer: &Printer,
) -> Result<Prepared, Failure> {
    match input {
        Input::Set(request) => {
            let Request { set, request, installed } = *request;
            let catalogs = open::catalogs(&set, choice, installed.as_ref(), base, images, printer)?;
            let options = plan::Options {
                layout: choice.layout,
                referrers: !choice.without_referrers,
                keep_original: choice.keep_original,
                keep_unsigned: choice.missing == OnMissing::Keep,
            };
            let opened: Vec<&plan::Opened> = catalogs.iter().map(|catalog| &catalog.opened).collect();
            let plan = plan::plan(client, &set, &opened, options).map_err(Failure::message)?;
            notes(&plan.notes, printer);
            Ok(Prepared { plan, request, catalogs: catalogs.into_iter().map(Some).collect() })
        }
        Input::Lock(lock) => from_lock(*lock, choice, base, client, images, printer),
    }
}

/// Restores a plan from a lock. The selection stays, and only manifests that the store lacks are requested.
fn from_lock(
    mut lock: Lock,
    choice: &ChoiceFlags,
    base: &Path,
    client: &Client,
    images: &Images,
    printer: &Printer,
) -> Result<Prepared, Failure> {
    let request = lock.request.parse().map_err(|_| Failure::message("the lock has no valid digest of its request"))?;
    let options = client.options();
    let there = |digest: &Digest, platforms: &[Platform]| Parts::of(&options.store, digest, platforms, &options.limits);
    // Do not request the images of catalogs that are built here. A set has many other images: avoid copies.
    let (mut built, others): (Vec<LockedImage>, Vec<LockedImage>) =
        std::mem::take(&mut lock.images).into_iter().partition(|image| {
            image.role == Role::Catalog && lock.catalogs.iter().any(|it| !it.whole && it.image == image.digest)
        });
    let mut plan = Plan { catalogs: lock.catalogs.clone(), left_out: lock.left_out.clone(), ..Plan::default() };
    // The set may have been pulled under another policy, or none.
    let enforced = client.enforced_policy().map_err(|error| Failure::message(error.to_string()))?.is_some();
    let sources: Vec<Reference> = others.iter().filter_map(mirror::policy::source).collect();
    notes(&mirror::policy::ignored(client, sources.iter()).into_iter().collect::<Vec<_>>(), printer);
    drop(sources);
    let mut wanted: Vec<(Reference, Vec<Platform>)> = Vec::new();
    let mut artifacts: Vec<Reference> = Vec::new();
    let (mut of, mut of_artifacts): (Vec<usize>, Vec<usize>) = Default::default();
    for (number, image) in others.iter().enumerate() {
        let Some(reference) = mirror::policy::source(image) else { continue };
        let mut tops = image.tops();
        if let Some(digest) = tops.next()
            && (enforced || there(&digest, &image.platforms()).is_err())
        {
            wanted.push((reference.with_digest(digest), image.platforms()));
            of.push(number);
        }
        for digest in tops.filter(|digest| there(digest, &[]).is_err()) {
            artifacts.push(reference.with_digest(digest));
            of_artifacts.push(number);
        }
    }
    let mut lost: BTreeSet<usize> = BTreeSet::new();
    let images_and_artifacts = of.iter().zip(client.survey(&wanted, false));
    for (number, outcome) in images_and_artifacts.chain(of_artifacts.iter().zip(client.survey_artifacts(&artifacts))) {
        if let Err(error) = outcome {
            lost.insert(*number);
            plan.missing.push(mirror::verify::missing(&others[*number], &error));
        }
    }
    drop((wanted, artifacts));
    let kept = others.into_iter().enumerate().filter(|(number, _)| !lost.contains(number));
    plan.images = kept.map(|(_, image)| image).collect();
    let mut catalogs = Vec::new();
    for (number, request) in open::requests(&lock)?.catalogs.into_iter().enumerate() {
        let locked = &lock.catalogs[number];
        let whole = locked.image.parse::<Digest>().ok().and_then(|digest| there(&digest, &[]).ok());
        let is_there = whole.is_some_and(|parts| options.store.lacking(&parts.blobs).is_empty());
        // A filtered catalog is opened again, to check the image that it was built from.
        if locked.whole || is_there && !enforced {
            plan.images.extend(built.extract_if(.., |image| image.digest == locked.image));
            catalogs.push(None);
            continue;
        }
        let set = ImageSet { catalogs: vec![request], ..ImageSet::default() };
        let plain = ChoiceFlags { with_dependencies: false, installed: None, ..choice.clone() };
        catalogs.push(open::catalogs(&set, &plain, None, base, images, printer)?.pop());
    }
    Ok(Prepared { plan, request, catalogs })
}

impl Prepared {
    /// Handles missing images as `--missing` says: fails later, keeps or drops their bundles. If an image failed for
    /// another reason, such as an unreachable registry, the set stays as requested, and the command fails later.
    ///
    /// # Errors
    /// Fails if a bundle cannot be dropped.
    pub(crate) fn settle(
        &mut self,
        failed: Vec<Missing>,
        choice: &ChoiceFlags,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let mut missing = std::mem::take(&mut self.plan.missing);
        let lost: BTreeSet<String> = failed.iter().map(|one| one.image.clone()).collect();
        self.plan.images.retain(|image| !lost.contains(&image.source));
        missing.extend(failed);
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        report_missing(&missing, printer);
        if missing.iter().any(|one| one.failed) && choice.missing != OnMissing::Fail {
            let note = "--missing applies to images that their registry does not have, not to failures".to_owned();
            notes(&[note], printer);
            self.plan.missing = missing;
            return Ok(());
        }
        match choice.missing {
            OnMissing::Fail => {
                self.plan.missing = missing;
                return Ok(());
            }
            OnMissing::Keep => {
                printer.warning("continuing without them: the catalog references images that the set lacks")
            }
            OnMissing::Drop => self.drop_bundles(&report::bundles(&missing), printer)?,
        }
        self.plan.left_out.extend(missing.into_iter().map(|one| LeftOut {
            source: one.image,
            reason: one.cause,
            used_by: one.used_by,
        }));
        Ok(())
    }

    fn drop_bundles(&mut self, bundles: &BTreeSet<(String, String)>, printer: &Printer) -> Result<(), Failure> {
        let mut gone: BTreeSet<String> =
            bundles.iter().map(|(package, bundle)| format!("{package}/{bundle}")).collect();
        let unmet = |catalogs: &[Option<Catalog>]| {
            let parts: Vec<&Part> = catalogs.iter().flatten().map(|catalog| &catalog.opened.part).collect();
            Part::unmet(&parts)
        };
        let before = unmet(&self.catalogs);
        for (number, catalog) in self.catalogs.iter_mut().enumerate() {
            let Some(catalog) = catalog.as_mut().filter(|it| !it.opened.request.is_whole()) else { continue };
            let part = &mut catalog.opened.part;
            part.notes.clear();
            let named = |error: mirror::MirrorError| {
                Failure::fault(error.named(format!("catalog {}", catalog.opened.request.source)))
            };
            part.drop_bundles(bundles).map_err(named)?;
            notes(&part.notes, printer);
            self.plan.catalogs[number].packages = part.packages();
        }
        // Report the remaining bundles that depend on dropped ones.
        notes(&unmet(&self.catalogs).difference(&before).cloned().collect::<Vec<_>>(), printer);
        let all: BTreeSet<String> = self
            .plan
            .catalogs
            .iter()
            .flat_map(|catalog| {
                catalog.packages.iter().flat_map(|(name, package)| {
                    package.channels.values().flatten().map(move |bundle| format!("{name}/{bundle}"))
                })
            })
            .collect();
        gone.retain(|bundle| !all.contains(bundle));
        // Drop images that only dropped bundles used.
        for image in &mut self.plan.images {
            image.used_by.retain(|user| all.contains(user));
        }
        self.plan
            .images
            .retain(|image| matches!(image.role, Role::Additional | Role::Catalog) || !image.used_by.is_empty());
        Ok(())
    }

    /// Reports bundles that had an upgrade in the catalogs of the earlier set below `place` and are stranded now.
    pub(crate) fn compare(&self, place: &Path, printer: &Printer) -> Outcome {
        for (locked, catalog) in self.plan.catalogs.iter().zip(&self.catalogs) {
            if let Some(catalog) = catalog {
                notes(&catalog.opened.part.stranded_since(&place.join(&locked.name))?, printer);
            }
        }
        Ok(())
    }

    /// Writes the selected part of each catalog to a directory below `place`, and builds its image in the client's store.
    pub(crate) fn build(
        &mut self,
        place: &Path,
        client: &Client,
        tls: &TlsFlags,
        printer: &Printer,
    ) -> Result<(), Failure> {
        for (number, catalog) in self.catalogs.iter().enumerate() {
            let locked = &mut self.plan.catalogs[number];
            let Some(catalog) = catalog else { continue };
            let directory: PathBuf = place.join(&locked.name);
            let _ = fs::remove_dir_all(&directory);
            let named = |error: mirror::MirrorError| Failure::fault(error.named(format!("catalog {}", locked.source)));
            let content = catalog.opened.part.write(&directory).map_err(named)?.to_string();
            if !locked.content.is_empty() && locked.content != content {
                let (source, before) = (&locked.source, &locked.content);
                notes(
                    &[format!("the selected part of catalog {source} has digest {content}, but {before} in the lock")],
                    printer,
                );
            }
            locked.content = content;
            if locked.whole {
                continue;
            }
            let expected = super::catalog_image::expected(locked);
            let image = build_one(locked, catalog, &directory, client, tls, printer)?;
            locked.extract_content.clone_from(&catalog.opened.extract_content);
            if let Some(expected) = expected.filter(|expected| expected.to_string() != image.digest) {
                notes(
                    &[format!(
                        "the image of catalog {} has digest {}, but {expected} in the lock: its serving program differs",
                        locked.source, image.digest
                    )],
                    printer,
                );
            }
            locked.image.clone_from(&image.digest);
            self.plan.images.push(image);
        }
        Ok(())
    }

    /// Returns the lock of the plan.
    pub(crate) fn into_lock(self) -> Lock {
        self.plan.into_lock(self.request)
    }

    /// Moves the plan into a lock for now, without copying its many images. [`Prepared::restore`] moves the images back.
    pub(crate) fn lend(&mut self) -> Lock {
        self.plan.take_lock(self.request)
    }

    /// Moves the images back from the lock of [`Prepared::lend`].
    pub(crate) fn restore(&mut self, lock: Lock) {
        self.plan.images = lock.images;
    }
}
