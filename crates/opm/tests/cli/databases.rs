//! Databases that other programs made, damaged or left in the middle of a change.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rusqlite::Connection;

use crate::env::TestEnv;

/// Writes a bundle without an image, in the channel `stable`.
fn write_bundle(env: &TestEnv, package: &str, version: &str, replaces: &str) {
    let replaces = if replaces.is_empty() { String::new() } else { format!("  replaces: {package}.v{replaces}\n") };
    env.file(
        &format!("{package}-{version}/manifests/csv.yaml"),
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  \
             name: {package}.v{version}\nspec:\n  version: {version}\n{replaces}"
        ),
    );
    env.file(
        &format!("{package}-{version}/metadata/annotations.yaml"),
        format!(
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: {package}\n  \
             operators.operatorframework.io.bundle.channels.v1: stable\n"
        ),
    );
}

/// An environment with the database `index.db` of two bundles, and the directory of a third one.
fn foo() -> TestEnv {
    let env = TestEnv::new();
    write_bundle(&env, "foo", "1.0.0", "");
    write_bundle(&env, "foo", "1.1.0", "1.0.0");
    write_bundle(&env, "bar", "1.0.0", "");
    env.stdout(&["registry", "add", "-d", "index.db", "-b", "./foo-1.0.0,./foo-1.1.0"]);
    env
}

fn bundles(env: &TestEnv, database: &str) -> Vec<String> {
    let listed = env.stdout(&["list", "bundles", database, "-o", "csv"]);
    let mut names: Vec<String> =
        listed.lines().skip(1).filter_map(|row| row.split(',').nth(2)).map(str::to_owned).collect();
    names.sort();
    names
}

/// Leaves a database as a killed writer does: with a changed file and the journal that restores it.
fn leave_hot_journal(database: &Path) {
    let parent = database.parent().unwrap();
    let aside = parent.join("aside.db");
    fs::copy(database, &aside).unwrap();
    let writer = Connection::open(&aside).unwrap();
    // A small page cache makes SQLite write pages before the commit.
    writer
        .execute_batch(
            "PRAGMA foreign_keys = OFF; PRAGMA cache_size = 2; BEGIN IMMEDIATE; DELETE FROM channel_entry;
             DELETE FROM operatorbundle; DELETE FROM properties; CREATE TABLE filler(x);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             INSERT INTO filler SELECT randomblob(2000) FROM n;",
        )
        .unwrap();
    fs::copy(&aside, database).unwrap();
    fs::copy(
        parent.join("aside.db-journal"),
        parent.join(format!("{}-journal", database.file_name().unwrap().display())),
    )
    .unwrap();
    drop(writer);
    fs::remove_file(&aside).unwrap();
}

fn integrity(database: &Path) -> String {
    let connection = Connection::open(database).unwrap();
    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap_or_else(|error| error.to_string())
}

#[test]
fn a_change_rolls_back_the_journal_of_a_killed_writer_first() {
    for (arguments, left) in [
        (&["operator-registry", "add", "./bar-1.0.0", "index.db"][..], &["bar.v1.0.0", "foo.v1.0.0", "foo.v1.1.0"][..]),
        (&["operator-registry", "delete-latest", "foo", "index.db"], &["foo.v1.0.0"]),
        (&["registry", "add", "-d", "index.db", "-b", "./bar-1.0.0"], &["bar.v1.0.0", "foo.v1.0.0", "foo.v1.1.0"]),
        (&["index", "rmb", "--mode", "semver", "--database", "index.db", "registry.test/foo:1"], &["foo.v1.0.0"]),
    ] {
        let env = foo();
        let raw = Connection::open(env.path("index.db")).unwrap();
        raw.execute_batch("UPDATE operatorbundle SET bundlepath = 'registry.test/foo:1' WHERE name = 'foo.v1.1.0'")
            .unwrap();
        drop(raw);
        leave_hot_journal(&env.path("index.db"));
        env.stdout(arguments);
        assert_eq!(bundles(&env, "index.db"), left, "{arguments:?}");
        assert_eq!(integrity(&env.path("index.db")), "ok", "{arguments:?}");
    }
}

#[test]
fn a_new_database_does_not_inherit_the_journal_of_a_removed_one() {
    for database in ["index.db", "out.db"] {
        let env = foo();
        leave_hot_journal(&env.path("index.db"));
        if database != "index.db" {
            fs::rename(env.path("index.db-journal"), env.path("out.db-journal")).unwrap();
        }
        fs::remove_file(env.path("index.db")).unwrap();
        let output: &[&str] = if database == "index.db" { &[] } else { &["--output", database] };
        env.stdout(&[&["operator-registry", "add", "./bar-1.0.0", "index.db"], output].concat());
        assert_eq!(bundles(&env, database), ["bar.v1.0.0"]);
        assert_eq!(integrity(&env.path(database)), "ok");
    }
}

#[test]
fn an_output_replaces_the_content_of_a_database_that_a_killed_writer_left() {
    let env = foo();
    env.stdout(&["registry", "add", "-d", "out.db", "-b", "./bar-1.0.0"]);
    leave_hot_journal(&env.path("out.db"));
    env.stdout(&["operator-registry", "delete-latest", "foo", "index.db", "--output", "out.db"]);
    assert_eq!(bundles(&env, "out.db"), ["foo.v1.0.0"]);
    assert_eq!(integrity(&env.path("out.db")), "ok");
    assert_eq!(bundles(&env, "index.db"), ["foo.v1.0.0", "foo.v1.1.0"]);
    env.file("notes.txt", "not a database, although it is long enough for one");
    let shown = env.opm(&["operator-registry", "delete-latest", "foo", "index.db", "--output", "notes.txt"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains("notes.txt: file is not a database"), "{shown}");
}

#[test]
fn commands_that_add_in_parallel_all_add() {
    for before in [false, true] {
        let env = foo();
        let names = ["a", "b", "c", "d", "e", "f"];
        names.iter().for_each(|name| write_bundle(&env, name, "1.0.0", ""));
        if !before {
            fs::remove_file(env.path("index.db")).unwrap();
        }
        let start = |name: &&str| {
            let mut command = env.command();
            command.args(["operator-registry", "add", &format!("./{name}-1.0.0"), "index.db"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let started: Vec<_> = names.iter().map(start).collect();
        for child in started {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", env.show(output));
        }
        let mut expected: Vec<String> = names.iter().map(|name| format!("{name}.v1.0.0")).collect();
        if before {
            expected.extend(["foo.v1.0.0".to_owned(), "foo.v1.1.0".to_owned()]);
        }
        assert_eq!(bundles(&env, "index.db"), expected);
    }
}
