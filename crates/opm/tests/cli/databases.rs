//! Databases that other programs made, damaged or left in the middle of a change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
fn commands_that_create_a_database_in_parallel_all_add_to_it() {
    let env = TestEnv::new();
    let names = ["a", "b", "c", "d", "e", "f"];
    let start = |name: &&str| {
        write_bundle(&env, name, "1.0.0", "");
        let mut command = env.command();
        command.args(["operator-registry", "add", &format!("./{name}-1.0.0"), "index.db"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = names.iter().map(start).collect();
    for child in started {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", env.show(output));
    }
    assert_eq!(bundles(&env, "index.db"), names.map(|name| format!("{name}.v1.0.0")));
}

/// Writes a database as `target`, in the schema of an older version.
fn write_old(database: &Path, target: &Path, version: u32) {
    let cascade = if version >= 4 { " ON DELETE CASCADE" } else { "" };
    let old = Connection::open(target).unwrap();
    old.execute("ATTACH ?1 AS new", [database.to_str().unwrap()]).unwrap();
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
        write_old(&env.path("index.db"), &env.path("old.db"), 0);
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
        assert_eq!(env.stdout(&["operator-registry", "manifest", "a.db", "-o", "/dev/stdout"]), list);
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

/// What a command does with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It reads the database, and ends with this code.
    Reads(i32),
    Writes,
    /// It takes only file-based catalogs, and reports this.
    Rejects(&'static str),
}
use Class::{Reads, Rejects, Writes};

/// The commands that take the path of a database. `{n}` is a number below six: the commands with different numbers can
/// run in parallel.
#[rustfmt::skip]
const COMMANDS: &[(Class, &str)] = &[
    (Reads(0), "render index.db"),
    (Reads(0), "list packages index.db"),
    (Reads(0), "list channels index.db"),
    (Reads(0), "list bundles index.db"),
    (Reads(0), "graph index.db"),
    (Reads(0), "diff index.db index.db"),
    (Reads(0), "migrate index.db out"),
    (Reads(0), "edit filter index.db --package p0 --to out"),
    (Reads(0), "edit merge index.db index.db --to out"),
    (Reads(0), "resolve index.db --install p0"),
    (Reads(0), "upgrade-path index.db p0 --from 1.0.0"),
    (Reads(0), "why index.db p0"),
    // It reports that a bundle without deployments cannot be installed.
    (Reads(1), "rehearse index.db p0"),
    (Reads(0), "alpha list bundles index.db"),
    (Reads(0), "alpha render-graph index.db"),
    (Reads(0), "alpha diff index.db"),
    (Reads(0), "index inspect packages --database index.db"),
    (Reads(0), "index inspect package p0 --database index.db"),
    (Reads(0), "registry serve -d index.db -p 0 -t none --timeout-seconds 0"),
    (Reads(0), "operator-registry manifest index.db"),
    (Writes, "registry add -d index.db -b ./q{n}-1.0.0"),
    (Writes, "registry rm -d index.db -o p{n}"),
    (Writes, "registry prune -d index.db -p p{n}"),
    (Writes, "registry prune-stranded -d index.db"),
    (Writes, "registry deprecatetruncate -d index.db -b registry.test/p{n}:1.0"),
    (Writes, "index rmb --mode semver --database index.db registry.test/p{n}:1.2"),
    (Writes, "operator-registry add ./q{n}-1.0.0 index.db"),
    (Writes, "operator-registry delete p{n} index.db"),
    (Writes, "operator-registry delete-latest p{n} index.db"),
    (Writes, "operator-registry initializer -m manifests-{n} -o index.db"),
    (Rejects("already exists"), "operator-registry create index.db"),
    (Reads(0), "validate index.db"),
    (Rejects("opm registry serve -d index.db"), "serve index.db"),
    (Reads(0), "check-upgrades index.db index.db"),
    (Reads(0), "site build index.db --to out"),
    (Rejects(""), "security index.db"),
    (Rejects(""), "crd-diff index.db"),
];

/// The commands that take the database of an image, here `oci:image`. `{n}` is a number as above.
#[rustfmt::skip]
const IMAGE_COMMANDS: &[(Class, &str)] = &[
    (Reads(0), "list bundles oci:image"),
    (Reads(0), "unpack oci:image --unpack-dir out"),
    (Reads(0), "index export -i oci:image -p q5 -f out"),
    (Reads(0), "index inspect packages --from-index oci:image"),
    (Reads(0), "index inspect package p0 --from-index oci:image"),
    (Writes, "index add -f oci:image -b ./q{n}-1.0.0 --generate"),
    (Writes, "index rm -f oci:image -o p{n} --generate"),
    (Writes, "index prune -f oci:image -p p{n} --generate"),
    (Writes, "index prune-stranded -f oci:image --generate"),
    (Writes, "index deprecatetruncate -f oci:image -b registry.test/p{n}:1.0 --generate"),
    (Writes, "index rmb --mode semver -f oci:image registry.test/p{n}:1.2 --generate"),
];

/// The other commands: they take no database.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "init", "template render", "template convert basic", "template convert substitutes", "generate dockerfile", "build",
    "bundle generate", "bundle build", "bundle validate", "bundle unpack", "bundle extract",
    "registry doctor", "copy", "mirror plan",
    "mirror pull", "mirror push", "mirror copy", "mirror verify", "mirror prune", "verify", "edit add-bundle",
    "edit promote", "edit set-default", "edit set-edge", "edit deprecate", "edit remove", "schema", "explain", "preview",
    "catalog apply", "catalog status", "catalog list", "catalog delete", "controller manifests", "run bundle",
    "run bundle-upgrade", "cleanup", "completion", "man", "version", "operator-registry configmap",
    "operator-registry serve",
];

/// What happens to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The command succeeds and has the usual effect.
    Done,
    /// It succeeds with a warning.
    Warns(&'static str),
    /// It fails with this message, and the database stays as it is.
    Fails(&'static str),
}
use Outcome::{Done, Fails, Warns};

/// A kind of databases: how it is created from a good one, what commands that read and write do with it, and the commands
/// that do something else.
struct Kind {
    name: &'static str,
    create: fn(&Path),
    reads: Outcome,
    writes: Outcome,
    except: &'static [(&'static str, Outcome)],
}

impl Kind {
    /// Returns what happens if a command does something else than most.
    fn exception(&self, command: &str) -> Option<Outcome> {
        let is_named = |name: &str| command.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
        self.except.iter().find(|(name, _)| is_named(name)).map(|(_, outcome)| *outcome)
    }
}

const NEWER: &str = "schema version 14 is newer than the newest supported one (13)";
const LOCKED: &str = "index.db: database is locked: another program is changing it";
const READ_ONLY: &str = "index.db: the database is read-only";
const VIEW: &str = "index.db: not an operator index: operatorbundle is a view, not a table";
const TRIGGER: &str = "index.db: not an operator index: it has the trigger surprise";
const DAMAGED: &str = "index.db: database is damaged or truncated";

const KINDS: &[Kind] = &[
    Kind {
        name: "schema 0",
        create: |database| as_old(database, 0),
        reads: Done,
        writes: Done,
        // The first schema has no images.
        except: &[
            ("registry deprecatetruncate", Fails("missing from registry: [registry.test/p0:1.0]")),
            ("index rmb", Fails("bundle image registry.test/p0:1.2 not in index")),
        ],
    },
    Kind { name: "schema 5", create: |database| as_old(database, 5), reads: Done, writes: Done, except: &[] },
    Kind { name: "schema 13", create: |_| {}, reads: Done, writes: Done, except: &[] },
    Kind {
        name: "schema 14",
        create: |database| sql(database, "UPDATE schema_migrations SET version = 14"),
        reads: Warns(NEWER),
        writes: Fails(NEWER),
        except: &[],
    },
    Kind { name: HOT_JOURNAL, create: leave_hot_journal, reads: Done, writes: Done, except: &[] },
    Kind { name: "WAL", create: leave_wal, reads: Done, writes: Done, except: &[] },
    // The test locks it.
    Kind { name: LOCKED_KIND, create: |_| {}, reads: Fails(LOCKED), writes: Fails(LOCKED), except: &[] },
    Kind { name: "read-only", create: forbid_writing, reads: Done, writes: Fails(READ_ONLY), except: &[] },
    Kind {
        name: "hostile view",
        create: |database| hide_behind_a_view(database, 12),
        reads: Fails(VIEW),
        writes: Fails(VIEW),
        except: &[],
    },
    Kind {
        name: "hostile trigger",
        create: |database| add_trigger(database, "surprise", 12),
        reads: Done,
        writes: Fails(TRIGGER),
        except: &[],
    },
    Kind { name: "truncated", create: truncate, reads: Fails(DAMAGED), writes: Fails(DAMAGED), except: &[] },
    Kind {
        name: "empty",
        create: empty,
        reads: Done,
        writes: Fails("no package found for packagename p0"),
        except: &[
            ("edit filter", Fails("the catalog has no package \"p0\"")),
            ("resolve", Fails("has no package \"p0\"")),
            ("upgrade-path", Fails("no package or bundle \"p0\"")),
            ("why", Fails("no package or bundle \"p0\"")),
            ("rehearse", Fails("is not a bundle")),
            ("site build", Fails("\"index.db\" contains no catalog")),
            ("index inspect package", Fails("package \"p0\" not found in index")),
            ("index export", Fails("package \"q5\" not found in index")),
            ("registry add", Done),
            ("registry prune", Done),
            ("registry prune-stranded", Done),
            ("registry deprecatetruncate", Fails("missing from registry: [registry.test/p0:1.0]")),
            ("index rmb", Fails("bundle image registry.test/p0:1.2 not in index")),
            ("operator-registry add", Done),
            ("operator-registry initializer", Done),
        ],
    },
];

const LOCKED_KIND: &str = "locked";
const HOT_JOURNAL: &str = "hot journal";

fn sql(database: &Path, sql: &str) {
    Connection::open(database).unwrap().execute_batch(sql).unwrap();
}

fn as_old(database: &Path, version: u32) {
    let new = database.with_extension("new");
    fs::rename(database, &new).unwrap();
    write_old(&new, database, version);
    fs::remove_file(new).unwrap();
}

/// Leaves a database as a killed program does that used a write-ahead log: with the log, but without its index.
fn leave_wal(database: &Path) {
    let aside = database.with_extension("aside");
    let writer = Connection::open(database).unwrap();
    // The log makes the database longer than its file.
    let changes = "PRAGMA journal_mode = WAL; CREATE TABLE padding AS SELECT zeroblob(200000);
        INSERT INTO operatorbundle(name) VALUES ('in the log')";
    writer.execute_batch(changes).unwrap();
    let log = database.with_extension("db-wal");
    fs::copy(database, &aside).unwrap();
    fs::copy(&log, aside.with_extension("aside-wal")).unwrap();
    drop(writer);
    fs::rename(&aside, database).unwrap();
    fs::rename(aside.with_extension("aside-wal"), log).unwrap();
}

/// Sets the version for writers to one that SQLite does not know: it then only reads the file, whoever the user is.
fn forbid_writing(database: &Path) {
    let mut bytes = fs::read(database).unwrap();
    bytes[18] = 3;
    fs::write(database, bytes).unwrap();
    fs::set_permissions(database, fs::Permissions::from_mode(0o444)).unwrap();
}

fn truncate(database: &Path) {
    let file = fs::File::options().write(true).open(database).unwrap();
    file.set_len(fs::metadata(database).unwrap().len() / 2).unwrap();
}

fn empty(database: &Path) {
    fs::remove_file(database).unwrap();
    sql(database, "VACUUM");
}

/// Writes an environment for [`COMMANDS`]: a database with six packages of three bundles and a stranded bundle, bundles
/// to add, and manifests to load.
fn write_packages(env: &TestEnv) {
    let mut directories = Vec::new();
    for n in 0..6 {
        for (version, replaces) in [("1.0.0", ""), ("1.1.0", "1.0.0"), ("1.2.0", "1.1.0")] {
            write_bundle(env, &format!("p{n}"), version, replaces);
            directories.push(format!("./p{n}-{version}"));
        }
        write_bundle(env, &format!("q{n}"), "1.0.0", "");
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: m{n}.v1.0.0\n\
             spec:\n  version: 1.0.0\n"
        );
        env.file(&format!("manifests-{n}/1.0.0/csv.yaml"), csv);
        let package = format!("packageName: m{n}\nchannels:\n- name: stable\n  currentCSV: m{n}.v1.0.0\n");
        env.file(&format!("manifests-{n}/package.yaml"), package);
    }
    env.stdout(&["registry", "add", "-d", "index.db", "-b", &directories.join(",")]);
    // The middle bundle has no image, so that it keeps its manifests and can become the head.
    sql(
        &env.path("index.db"),
        "UPDATE operatorbundle SET bundlepath = 'registry.test/' || replace(substr(name, 1, length(name) - 2), '.v', ':')
             WHERE version <> '1.1.0';
         INSERT INTO operatorbundle(name, version, bundlepath) VALUES ('stranded.v1.0.0', '1.0.0', 'registry.test/s:1')",
    );
}

/// Returns the names and the content of a database and its journals.
fn files(env: &TestEnv) -> Vec<(String, Vec<u8>)> {
    let names = env.names(".").into_iter().filter(|name| name.starts_with("index.db"));
    names.map(|name| (name.clone(), fs::read(env.path(&name)).unwrap())).collect()
}

/// Checks one cell of the table: a command and a kind of databases. Returns what is wrong.
fn check(env: &TestEnv, kind: &Kind, class: Class, command: &str) -> Option<String> {
    let (expected, code) = match class {
        Reads(code) => (kind.reads, code),
        Writes => (kind.writes, 0),
        Rejects(message) => (Fails(message), 0),
    };
    let expected = kind.exception(command).unwrap_or(expected);
    let before = files(env);
    // Reading the file in this process would drop its locks.
    let lock = (kind.name == LOCKED_KIND).then(|| Connection::open(env.path("index.db")).unwrap());
    lock.iter().for_each(|lock| lock.execute_batch("BEGIN EXCLUSIVE").unwrap());
    let output = env.command().args(command.split(' ')).output().unwrap();
    drop(lock);
    let (ended, changed) = (output.status.code(), files(env) != before);
    let shown = env.show(output);
    let as_expected = match expected {
        Done => ended == Some(code) && changed == (class == Writes),
        Warns(message) => ended == Some(code) && !changed && shown.contains(message),
        Fails(message) => {
            let failed = ended == Some(1) || ended == Some(2) && matches!(class, Rejects(_));
            failed && !changed && shown.contains(message)
        }
    };
    let seen = if changed { "the database changed" } else { "the database did not change" };
    let shown: String = shown.lines().filter(|line| !line.starts_with([' ', '{', '}'])).take(20).collect();
    (!as_expected).then(|| format!("{}: {command}: expected {expected:?}, {seen}\n{shown}", kind.name))
}

#[test]
fn every_command_handles_every_kind_of_databases() {
    let base = TestEnv::new();
    write_packages(&base);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let of_kind = |kind: &'static Kind| {
            let base = &base;
            scope.spawn(move || -> Vec<String> {
                let cell = |(class, command): &(Class, &str)| {
                    let env = base.clone_of(&["q0-1.0.0", "manifests-0", "index.db"]);
                    (kind.create)(&env.path("index.db"));
                    check(&env, kind, *class, &command.replace("{n}", "0"))
                };
                if kind.name != LOCKED_KIND {
                    return COMMANDS.iter().filter_map(cell).collect();
                }
                // These wait for the lock.
                std::thread::scope(|scope| {
                    let cells: Vec<_> = COMMANDS.iter().map(|command| scope.spawn(move || cell(command))).collect();
                    cells.into_iter().filter_map(|cell| cell.join().unwrap()).collect()
                })
            })
        };
        let kinds: Vec<_> = KINDS.iter().map(of_kind).collect();
        kinds.into_iter().flat_map(|kind| kind.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}

/// Builds an image of the database `index.db` and its journals.
fn write_image(env: &TestEnv, to: &str) {
    let scratch = TestEnv::new();
    let store = image::Store::open(&scratch.path("store")).unwrap();
    let mut layer = image::Layer::new();
    for name in env.names(".").iter().filter(|name| name.starts_with("index.db")) {
        layer.file(&format!("/database/{name}"), &env.path(name), 0o644).unwrap();
    }
    let layer = layer.write(&store, 0, &|_| {}).unwrap();
    let label = ("operators.operatorframework.io.index.database.v1".to_owned(), "/database/index.db".to_owned());
    let plan = image::ImagePlan { labels: [label].into(), ..image::ImagePlan::default() };
    let built = image::build(&store, &plan, &[layer], None).unwrap();
    let mut options = image::ClientOptions::new(store);
    options.environment = image::Environment::isolated(&scratch.path("etc"), &[]);
    let place = image::Location::parse(&format!("oci:{}", env.path(to).display())).unwrap();
    image::Client::new(options).unwrap().push(&built.digest, &place).unwrap();
}

/// Returns the names of the files below a directory, with their digests.
fn tree(directory: &Path) -> Vec<(PathBuf, image::Digest)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            found.extend(tree(&path).into_iter().map(|(below, digest)| (name.join(below), digest)));
        } else {
            found.push((name, image::Digest::of(&fs::read(&path).unwrap())));
        }
    }
    found.sort();
    found
}

/// Checks one cell of the table: a command and an image of a kind of databases. Returns what is wrong. `usual` are the
/// bundles after the same command with a good database.
fn check_image(env: &TestEnv, kind: &Kind, class: Class, command: &str, usual: Option<&[String]>) -> Option<String> {
    let expected = match (class, kind.name) {
        // An image contains no lock.
        (_, LOCKED_KIND) => Done,
        // Only the named file leaves an image. Without the journal its content is known to be damaged.
        (_, HOT_JOURNAL) => Fails(DAMAGED),
        // Without the log the database is one of the past.
        (_, "WAL") => Fails("index.db-wal has changes that are not in the database"),
        (Writes, _) => kind.writes,
        _ => kind.reads,
    };
    // `opm index` does with an image what `opm registry` does with a file.
    let on_file = command.replacen("index", "registry", 1);
    let expected = kind.exception(command).or_else(|| kind.exception(&on_file)).unwrap_or(expected);
    let (before, names) = (tree(&env.path("image")), env.names("."));
    fs::create_dir(env.path("tmp")).unwrap();
    let output = env.command().env("TMPDIR", env.path("tmp")).args(command.split(' ')).output().unwrap();
    let left = env.names("tmp");
    fs::remove_dir(env.path("tmp")).ok();
    let ended = output.status.code();
    let shown = env.show(output);
    let new: Vec<String> = env.names(".").into_iter().filter(|name| !names.contains(name)).collect();
    let outputs: &[&str] = match (expected, class) {
        (Fails(_), _) => &[],
        (_, Writes) => &["database", "index.Dockerfile"],
        _ if command.contains(" out") => &["out"],
        _ => &[],
    };
    let mut wrong = match expected {
        Done => ended != Some(0),
        Warns(message) => ended != Some(0) || !shown.contains(message),
        Fails(message) => ended != Some(1) || !shown.contains(message),
    };
    wrong |= new != outputs || !left.is_empty() || tree(&env.path("image")) != before;
    let mut written = Vec::new();
    if !wrong && outputs.contains(&"database") {
        written = bundles(env, "database/index.db");
        wrong = integrity(&env.path("database/index.db")) != "ok" || usual.is_some_and(|usual| written != usual);
    }
    let shown: String = shown.lines().filter(|line| !line.starts_with([' ', '{', '}'])).take(20).collect();
    wrong.then(|| {
        format!("{}: {command}: expected {expected:?}, wrote {new:?} {written:?}, left {left:?}\n{shown}", kind.name)
    })
}

#[test]
fn every_command_handles_images_of_every_kind_of_databases() {
    let base = TestEnv::new();
    write_packages(&base);
    base.stdout(&["registry", "add", "-d", "index.db", "-b", "./q5-1.0.0"]);
    let clone = |kind: &Kind| {
        let env = base.clone_of(&["q0-1.0.0", "index.db"]);
        (kind.create)(&env.path("index.db"));
        write_image(&env, "image");
        env
    };
    let good = clone(KINDS.iter().find(|kind| kind.name == "schema 13").unwrap());
    let usual: Vec<Option<Vec<String>>> = IMAGE_COMMANDS
        .iter()
        .map(|(class, command)| {
            let env = good.clone_of(&["q0-1.0.0", "image"]);
            (*class == Writes).then(|| {
                env.stdout(&command.replace("{n}", "0").split(' ').collect::<Vec<_>>());
                bundles(&env, "database/index.db")
            })
        })
        .collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let of_kind = |kind: &'static Kind| {
            let (clone, usual) = (&clone, &usual);
            scope.spawn(move || -> Vec<String> {
                let original = clone(kind);
                let cell = |((class, command), usual): (&(Class, &str), &Option<Vec<String>>)| {
                    let env = original.clone_of(&["q0-1.0.0", "image"]);
                    let usual = usual.as_deref().filter(|_| kind.name != "empty");
                    check_image(&env, kind, *class, &command.replace("{n}", "0"), usual)
                };
                IMAGE_COMMANDS.iter().zip(usual).filter_map(cell).collect()
            })
        };
        let kinds: Vec<_> = KINDS.iter().map(of_kind).collect();
        kinds.into_iter().flat_map(|kind| kind.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_command_is_in_the_table_of_databases() {
    let env = TestEnv::new();
    let mut found = [env.commands(&[]), env.commands(&["operator-registry"])].concat();
    assert!(found.len() > 60, "{found:?}");
    let is_listed = |command: &String| {
        let all = COMMANDS.iter().chain(IMAGE_COMMANDS);
        OTHERS.contains(&command.as_str()) || all.into_iter().any(|(_, used)| used.starts_with(&format!("{command} ")))
    };
    found.retain(|command| !is_listed(command));
    assert!(found.is_empty(), "not in COMMANDS or OTHERS: {found:?}");
}

/// Returns the content of a database as text.
fn content(env: &TestEnv) -> String {
    assert_eq!(integrity(&env.path("index.db")), "ok");
    let raw = Connection::open(env.path("index.db")).unwrap();
    let list = "SELECT group_concat(name, ' ') FROM (SELECT name FROM operatorbundle ORDER BY name)";
    let stored: Option<String> = raw.query_row(list, [], |row| row.get(0)).unwrap();
    format!("{}{}", stored.unwrap_or_default(), env.stdout(&["list", "bundles", "index.db", "-o", "csv"]))
}

/// Returns the command lines of a command that writes, for all numbers.
fn numbered(command: &str) -> Vec<Vec<String>> {
    (0..6).map(|n| command.replace("{n}", &n.to_string()).split(' ').map(str::to_owned).collect()).collect()
}

fn writers(commands: &'static [(Class, &str)]) -> impl Iterator<Item = &'static str> {
    commands.iter().filter(|(class, _)| *class == Writes).map(|(_, command)| *command)
}

#[test]
fn commands_that_write_in_parallel_have_the_effect_of_all() {
    let base = TestEnv::new();
    write_packages(&base);
    for command in writers(COMMANDS) {
        let (one, all) = (base.clone_of(&["."]), base.clone_of(&["."]));
        for output in run_all(&all, command) {
            assert!(output.status.success(), "{command}: {}", all.show(output));
        }
        for arguments in numbered(command) {
            one.stdout(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        }
        assert_eq!(content(&all), content(&one), "{command}");
    }
}

#[test]
fn a_killed_command_leaves_the_database_before_or_after_its_change() {
    let base = TestEnv::new();
    write_packages(&base);
    let before = content(&base);
    let rounds = testkit::kill_rounds().div_ceil(5);
    for (place, command) in (0..).zip(writers(COMMANDS)) {
        let arguments = &numbered(command)[0];
        let done = base.clone_of(&["."]);
        let start = std::time::Instant::now();
        done.stdout(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let (whole, after) = (start.elapsed(), content(&done));
        assert_ne!(before, after, "{command}");
        for round in 0..rounds {
            let env = base.clone_of(&["q0-1.0.0", "manifests-0", "index.db"]);
            let mut child = env.command().args(arguments).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole.mul_f64(((round + place) * 37 % 100) as f64 / 100.0));
            let _ = child.kill();
            child.wait().unwrap();
            let now = content(&env);
            assert!(now == before || now == after, "{command}, round {round}: {now}");
        }
    }
}

/// Runs a command with all numbers in parallel, and returns the outcome of each.
fn run_all(env: &TestEnv, command: &str) -> Vec<Output> {
    let start = |arguments: &Vec<String>| {
        env.command().args(arguments).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = numbered(command).iter().map(start).collect();
    started.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// An environment with the image of a database.
fn with_image() -> TestEnv {
    let env = TestEnv::new();
    write_packages(&env);
    write_image(&env, "image");
    fs::remove_file(env.path("index.db")).unwrap();
    env
}

/// Returns the content of a generated database as text.
fn generated(env: &TestEnv) -> String {
    fs::copy(env.path("database/index.db"), env.path("index.db")).unwrap();
    let content = content(env);
    fs::remove_file(env.path("index.db")).unwrap();
    content
}

#[test]
fn one_of_several_commands_that_generate_the_same_files_succeeds() {
    let base = with_image();
    let image = tree(&base.path("image"));
    for command in writers(IMAGE_COMMANDS) {
        let (one, all) = (base.clone_of(&["."]), base.clone_of(&["."]));
        let before = all.names(".");
        let outcomes = run_all(&all, command);
        let winners: Vec<usize> = (0..6).filter(|n| outcomes[*n].status.success()).collect();
        let shown: Vec<String> = outcomes.into_iter().map(|output| all.show(output)).collect();
        assert_eq!(winners.len(), 1, "{command}: {shown:?}");
        let refused = shown.iter().filter(|shown| shown.contains("database/index.db already exists")).count();
        assert_eq!(refused, 5, "{command}: {shown:?}");
        one.stdout(&numbered(command)[winners[0]].iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(generated(&all), generated(&one), "{command}");
        assert_eq!(all.read("index.Dockerfile"), one.read("index.Dockerfile"));
        assert_eq!(tree(&all.path("image")), image, "{command}");
        let new: Vec<String> = all.names(".").into_iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(new, ["database", "index.Dockerfile"], "{command}");
    }
}

#[test]
fn commands_that_build_images_in_parallel_build_what_each_builds_alone() {
    let base = with_image();
    let image = tree(&base.path("image"));
    for command in writers(IMAGE_COMMANDS) {
        let to = "--container-tool none --binary-image scratch --image-output oci:out";
        let command = command.replace("--generate", to);
        let digests = |env: &TestEnv, outcomes: Vec<Output>| -> Vec<String> {
            let digest = |output: Output| {
                assert!(output.status.success(), "{command}: {}", env.show(output));
                String::from_utf8(output.stdout).unwrap().trim().to_owned()
            };
            outcomes.into_iter().map(digest).collect()
        };
        let alone = |arguments: Vec<String>| {
            let env = base.clone_of(&["."]);
            let output = env.command().args(arguments).output().unwrap();
            digests(&env, vec![output])
        };
        let expected: Vec<String> = numbered(&command).into_iter().flat_map(alone).collect();
        let all = base.clone_of(&["."]);
        assert_eq!(digests(&all, run_all(&all, &command)), expected, "{command}");
        // The layout has all of them.
        let index: image::ImageIndex = serde_json::from_str(&all.read("out/index.json")).unwrap();
        let mut found: Vec<String> = index.manifests.iter().map(|image| image.digest.to_string()).collect();
        let mut built = expected;
        for digests in [&mut found, &mut built] {
            digests.sort();
            digests.dedup();
        }
        assert_eq!(found, built, "{command}");
        let blobs = tree(&all.path("out/blobs/sha256"));
        assert!(blobs.iter().all(|(name, digest)| name.as_os_str() == digest.hex().as_str()), "{command}: {blobs:?}");
        for image in index.manifests {
            let manifest = all.read(&format!("out/blobs/sha256/{}", image.digest.hex()));
            let manifest: image::ImageManifest = serde_json::from_str(&manifest).unwrap();
            let mut parts = manifest.layers.iter().chain([&manifest.config]);
            assert!(
                parts.all(|part| blobs.iter().any(|(_, digest)| *digest == part.digest)),
                "{command}: {manifest:?}"
            );
        }
        assert_eq!(tree(&all.path("image")), image, "{command}");
    }
}

#[test]
fn a_killed_command_on_an_image_leaves_no_part_of_its_output() {
    let base = with_image();
    let image = tree(&base.path("image"));
    let rounds = testkit::kill_rounds().div_ceil(5);
    for (place, command) in (0..).zip(writers(IMAGE_COMMANDS)) {
        let arguments = &numbered(command)[0];
        let done = base.clone_of(&["."]);
        let start = std::time::Instant::now();
        done.stdout(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let (whole, after) = (start.elapsed(), generated(&done));
        for round in 0..rounds {
            let env = base.clone_of(&["q0-1.0.0", "image"]);
            let mut child = env.command().args(arguments).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole.mul_f64(((round + place) * 37 % 100) as f64 / 100.0));
            let _ = child.kill();
            child.wait().unwrap();
            assert_eq!(tree(&env.path("image")), image, "{command}, round {round}");
            if env.path("database/index.db").exists() {
                assert_eq!(generated(&env), after, "{command}, round {round}");
            }
            if env.path("index.Dockerfile").exists() {
                assert!(env.path("database/index.db").exists(), "{command}, round {round}");
                assert_eq!(env.read("index.Dockerfile"), done.read("index.Dockerfile"), "{command}, round {round}");
            }
            // Nothing is in the way of the next run.
            env.stdout(&[&arguments.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--overwrite"]].concat());
            assert_eq!(generated(&env), after, "{command}, round {round}");
        }
    }
}
