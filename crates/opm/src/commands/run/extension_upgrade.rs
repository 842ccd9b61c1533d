//! `opm run bundle-upgrade --olm v1`: upgrades an operator that OLM v1 installed.

use cluster::extension::{self, Carried, InstallerAccount, Upgrade};
use cluster::run::names;
use cluster::{Cluster, Ledger};

use super::bundle::print;
use super::bundle_upgrade::BundleUpgradeArgs;
use super::extension::{Rehearsal, definitions, definitions_are_safe, no_registry, pushed, read};
use super::flags::{DECOMPRESSION_IMAGE, NO_INDEX};
use super::index::{CatalogBuilder, CatalogConsumer, IndexKind, generating, images_of};
use super::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::limits;
use crate::live::ClusterProgress;
use crate::printer::Printer;

pub(super) fn run(
    args: &BundleUpgradeArgs,
    tls: &TlsFlags,
    session: &mut RunSession,
    cluster: &Cluster,
    printer: &mut Printer,
) -> CommandResult {
    args.serve.check_for_v1()?;
    if args.shared_catalog {
        return Err(Failure::usage("--shared-catalog requires --olm v0"));
    }
    let deadline = args.cluster.deadline();
    let images = images::open(tls, &args.serve.pull);
    let ignore_dependencies = args.more.ignore_dependencies;
    let mut flags = args.serve.clone();
    let first = CatalogBuilder {
        reader: CatalogConsumer::Image { push: !args.dry_run, ignore_dependencies },
        flags: &args.serve,
        tls,
        images: &images,
        limits: limits::from_env()?,
        decompression_image: DECOMPRESSION_IMAGE,
        printer,
    };
    let mut newest = first.bundles(&[&args.bundle])?;
    let Some(pulled) = newest.first() else { return Err(Failure::message("no bundle was pulled")) };
    let facts = pulled.facts.clone();
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let offer = session.ask(extension::offer(cluster, deadline, &live))?;
    let found = session.ask(extension::find(cluster, &facts.package, deadline, &live))?;
    let rehearsal = Rehearsal {
        offer: &offer,
        name: &found.name,
        namespace: &found.namespace,
        watch_namespace: found.watch_namespace.as_deref(),
        ignore_dependencies,
    };
    let rehearsed = rehearsal.of(read(&pulled.directory, &first.limits)?, printer)?;
    if !args.more.ignore_crd_safety {
        let names = definitions(&rehearsed.objects);
        let there = session.ask(extension::definitions(cluster, &names, deadline, &live))?;
        definitions_are_safe(&there, &rehearsed.objects)?;
    }
    // Push to the current catalog image, unless --registry is given.
    let known = || image::Reference::parse(&found.registry).ok();
    flags.registry = Some(flags.registry.or_else(known).ok_or_else(no_registry)?);
    let builder = CatalogBuilder { flags: &flags, ..first };
    let index_image = if found.index_image.is_empty() { NO_INDEX } else { &found.index_image };
    let index = builder.index(index_image, false)?;
    builder.check_mode(&index)?;
    if let IndexKind::Database(path) = &index {
        return builder.database(index_image, path).map(drop);
    }
    let catalog = builder.load(index_image, &index)?;
    let mut bundles = builder.bundles(&images_of(&found.items))?;
    bundles.append(&mut newest);
    let all: Vec<String> = bundles.iter().map(|bundle| bundle.facts.csv.clone()).collect();
    let additions = edit::run_bundle::extend(&catalog, &facts.package, &all, names::CHANNEL, index_image)
        .map_err(|refusal| generating(&facts.csv, &args.bundle, index_image, &refusal))?;
    let image = pushed(builder.serve(catalog, &additions, &bundles, &index, index_image)?)?;
    let mut items = found.items.clone();
    items.push(flags.item(&args.bundle, NO_INDEX));
    let registry = flags.registry.as_ref().map(ToString::to_string).unwrap_or_default();
    let plan = Upgrade {
        bundle: facts.csv.clone(),
        version: rehearsed.bundle.version.clone(),
        account: match offer.needs_account {
            true => InstallerAccount::Derived(rehearsed.role["rules"].clone()),
            false => InstallerAccount::None,
        },
        carried: Carried { image, registry, index_image: index_image.to_owned(), items },
        ignore_crd_safety: args.more.ignore_crd_safety,
        found,
    };
    if args.dry_run {
        drop(live);
        return print(&plan.objects(), printer);
    }
    let ledger = Ledger::default();
    let work = extension::upgrade(cluster, &plan, &ledger, deadline, &live);
    session.work(cluster, &ledger, args.serve.keep, &live, work)
}
