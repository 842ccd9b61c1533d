//! Databases that other programs made, damaged or left in the middle of a change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Writes the database `index.db` as `name`, in the schema of an older version.
fn write_old(env: &TestEnv, name: &str, version: u32) {
    let cascade = if version >= 4 { " ON DELETE CASCADE" } else { "" };
    let old = Connection::open(env.path(name)).unwrap();
    old.execute("ATTACH ?1 AS new", [env.path("index.db").to_str().unwrap()]).unwrap();
    let run = |sql: &str| old.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run(&format!(
        "PRAGMA foreign_keys = OFF; BEGIN;
         CREATE TABLE schema_migrations (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP);
         INSERT INTO schema_migrations(version) VALUES ({version});
         CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT{unique}, bundle TEXT{columns});
         INSERT INTO operatorbundle SELECT name, csv, bundle{copied} FROM new.operatorbundle;
         CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT,
             FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name){cascade});
         CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT,
             PRIMARY KEY(name, package_name),
             FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name){cascade});
         CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT,
             operatorbundle_name TEXT, replaces INTEGER, depth INTEGER,
             FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED,
             FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name){cascade});
         CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL,
             PRIMARY KEY(group_name, version, kind));
         CREATE TABLE api_provider (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER);
         INSERT INTO package SELECT * FROM new.package;
         INSERT INTO channel SELECT * FROM new.channel;
         INSERT INTO channel_entry SELECT * FROM new.channel_entry;",
        unique = if version >= 4 { "" } else { " UNIQUE" },
        columns = if version >= 5 { ", bundlepath TEXT, skiprange TEXT, version TEXT" } else { "" },
        copied = if version >= 5 { ", bundlepath, skiprange, version" } else { "" },
    ));
    if version >= 5 {
        run("CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT);
             CREATE TABLE api_requirer (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER);");
    }
    run("COMMIT");
}

#[test]
fn a_database_of_the_first_schema_keeps_its_bundles() {
    for added in ["bar", "foo"] {
        let env = foo();
        write_bundle(&env, "foo", "1.2.0", "1.1.0");
        write_old(&env, "old.db", 0);
        assert_eq!(bundles(&env, "old.db"), ["foo.v1.0.0", "foo.v1.1.0"]);
        let bundle = if added == "foo" { "./foo-1.2.0" } else { "./bar-1.0.0" };
        env.stdout(&["registry", "add", "-d", "old.db", "-b", bundle]);
        let mut expected = vec!["foo.v1.0.0", "foo.v1.1.0", if added == "foo" { "foo.v1.2.0" } else { "bar.v1.0.0" }];
        expected.sort_unstable();
        assert_eq!(bundles(&env, "old.db"), expected);
        env.stdout(&["migrate", "old.db", "catalog"]);
        assert_eq!(bundles(&env, "catalog"), expected);
        assert!(env.stdout(&["graph", "catalog"]).contains("foo.v1.0.0"));
        // Other programs skip bundles without a path.
        let raw = Connection::open(env.path("old.db")).unwrap();
        let sql = "SELECT count(*) FROM operatorbundle WHERE bundlepath IS NULL OR version IS NULL";
        assert_eq!(raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        // Databases that such programs migrated are read as well.
        raw.execute_batch("UPDATE operatorbundle SET bundlepath = NULL").unwrap();
        drop(raw);
        assert_eq!(bundles(&env, "old.db"), expected);
    }
}

/// Replaces a table by a view that never ends.
fn hide_behind_a_view(database: &Path, version: u32) {
    let raw = Connection::open(database).unwrap();
    raw.execute_batch(&format!(
        "PRAGMA foreign_keys = OFF; UPDATE schema_migrations SET version = {version};
         ALTER TABLE operatorbundle RENAME TO hidden;
         CREATE VIEW operatorbundle AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT 'foo.v' || i AS name, csv, bundle, bundlepath, skiprange, version, replaces, skips, substitutesfor
             FROM n, hidden;"
    ))
    .unwrap();
}

/// Adds a trigger that never ends to a table that migrations and changes write to.
fn add_trigger(database: &Path, name: &str, version: u32) {
    let raw = Connection::open(database).unwrap();
    raw.execute_batch(&format!(
        "UPDATE schema_migrations SET version = {version}; DROP TRIGGER IF EXISTS {name}; CREATE TABLE hidden(x);
         CREATE TRIGGER {name} AFTER DELETE ON schema_migrations BEGIN
             INSERT INTO hidden SELECT hex(randomblob(9000)) FROM channel_entry AS a, channel_entry AS b, properties AS c,
                 properties AS d, channel_entry AS e, channel_entry AS f, channel_entry AS g, channel_entry AS h,
                 properties AS i, properties AS j, properties AS k, properties AS l, properties AS m; END"
    ))
    .unwrap();
}

#[test]
fn what_a_database_defines_does_not_run() {
    for version in [12, 13] {
        let env = foo();
        hide_behind_a_view(&env.path("index.db"), version);
        for arguments in [
            &["render", "index.db"][..],
            &["list", "bundles", "index.db"],
            &["migrate", "index.db", "out"],
            &["registry", "add", "-d", "index.db", "-b", "./bar-1.0.0"],
        ] {
            let shown = env.opm(arguments);
            assert!(shown.starts_with("exit 1\n"), "{arguments:?}: {shown}");
            assert!(
                shown.contains("index.db: not an operator index: operatorbundle is a view, not a table"),
                "{arguments:?}: {shown}"
            );
        }
    }
    for name in ["api_provider_cleanup", "surprise"] {
        let env = foo();
        add_trigger(&env.path("index.db"), name, 12);
        assert_eq!(bundles(&env, "index.db"), ["foo.v1.0.0", "foo.v1.1.0"]);
        env.stdout(&["migrate", "index.db", "out"]);
        let shown = env.opm(&["registry", "add", "-d", "index.db", "-b", "./bar-1.0.0"]);
        if name == "surprise" {
            assert!(shown.starts_with("exit 1\n") && shown.contains("it has the trigger surprise"), "{shown}");
        } else {
            // A trigger with the name of ours is replaced by ours.
            assert!(shown.starts_with("exit 0\n"), "{shown}");
            assert_eq!(bundles(&env, "index.db"), ["bar.v1.0.0", "foo.v1.0.0", "foo.v1.1.0"]);
        }
    }
}

#[test]
fn a_newer_database_is_read_with_a_warning_and_never_changed() {
    let env = foo();
    Connection::open(env.path("index.db")).unwrap().execute_batch("UPDATE schema_migrations SET version = 14").unwrap();
    let before = fs::read(env.path("index.db")).unwrap();
    for arguments in [
        &["render", "index.db"][..],
        &["index", "inspect", "packages", "--database", "index.db"],
        &["operator-registry", "manifest", "index.db"],
    ] {
        let shown = env.opm(arguments);
        assert!(shown.starts_with("exit 0\n"), "{shown}");
        assert!(shown.contains("schema version 14 is newer than the newest supported one (13)"), "{shown}");
    }
    for arguments in [
        &["registry", "add", "-d", "index.db", "-b", "./bar-1.0.0"][..],
        &["registry", "rm", "-d", "index.db", "-o", "foo"],
        &["operator-registry", "delete-latest", "foo", "index.db"],
    ] {
        let shown = env.opm(arguments);
        assert!(shown.starts_with("exit 1\n"), "{shown}");
        assert!(shown.contains("index.db: schema version 14 is newer") && shown.contains("a newer opm"), "{shown}");
    }
    assert_eq!(fs::read(env.path("index.db")).unwrap(), before);
}

#[test]
fn temporary_copies_are_private_and_removed_on_signals() {
    for signal in ["INT", "TERM", "HUP"] {
        let env = foo();
        fs::create_dir(env.path("tmp")).unwrap();
        let copies =
            || -> Vec<_> { fs::read_dir(env.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect() };
        // The copy waits for the lock, next to its directory.
        let lock = Connection::open(env.path("index.db")).unwrap();
        lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let mut command = env.command();
        command.args(["registry", "serve", "-d", "index.db", "-p", "0", "-t", ""]).env("TMPDIR", env.path("tmp"));
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        while copies().is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "opm ended early");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mode = fs::metadata(&copies()[0]).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let killed = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert!(!child.wait().unwrap().success());
        assert_eq!(copies(), Vec::<PathBuf>::new(), "after SIG{signal}");
    }
}

#[test]
fn the_list_of_images_rebuilds_a_database_of_any_mode() {
    for mode in ["replaces", "semver", "semver-skippatch"] {
        let env = TestEnv::new();
        let versions = ["1.0.0", "1.0.1", "1.1.0", "1.1.1"];
        let mut below = "";
        for version in versions {
            write_bundle(&env, "foo", version, if mode == "replaces" { below } else { "" });
            below = version;
        }
        write_bundle(&env, "bar", "1.0.0", "");
        write_bundle(&env, "bar", "1.1.0", "1.0.0");
        let foo = versions.map(|version| format!("./foo-{version}")).join(",");
        env.stdout(&["registry", "add", "-d", "a.db", "--mode", mode, "-b", &foo]);
        env.stdout(&["registry", "add", "-d", "a.db", "-b", "./bar-1.0.0,./bar-1.1.0"]);
        // Directories take the place of images.
        let raw = Connection::open(env.path("a.db")).unwrap();
        raw.execute_batch("UPDATE operatorbundle SET bundlepath = './' || replace(name, '.v', '-')").unwrap();
        drop(raw);
        let list = env.stdout(&["operator-registry", "manifest", "a.db"]);
        let modes = if mode == "replaces" { String::new() } else { format!("\"foo\": \"{mode}\"") };
        assert_eq!(list.contains("\"modes\""), mode != "replaces", "{list}");
        assert!(list.contains(&modes) && !list.contains("\"bar\""), "{list}");
        env.file("list.json", &list);
        let mut add = env.command();
        add.args(["operator-registry", "add", "-", "b.db"]).stdin(fs::File::open(env.path("list.json")).unwrap());
        let output = add.output().unwrap();
        assert!(output.status.success(), "{}", env.show(output));
        for package in ["foo", "bar"] {
            // The path of a directory is not recorded.
            let show = |database| {
                let shown = env.stdout(&["index", "inspect", "package", package, "--database", database]);
                shown.lines().filter(|line| !line.contains("bundlePath")).collect::<String>()
            };
            assert_eq!(show("a.db"), show("b.db"), "{mode}");
        }
    }
    // A list with an unknown mode is rejected.
    let env = foo();
    env.file("list.json", r#"{"bundles": [], "modes": {"foo": "newest"}}"#);
    let mut add = env.command();
    add.args(["operator-registry", "add", "-", "b.db"]).stdin(fs::File::open(env.path("list.json")).unwrap());
    let shown = env.show(add.output().unwrap());
    assert!(shown.contains("Invalid channel update mode newest specified"), "{shown}");
}
