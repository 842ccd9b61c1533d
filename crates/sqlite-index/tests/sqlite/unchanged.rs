//! Changes that fail, and what they leave behind: nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;
use std::{fs, thread};

use rusqlite::Connection;
use sqlite_index::{Database, Error, Mode, Strictness};

use crate::harness::{Made, Place, add, content, options};
use crate::migrations::{bundles, write_old};

#[test]
fn a_failed_add_leaves_no_new_file() {
    let place = Place::new();
    let database = place.path("new/index.db");
    fs::create_dir(place.path("new")).unwrap();
    let missing = sqlite_index::NewBundle { image: "registry.test/x:1".into(), directory: place.path("nowhere") };
    add(&database, std::slice::from_ref(&missing), Mode::Replaces).unwrap_err();
    assert_eq!(fs::read_dir(place.path("new")).unwrap().count(), 0, "a bundle that cannot be read");
    let replaces_nothing =
        Made { package: "foo", version: "1.0.0", channels: "stable", default: "no", ..Made::default() };
    add(&database, &[place.bundle(&replaces_nothing)], Mode::Semver).unwrap_err();
    let left: Vec<_> = fs::read_dir(place.path("new")).unwrap().flatten().collect();
    assert!(left.is_empty(), "a bundle that cannot be added: {left:?}");
    let remove = |database: &Database| database.remove_packages(&["foo".into()], Strictness::Strict);
    remove(&Database::write(&database).unwrap()).map(drop).unwrap_err();
    assert_eq!(fs::read_dir(place.path("new")).unwrap().count(), 0, "a package that is not there");
    drop(Database::write(&database).unwrap());
    assert_eq!(fs::read_dir(place.path("new")).unwrap().count(), 0, "nothing was changed");
}

#[test]
fn a_failed_change_of_an_older_database_does_not_migrate_it() {
    let place = Place::new();
    let new = place.path("new.db");
    add(&new, &bundles(&place), Mode::Replaces).unwrap();
    for version in [0, 5, 12] {
        let old = place.path("old.db");
        let _ = fs::remove_file(&old);
        write_old(&new, &old, version);
        let before = fs::read(&old).unwrap();
        let missing = sqlite_index::NewBundle { image: "registry.test/x:1".into(), directory: place.path("nowhere") };
        add(&old, std::slice::from_ref(&missing), Mode::Replaces).unwrap_err();
        let made = Made { package: "foo", version: "9.0.0", channels: "stable", ..Made::default() };
        let stranded = place.bundle(&Made { spec: "  replaces: foo.v8.0.0\n", ..made });
        add(&old, &[stranded], Mode::Replaces).unwrap_err();
        let remove = Database::write(&old).unwrap().remove_packages(&["none".into()], Strictness::Strict);
        remove.map(drop).unwrap_err();
        assert!(fs::read(&old).unwrap() == before, "version {version}");
        // What works migrates and changes it at once, keys included.
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
fn two_programs_can_migrate_one_database_at_the_same_time() {
    let place = Place::new();
    let new = place.path("new.db");
    add(&new, &bundles(&place), Mode::Replaces).unwrap();
    let old = place.path("old.db");
    write_old(&new, &old, 5);
    // Both have seen the old version when the lock goes.
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
    assert_eq!(Database::read(&old).unwrap().version().unwrap(), sqlite_index::VERSION);
}

#[test]
fn two_programs_can_make_one_database_at_the_same_time() {
    let place = Place::new();
    let database = place.path("index.db");
    let made = |package| Made { package, version: "1.0.0", channels: "stable", ..Made::default() };
    let given = ["a", "b", "c", "d"].map(|package| place.bundle(&made(package)));
    thread::scope(|scope| {
        for bundle in &given {
            scope.spawn(|| add(&database, std::slice::from_ref(bundle), Mode::Replaces).unwrap());
        }
        // Those who fail beside them take nothing along.
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
fn making_a_database_beside_failing_changes_succeeds_every_time() {
    let made = |package| Made { package, version: "1.0.0", channels: "stable", ..Made::default() };
    let place = Place::new();
    let given = ["a", "b"].map(|package| place.bundle(&made(package)));
    for round in 0..30 {
        let database = place.path(&format!("{round}.db"));
        let left = place.path(".opm-new-index-killed.db-journal");
        std::fs::write(&left, "of a program that was killed").unwrap();
        thread::scope(|scope| {
            for bundle in &given {
                scope.spawn(|| add(&database, std::slice::from_ref(bundle), Mode::Replaces).unwrap());
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
fn what_is_forgiven_still_makes_a_database() {
    let place = Place::new();
    let database = place.path("index.db");
    let forgiving = sqlite_index::AddOptions { strictness: Strictness::Permissive, ..options(Mode::Semver) };
    let wrong = Made { package: "foo", version: "1.0.0", channels: "stable", default: "no", ..Made::default() };
    let added = Database::write(&database).unwrap().add(&[place.bundle(&wrong)], &forgiving).unwrap();
    assert_eq!(added.skipped.len(), 1, "{:?}", added.skipped);
    assert_eq!(Database::read(&database).unwrap().version().unwrap(), sqlite_index::VERSION);
}

#[test]
fn a_database_that_lacks_a_column_of_its_own_version_is_told_so() {
    let place = Place::new();
    let database = place.path("index.db");
    let made = Made { package: "foo", version: "1.0.0", channels: "stable", ..Made::default() };
    add(&database, &[place.bundle(&made)], Mode::Replaces).unwrap();
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

/// Names the database that [`writer`] writes to until there is a file beside it that says it is enough.
const WRITTEN: &str = "OPM_TEST_WRITTEN_DATABASE";

/// Not a test of its own: the other program of [`copied_while_written`].
#[test]
fn writer() {
    let Some(database) = std::env::var_os(WRITTEN) else { return };
    let enough = Path::new(&database).with_extension("enough");
    let text = "x".repeat(6000);
    let mut turn = 0;
    while !enough.exists() {
        let writer = Connection::open(&database).unwrap();
        writer.busy_timeout(Duration::from_secs(60)).unwrap();
        writer.execute_batch("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 20").unwrap();
        for _ in 0..50 {
            turn += 1;
            let change = format!(
                "BEGIN IMMEDIATE; INSERT INTO a VALUES ({turn}, '{text}'); DELETE FROM a WHERE n < {turn} - 40;
                 INSERT INTO b VALUES ({turn}, '{text}'); DELETE FROM b WHERE n < {turn} - 40; COMMIT"
            );
            writer.execute_batch(&change).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Copies a database again and again while another program changes two tables together.
fn copied_while_written(mode: &str) {
    let place = Place::new();
    let database = place.path("index.db");
    let made = Made { package: "foo", version: "1.0.0", channels: "stable", ..Made::default() };
    add(&database, &[place.bundle(&made)], Mode::Replaces).unwrap();
    let setup = Connection::open(&database).unwrap();
    setup.execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE a(n, t); CREATE TABLE b(n, t);")).unwrap();
    drop(setup);
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unchanged::writer"])
        .env(WRITTEN, &database)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let check = || {
        let (mut last, mut changes) = (None, 0);
        for round in 0..150 {
            let saved = place.path("saved.db");
            let _ = fs::remove_file(&saved);
            Database::save(&database, &saved).unwrap_or_else(|error| panic!("{mode}, round {round}: {error}"));
            let copy = Connection::open(&saved).unwrap();
            let whole: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(whole, "ok", "{mode}, round {round}");
            let sql = "SELECT (SELECT max(n) FROM a), (SELECT max(n) FROM b)";
            let (a, b): (Option<i64>, Option<i64>) =
                copy.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(a, b, "{mode}, round {round}");
            changes += i32::from(a != last);
            last = a;
        }
        assert!(changes > 10, "{changes} states were seen");
    };
    let outcome = std::panic::catch_unwind(check);
    fs::write(place.path("index.enough"), "").unwrap();
    assert!(other.wait().unwrap().success());
    outcome.unwrap();
}

#[test]
fn a_database_that_is_written_is_copied_whole() {
    copied_while_written("DELETE");
}

#[test]
fn a_database_with_its_changes_in_a_file_of_their_own_is_copied_whole() {
    copied_while_written("WAL");
}

#[test]
fn what_a_killed_program_left_in_a_file_of_its_own_is_copied_too() {
    let place = Place::new();
    let database = place.path("index.db");
    let made = Made { package: "foo", version: "1.0.0", channels: "stable", ..Made::default() };
    add(&database, &[place.bundle(&made)], Mode::Replaces).unwrap();
    let writer = Connection::open(&database).unwrap();
    writer
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF; UPDATE package SET name = 'bar'")
        .unwrap();
    // As it is when the program is gone and its index of the changes with it.
    let left = place.path("left");
    fs::create_dir(&left).unwrap();
    for name in ["index.db", "index.db-wal"] {
        fs::copy(place.path(name), left.join(name)).unwrap();
    }
    drop(writer);
    let saved = place.path("saved.db");
    Database::save(&left.join("index.db"), &saved).unwrap();
    assert!(content(&saved).contains(&"package: bar|stable".to_owned()));
    let mut names: Vec<_> = fs::read_dir(&left).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["index.db", "index.db-wal"], "nothing came or went");
}
