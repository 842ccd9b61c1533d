//! Adding to a database and migrating it, while the process is killed at any moment.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BUNDLES: usize = 24;

fn write_bundle(root: &Path, number: usize) -> PathBuf {
    let directory = root.join(format!("bundle-{number}"));
    fs::create_dir_all(directory.join("manifests")).unwrap();
    fs::create_dir_all(directory.join("metadata")).unwrap();
    let mut csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v0.{number}.0\n\
         spec:\n  version: 0.{number}.0\n  description: |\n"
    );
    for line in 0..2000 {
        writeln!(csv, "    line {line} of bundle {number}, which nobody reads").unwrap();
    }
    fs::write(directory.join("manifests/csv.yaml"), csv).unwrap();
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
        operators.operatorframework.io.bundle.channels.v1: stable\n";
    fs::write(directory.join("metadata/annotations.yaml"), annotations).unwrap();
    directory
}

fn opm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
    command.args(arguments).stderr(Stdio::null());
    command
}

fn add(database: &Path, bundles: &[PathBuf]) -> Command {
    let list: Vec<String> = bundles.iter().map(|bundle| bundle.display().to_string()).collect();
    opm(&["registry", "add", "--mode", "semver", "-d", &database.display().to_string(), "-b", &list.join(",")])
}

fn render(database: &Path) -> Vec<u8> {
    let output = opm(&["render", &database.display().to_string()]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Runs a command and kills it after a fraction of its usual duration.
fn kill(mut command: Command, whole: Duration, round: u64) {
    let mut child = command.spawn().unwrap();
    std::thread::sleep(whole.mul_f64((round * 37 % 100) as f64 / 100.0) + Duration::from_micros(round));
    let _ = child.kill();
    child.wait().unwrap();
}

fn rounds(count: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let bundles: Vec<PathBuf> = (0..BUNDLES).map(|number| write_bundle(scratch.path(), number)).collect();
    let (first, rest) = bundles.split_at(2);
    let (base, work) = (scratch.path().join("base.db"), scratch.path().join("work.db"));
    let journal = scratch.path().join("work.db-journal");
    assert!(add(&base, first).status().unwrap().success());
    fs::copy(&base, &work).unwrap();
    let start = Instant::now();
    assert!(add(&work, rest).status().unwrap().success());
    let whole = start.elapsed();
    let (before, after) = (render(&base), render(&work));
    assert_ne!(before, after);
    let mut seen = [0, 0];
    for round in 1..=count {
        fs::copy(&base, &work).unwrap();
        let _ = fs::remove_file(&journal);
        kill(add(&work, rest), whole, round);
        let now = render(&work);
        assert!(now == before || now == after, "round {round}: the database is in neither state");
        seen[usize::from(now == after)] += 1;
        // An unfinished change can be repeated now.
        let again = add(&work, rest).status().unwrap();
        assert_eq!(again.success(), now == before, "round {round}");
        assert_eq!(render(&work), after, "round {round}");
    }
    assert!(seen[0] > 0, "every round ended before the kill");

    fs::copy(&base, &work).unwrap();
    let _ = fs::remove_file(&journal);
    assert!(add(&work, rest).status().unwrap().success());
    let bytes = fs::read(&work).unwrap();
    let out = scratch.path().join("out");
    let migrate = || opm(&["migrate", &work.display().to_string(), &out.display().to_string()]);
    let start = Instant::now();
    assert!(migrate().status().unwrap().success());
    let whole = start.elapsed();
    let migrated = fs::read(out.join("foo/catalog.json")).unwrap();
    for round in 1..=count {
        fs::remove_dir_all(&out).unwrap_or_default();
        kill(migrate(), whole, round);
        if out.exists() {
            assert_eq!(
                fs::read(out.join("foo/catalog.json")).unwrap(),
                migrated,
                "round {round}: the output is partial"
            );
        }
        assert_eq!(fs::read(&work).unwrap(), bytes, "round {round}: the database changed");
    }
}

#[test]
fn a_killed_command_leaves_the_old_or_the_new_state() {
    rounds(testkit::kill_rounds());
}
