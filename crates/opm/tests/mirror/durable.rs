//! A set after a power failure: large blobs are complete, and the next run verifies small ones.

use std::fs;
use std::process::Command;

use crate::kit::{Kit, mirror, names};

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.0.0\n";

/// The size from which a blob is synced to disk before it gets its name.
const LARGE: u64 = 64 << 10;

#[test]
fn m12_small_blobs_damaged_by_a_power_failure_are_fetched_again() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let digest = kit.mirror(&["pull", &file, "out"]);
    // The file system has recorded the lengths of the latest files, but not their content.
    fs::remove_file(kit.path("out/mirror/lock.json")).unwrap();
    let mut emptied = 0;
    for name in names(&kit.path("out/blobs/sha256")) {
        let path = kit.path("out/blobs/sha256").join(name);
        let size = path.metadata().unwrap().len();
        if size < LARGE {
            fs::write(&path, vec![0; usize::try_from(size).unwrap()]).unwrap();
            emptied += 1;
        }
    }
    assert!(emptied > 8, "{emptied} small blobs");
    let before = kit.proxy.count();
    assert_eq!(kit.mirror(&["pull", &file, "out"]), digest);
    assert_eq!(kit.mirror(&["verify", "out"]), digest);
    // Large blobs stay.
    assert!(kit.proxy.count() - before < 200_000, "{} bytes", kit.proxy.count() - before);
}

#[test]
fn m12_large_blobs_are_synced_before_they_are_renamed_and_all_before_the_lock() {
    let Some(kit) = Kit::new() else { return };
    if !testkit::installed("strace") {
        return;
    }
    let file = kit.set("set.yaml", ALPHA);
    let words = mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes", "--drain"]);
    let calls = "trace=fdatasync,fsync,syncfs,rename,renameat,renameat2,unlink,unlinkat";
    let plain = kit.command(&words);
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-s", "4096", "-e", calls, "-o", "calls"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(kit.path(""))
        .env("HOME", kit.path("home"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("PTRACE") {
        testkit::skipped("this machine lets nobody trace programs");
        return;
    }
    assert!(output.status.success(), "{error}");
    // strace splits a call that blocks; its end determines the order, and its start names the file.
    let log = whole_calls(&kit.read("calls"));
    let at = |what: &dyn Fn(&str) -> bool| log.iter().position(|line| what(line));
    let named = |line: &str, name: &str| line.contains("rename") && line.contains(&format!("{name}\""));
    let lock = at(&|line| named(line, "mirror/lock.json")).expect("the lock is renamed");
    let mut large = 0;
    // The blobs moved to the volumes; all large ones were synced.
    for (number, line) in log.iter().enumerate() {
        let Some(digest) = blob_of(line) else { continue };
        assert!(number < lock, "{line} after the lock");
        let from = line.split('"').nth(1).unwrap();
        let synced = log[..number].iter().any(|it| it.contains("fdatasync(") && it.contains(&format!("{from}>")));
        let size = sizes(&kit).into_iter().find(|(it, _)| *it == digest).map_or(0, |(_, size)| size);
        if size >= LARGE {
            large += 1;
            assert!(synced, "{line} without a sync");
        }
    }
    assert!(large >= 4, "{large} large blobs in {log:#?}");
    let last_blob = log.iter().rposition(|line| blob_of(line).is_some()).unwrap();
    let all = at(&|line| line.contains("syncfs(")).expect("the file system is synced");
    assert!(last_blob < all && all < lock, "{last_blob}, {all}, {lock}");
    // A volume is renamed and synced before its blobs leave the directory.
    let first = at(&|line| named(line, "-0001.tar")).expect("a volume is renamed");
    let volume_synced =
        first + log[first..].iter().position(|line| line.contains("fsync(") && line.contains("/volumes>")).unwrap();
    // The blobs of the original catalog, which no set needs, leave earlier.
    let own = sizes(&kit);
    let is_own = |line: &str| own.iter().any(|(digest, _)| line.contains(&format!("blobs/sha256/{digest}")));
    let drained = log.iter().position(|line| line.contains("unlink") && is_own(line)).unwrap();
    assert!(first < volume_synced && volume_synced < drained, "{first}, {volume_synced}, {drained}");
}

/// Joins the two parts of calls that others interrupted.
fn whole_calls(log: &str) -> Vec<String> {
    let mut begun: Vec<(String, String)> = Vec::new();
    let mut whole = Vec::new();
    for line in log.lines() {
        let (thread, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        if let Some(front) = rest.strip_suffix("<unfinished ...>") {
            begun.push((thread.to_owned(), front.to_owned()));
        } else if let Some((_, back)) = rest.split_once(" resumed>") {
            let place = begun.iter().position(|(it, _)| it == thread);
            let front = place.map_or_else(String::new, |place| begun.remove(place).1);
            whole.push(format!("{front}{back}"));
        } else {
            whole.push(rest.to_owned());
        }
    }
    whole
}

/// Returns the blob that a call renames.
fn blob_of(line: &str) -> Option<&str> {
    let to = line.split('"').nth(3).filter(|_| line.contains("rename"))?;
    let (place, name) = to.rsplit_once('/')?;
    place.ends_with("out/blobs/sha256").then_some(name)
}

/// Returns the blobs of the set with their sizes.
fn sizes(kit: &Kit) -> Vec<(String, u64)> {
    let list = kit.read("out/mirror/blobs.txt");
    let lines = list.lines().map(|line| line.trim_start_matches("sha256:").split_once(' ').unwrap());
    lines.map(|(digest, size)| (digest.to_owned(), size.parse().unwrap())).collect()
}
