//! Changes that fail leave nothing behind.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;
use std::{fs, thread};

use legacy::{AddMode, Database, Error, Strictness};
use rusqlite::Connection;

use crate::harness::{BundleSpec, Scratch, add, content, options};
use crate::migrations::{bundles, write_old};

#[test]
fn a_failed_add_leaves_no_new_file() {
    let scratch = Scratch::new();
    let database = scratch.path("new/index.db");
    fs::create_dir(scratch.path("new")).unwrap();
    let missing = legacy::BundleToAdd { image: "registry.test/x:1".into(), directory: scratch.path("nowhere") };
    add(&database, std::slice::from_ref(&missing), AddMode::Replaces).unwrap_err();
    assert_eq!(fs::read_dir(scratch.path("new")).unwrap().count(), 0, "a bundle that cannot be read");
    let replaces_nothing =
        BundleSpec { package: "foo", version: "1.0.0", channels: "stable", default: "no", ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&replaces_nothing)], AddMode::Semver).unwrap_err();
    let left: Vec<_> = fs::read_dir(scratch.path("new")).unwrap().flatten().collect();
    assert!(left.is_empty(), "a bundle that cannot be added: {left:?}");
    let remove = |database: &Database| database.remove_packages(&["foo".into()], Strictness::Strict);
    remove(&Database::write(&database).unwrap()).map(drop).unwrap_err();
    assert_eq!(fs::read_dir(scratch.path("new")).unwrap().count(), 0, "a package that does not exist");
    drop(Database::write(&database).unwrap());
    assert_eq!(fs::read_dir(scratch.path("new")).unwrap().count(), 0, "nothing was changed");
}

#[test]
fn a_failed_change_of_an_older_database_does_not_migrate_it() {
    let scratch = Scratch::new();
    let new = scratch.path("new.db");
    add(&new, &bundles(&scratch), AddMode::Replaces).unwrap();
    for version in [0, 5, 12] {
        let old = scratch.path("old.db");
        let _ = fs::remove_file(&old);
        write_old(&new, &old, version);
        let before = fs::read(&old).unwrap();
        let missing = legacy::BundleToAdd { image: "registry.test/x:1".into(), directory: scratch.path("nowhere") };
        add(&old, std::slice::from_ref(&missing), AddMode::Replaces).unwrap_err();
        let spec = BundleSpec { package: "foo", version: "9.0.0", channels: "stable", ..BundleSpec::default() };
        let stranded = scratch.bundle(&BundleSpec { spec: "  replaces: foo.v8.0.0\n", ..spec });
        add(&old, &[stranded], AddMode::Replaces).unwrap_err();
        let remove = Database::write(&old).unwrap().remove_packages(&["none".into()], Strictness::Strict);
        remove.map(drop).unwrap_err();
        assert!(fs::read(&old).unwrap() == before, "version {version}");
        // A change that succeeds migrates the database in the same step, keys included.
        Database::write(&old).unwrap().remove_packages(&["bar".into()], Strictness::Strict).unwrap();
        let rows = content(&old);
        assert!(!rows.iter().any(|row| row.contains("bar")), "version {version}: {rows:#?}");
        let broken: i64 = Connection::open(&old)
            .unwrap()
            .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(broken, 0, "version {version}");
    }
}

#[test]
fn two_programs_can_migrate_one_database_in_parallel() {
    let scratch = Scratch::new();
    let new = scratch.path("new.db");
    add(&new, &bundles(&scratch), AddMode::Replaces).unwrap();
    let old = scratch.path("old.db");
    write_old(&new, &old, 5);
    // Both have read the old version when the lock is released.
    let lock = Connection::open(&old).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Barrier::new(3);
    thread::scope(|scope| {
        let works = [0, 1].map(|_| {
            scope.spawn(|| {
                started.wait();
                Database::write(&old).and_then(|database| database.prune_stranded().map(drop))
            })
        });
        started.wait();
        thread::sleep(Duration::from_millis(500));
        lock.execute_batch("ROLLBACK").unwrap();
        for work in works {
            work.join().unwrap().unwrap_or_else(|error| panic!("{error}"));
        }
    });
    assert_eq!(Database::read(&old).unwrap().version().unwrap(), legacy::VERSION);
}

#[test]
fn several_programs_can_create_one_database_in_parallel() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let spec = |package| BundleSpec { package, version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    let bundles = ["a", "b", "c", "d"].map(|package| scratch.bundle(&spec(package)));
    thread::scope(|scope| {
        for bundle in &bundles {
            scope.spawn(|| add(&database, std::slice::from_ref(bundle), AddMode::Replaces).unwrap());
        }
        // Failing changes in parallel do not remove the new database.
        for _ in 0..4 {
            scope.spawn(|| {
                let remove = Database::write(&database).unwrap().remove_packages(&["none".into()], Strictness::Strict);
                remove.map(drop).unwrap_err();
            });
        }
    });
    let packages = content(&database).into_iter().filter(|row| row.starts_with("package: ")).count();
    assert_eq!(packages, 4);
}

#[test]
fn creating_a_database_in_parallel_with_failing_changes_always_succeeds() {
    let spec = |package| BundleSpec { package, version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    let scratch = Scratch::new();
    let bundles = ["a", "b"].map(|package| scratch.bundle(&spec(package)));
    for round in 0..30 {
        let database = scratch.path(&format!("{round}.db"));
        let left = scratch.path(".opm-new-index-killed.db-journal");
        std::fs::write(&left, "of a program that was killed").unwrap();
        thread::scope(|scope| {
            for bundle in &bundles {
                scope.spawn(|| add(&database, std::slice::from_ref(bundle), AddMode::Replaces).unwrap());
            }
            for _ in 0..6 {
                scope.spawn(|| {
                    let remove = Database::write(&database).unwrap();
                    remove.remove_packages(&["none".into()], Strictness::Strict).map(drop).unwrap_err();
                });
            }
        });
        let packages = content(&database).into_iter().filter(|row| row.starts_with("package: ")).count();
        assert_eq!(packages, 2, "round {round}");
        assert!(!left.exists());
    }
}

#[test]
fn a_permissive_change_that_skips_everything_still_creates_a_database() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let forgiving = legacy::AddOptions { strictness: Strictness::Permissive, ..options(AddMode::Semver) };
    let wrong =
        BundleSpec { package: "foo", version: "1.0.0", channels: "stable", default: "no", ..BundleSpec::default() };
    let added = Database::write(&database).unwrap().add(&[scratch.bundle(&wrong)], &forgiving).unwrap();
    assert_eq!(added.skipped.len(), 1, "{:?}", added.skipped);
    assert_eq!(Database::read(&database).unwrap().version().unwrap(), legacy::VERSION);
}

#[test]
fn a_database_without_a_column_of_its_version_is_reported() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let spec = BundleSpec { package: "foo", version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&spec)], AddMode::Replaces).unwrap();
    let raw = Connection::open(&database).unwrap();
    raw.execute_batch("ALTER TABLE channel RENAME COLUMN head_operatorbundle_name TO head").unwrap();
    drop(raw);
    for opened in [Database::read(&database), Database::write(&database)] {
        let error = opened.map(drop).unwrap_err();
        assert!(matches!(error, Error::Incomplete { .. }), "{error:?}");
        let text = error.to_string();
        assert!(!text.contains("newer"), "{text}");
        assert!(
            text.contains("schema version 13") && text.contains("column channel.head_operatorbundle_name"),
            "{text}"
        );
    }
}

/// The variable with the database that [`writer`] changes until a file with the extension `enough` exists.
const WRITTEN: &str = "OPM_TEST_WRITTEN_DATABASE";

/// Changes a database in a separate process; [`copied_while_written`] starts it.
#[test]
#[ignore = "another test starts it"]
fn writer() {
    let database = std::env::var_os(WRITTEN).expect("the other test sets it");
    let enough = Path::new(&database).with_extension("enough");
    let text = "x".repeat(6000);
    let mut number = 0;
    while !enough.exists() {
        let writer = Connection::open(&database).unwrap();
        writer.busy_timeout(Duration::from_secs(60)).unwrap();
        writer.execute_batch("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 20").unwrap();
        for _ in 0..50 {
            number += 1;
            let change = format!(
                "BEGIN IMMEDIATE; INSERT INTO a VALUES ({number}, '{text}'); DELETE FROM a WHERE n < {number} - 40;
                 INSERT INTO b VALUES ({number}, '{text}'); DELETE FROM b WHERE n < {number} - 40; COMMIT"
            );
            writer.execute_batch(&change).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Copies a database repeatedly while another program changes two tables together.
fn copied_while_written(mode: &str) {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let spec = BundleSpec { package: "foo", version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&spec)], AddMode::Replaces).unwrap();
    let setup = Connection::open(&database).unwrap();
    setup.execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE a(n, t); CREATE TABLE b(n, t);")).unwrap();
    drop(setup);
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unchanged::writer", "--ignored"])
        .env(WRITTEN, &database)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let check = || {
        let (mut last, mut changes) = (None, 0);
        for round in 0..150 {
            let saved = scratch.path("saved.db");
            let _ = fs::remove_file(&saved);
            Database::copy(&database)
                .and_then(|copy| copy.publish(&saved))
                .unwrap_or_else(|error| panic!("{mode}, round {round}: {error}"));
            let copy = Connection::open(&saved).unwrap();
            let integrity: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(integrity, "ok", "{mode}, round {round}");
            let sql = "SELECT (SELECT max(n) FROM a), (SELECT max(n) FROM b)";
            let (a, b): (Option<i64>, Option<i64>) =
                copy.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(a, b, "{mode}, round {round}");
            changes += i32::from(a != last);
            last = a;
        }
        assert!(changes > 10, "only {changes} different states were copied");
    };
    let outcome = std::panic::catch_unwind(check);
    fs::write(scratch.path("index.enough"), "").unwrap();
    assert!(other.wait().unwrap().success());
    outcome.unwrap();
}

#[test]
fn a_database_is_copied_consistently_while_it_changes() {
    copied_while_written("DELETE");
}

#[test]
fn a_database_with_a_write_ahead_log_is_copied_consistently() {
    copied_while_written("WAL");
}

#[test]
fn a_write_ahead_log_of_a_killed_program_is_copied_too() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let spec = BundleSpec { package: "foo", version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&spec)], AddMode::Replaces).unwrap();
    let writer = Connection::open(&database).unwrap();
    writer
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF; UPDATE package SET name = 'bar'")
        .unwrap();
    // A killed program leaves the log, but not the shared memory file with its index.
    let left = scratch.path("left");
    fs::create_dir(&left).unwrap();
    for name in ["index.db", "index.db-wal"] {
        fs::copy(scratch.path(name), left.join(name)).unwrap();
    }
    drop(writer);
    let saved = scratch.path("saved.db");
    Database::copy(&left.join("index.db")).unwrap().publish(&saved).unwrap();
    assert!(content(&saved).contains(&"package: bar|stable".to_owned()));
    let mut names: Vec<_> = fs::read_dir(&left).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["index.db", "index.db-wal"], "the copy created or removed a file");
}
