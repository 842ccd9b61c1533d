//! Guarantees of a store: every blob matches its digest, even if writers compete and are killed.

use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use image::{Client, ClientOptions, CopyPlan, Digest, Environment, Location, Store};
use testkit::{FakeRegistry, ResponseFault};

use crate::faults::serve;
use crate::kit::{Kit, content, image, noise, tar};

/// The image that one process of [`pulls_from_many_pid_namespaces_leave_no_wrong_blob`] pulls.
const REFERENCE: &str = "OPM_TEST_REFERENCE";
/// The store that it pulls into.
const STORE: &str = "OPM_TEST_STORE";

/// How many processes pull in parallel, and how many rounds there are.
const PULLS: &str = "OPM_TEST_PULLS";
const ROUNDS: &str = "OPM_TEST_ROUNDS";

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn random(below: u64) -> u64 {
    std::hash::RandomState::new().build_hasher().finish() % below
}

fn wrong_blobs(store: &Store) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(store.root().join("blobs/sha256")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if Digest::of(&fs::read(entry.path()).unwrap()).hex() != name {
            wrong.push(name);
        }
    }
    wrong
}

/// Pulls in a separate process; [`in_namespace`] starts it.
#[test]
#[ignore = "another test starts it"]
fn one_pull() {
    let (reference, store) = (std::env::var(REFERENCE).unwrap(), std::env::var(STORE).unwrap());
    let mut options = ClientOptions::new(Store::open(Path::new(&store)).unwrap());
    options.environment = Environment::isolated(Path::new("/nonexistent"), &[]);
    options.use_http = true;
    Client::new(options).unwrap().pull(&Location::parse(&reference).unwrap()).unwrap();
}

/// Starts a pull whose process id is 1, as in a container.
fn in_namespace(unshare: &[&str], reference: &str, store: &Path) -> Child {
    Command::new("unshare")
        .args(unshare)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "stores::one_pull", "--ignored", "--nocapture"])
        .env(REFERENCE, reference)
        .env(STORE, store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn pulls_from_many_pid_namespaces_leave_no_wrong_blob() {
    let variants: [&[&str]; 2] =
        [&["--pid", "--fork", "--kill-child"], &["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]];
    let works = |arguments: &&&[&str]| {
        Command::new("unshare").args(**arguments).arg("true").output().is_ok_and(|it| it.status.success())
    };
    if !testkit::installed("unshare") {
        return;
    }
    let Some(unshare) = variants.iter().find(works) else {
        return testkit::skipped("this user cannot create a pid namespace");
    };
    let source = Kit::new(|_| {});
    let layers: Vec<Vec<u8>> = (0..4).map(|seed| tar("file", &noise(seed, 700_000))).collect();
    let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
    let digest = image(source.store(), &layers);
    let registry = FakeRegistry::start(|_| (ResponseFault::None, None));
    serve(&registry, source.store(), "a", "v1", &digest);
    let reference = format!("{}/a:v1", registry.host());
    for round in 0..number(ROUNDS, 2) {
        let kit = Kit::plain();
        let mut pulls: Vec<(Child, bool)> = (0..number(PULLS, 24))
            .map(|_| (in_namespace(unshare, &reference, kit.store().root()), random(3) == 0))
            .collect();
        let (mut killed, mut failed) = (0, 0);
        while !pulls.is_empty() {
            std::thread::sleep(Duration::from_millis(random(20)));
            pulls.retain_mut(|(pull, to_kill)| match pull.try_wait().unwrap() {
                Some(status) => {
                    failed += usize::from(!status.success());
                    false
                }
                None if *to_kill && random(8) == 0 => {
                    pull.kill().unwrap();
                    pull.wait().unwrap();
                    killed += 1;
                    false
                }
                None => true,
            });
        }
        assert_eq!(wrong_blobs(kit.store()), Vec::<String>::new(), "round {round}: {killed} killed, {failed} failed");
        assert_eq!(failed, 0, "round {round}: {killed} killed");
        let pulled = kit.pull(&reference).unwrap();
        assert_eq!(pulled.digest, digest);
    }
}

#[test]
fn wrong_blobs_of_the_store_do_not_affect_layouts() {
    let source = Kit::plain();
    let layer = tar("one", &noise(1, 5000));
    let digest = image(source.store(), &[&layer]);
    let place = format!("oci:{}:v1", source.path().join("layout").display());
    source.client.push(&digest, &Location::parse(&place).unwrap()).unwrap();
    for (name, wrong) in [("the layer", Digest::of(&layer)), ("the manifest", digest)] {
        let kit = Kit::plain();
        let path = kit.store().path_of(&wrong);
        let size = fs::metadata(source.store().path_of(&wrong)).unwrap().len();
        fs::write(&path, noise(9, usize::try_from(size).unwrap())).unwrap();
        let pulled = kit.pull(&place).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pulled.digest, digest);
        assert!(content(&pulled.layers[0].1) == layer, "{name}");
        assert_eq!(wrong_blobs(kit.store()), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_copy_to_a_layout_fetches_missing_blobs_only() {
    let source = Kit::plain();
    let (one, two) = (tar("one", &noise(1, 50_000)), tar("two", &noise(2, 50_000)));
    let digest = image(source.store(), &[&one, &two]);
    let registry = FakeRegistry::start(|_| (ResponseFault::None, None));
    serve(&registry, source.store(), "a", "v1", &digest);
    let from = Location::parse(&format!("{}/a:v1", registry.host())).unwrap();
    let layout = source.path().join("layout");
    let to = Location::parse(&format!("oci:{}:v1", layout.display())).unwrap();
    let blobs =
        |registry: &FakeRegistry| registry.log().iter().filter(|request| request.path.contains("/blobs/")).count();
    let copied = Kit::plain().client.copy(&from, &to, CopyPlan::default()).unwrap();
    assert_eq!((blobs(&registry), copied.sent, copied.known), (3, 3, 0));
    let again = Kit::plain().client.copy(&from, &to, CopyPlan::default()).unwrap();
    assert_eq!((blobs(&registry), again.sent, again.known), (3, 0, 3));
    // A damaged blob does not match its digest, so it is fetched again.
    let damaged = layout.join("blobs/sha256").join(Digest::of(&one).hex());
    fs::write(&damaged, noise(3, one.len())).unwrap();
    let repaired = Kit::plain().client.copy(&from, &to, CopyPlan::default()).unwrap();
    assert_eq!((blobs(&registry), repaired.sent, repaired.known), (4, 1, 2));
    assert!(fs::read(&damaged).unwrap() == one);
}

#[test]
fn scratch_files_are_private_and_removed_with_their_writer() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let kit = Kit::plain();
    let folder = kit.store().root().join("blobs");
    let files = || {
        let entries = fs::read_dir(&folder).unwrap().map(Result::unwrap);
        entries.filter(|entry| entry.file_type().unwrap().is_file()).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut writer = kit.store().writer().unwrap();
    writer.write_all(b"half").unwrap();
    assert_eq!(files().len(), 1);
    assert_eq!(fs::metadata(&files()[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!files()[0].to_string_lossy().contains(&std::process::id().to_string()), "{:?}", files());
    drop(writer);
    assert_eq!(files().len(), 0);
    let usual = kit.path().join("usual");
    fs::write(&usual, "").unwrap();
    let blob = kit.store().path_of(&kit.store().put(b"whole").unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&blob), mode(&usual), "a complete blob has the usual mode");
}

#[test]
fn parallel_writers_of_one_blob_do_not_conflict() {
    let kit = Kit::plain();
    let content = Arc::new(noise(1, 300_000));
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                kit.store().put(&content).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 16);
    assert_eq!(wrong_blobs(kit.store()), Vec::<String>::new());
}
