//! Databases of every schema version, with content, migrated to the latest one.

use std::path::Path;

use legacy::{AddMode, BundleToAdd, Database, VERSION};
use rusqlite::{Connection, params};

use crate::harness::{BundleSpec, Scratch, add, content, raw};

/// Writes bundles that require different APIs, replace and skip each other, and are in two channels.
pub(crate) fn bundles(scratch: &Scratch) -> Vec<BundleToAdd> {
    let needs = |group: &str| {
        format!(
            "  customresourcedefinitions:\n    required:\n    - {{name: needs.{group}.test, version: v1, kind: Need}}\n"
        )
    };
    let (a, b) = (needs("a"), format!("{}  replaces: foo.v1.0.0\n", needs("b")));
    let c = format!(
        "{}  replaces: foo.v1.1.0\n  skips: [foo.v1.1.5, foo.v1.0.0]\n  relatedImages: [{{name: x, image: 'r.test/x:1'}}]\n",
        needs("c")
    );
    let bundle_of_foo = |version, spec, channels| BundleSpec {
        package: "foo",
        version,
        channels,
        default: "stable",
        spec,
        ..BundleSpec::default()
    };
    let range = "    olm.skipRange: '>=1.0.0 <1.2.0'\n";
    vec![
        scratch.bundle(&bundle_of_foo("1.0.0", &a, "alpha,stable")),
        scratch.bundle(&bundle_of_foo("1.1.0", &b, "alpha,stable")),
        scratch.bundle(&BundleSpec { annotations: range, ..bundle_of_foo("1.2.0", &c, "alpha") }),
        scratch.bundle(&BundleSpec { package: "bar", default: "", ..bundle_of_foo("0.1.0", "", "main") }),
    ]
}

/// The tables as older programs created them, named after the version that introduced this form.
const BUNDLE_0: &str = "CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT UNIQUE, bundle TEXT";
const BUNDLE_4: &str = "CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT";

fn cascade(version: i64) -> &'static str {
    if version >= 4 { " ON DELETE CASCADE" } else { "" }
}

/// Writes a database of an older version with the content of a new one.
pub(crate) fn write_old(new: &Path, old: &Path, version: i64) {
    let database = Connection::open(old).unwrap();
    database.pragma_update(None, "foreign_keys", false).unwrap();
    database.execute("ATTACH ?1 AS new", [new.to_str().unwrap()]).unwrap();
    let run = |sql: &str| database.execute_batch(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let cascade = cascade(version);
    run(
        "BEGIN; CREATE TABLE schema_migrations (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)",
    );
    database.execute("INSERT INTO schema_migrations(version) VALUES (?1)", params![version]).unwrap();
    let columns: Vec<&str> =
        [("bundlepath", 2), ("skiprange", 5), ("version", 5), ("replaces", 7), ("skips", 7), ("substitutesfor", 11)]
            .iter()
            .filter(|(_, since)| version >= *since)
            .map(|(column, _)| *column)
            .collect();
    let more: String = columns.iter().map(|column| format!(", {column} TEXT")).collect();
    run(&format!("{}{more})", if version >= 4 { BUNDLE_4 } else { BUNDLE_0 }));
    let names: String = columns.iter().map(|column| format!(", {column}")).collect();
    run(&format!(
        "INSERT INTO operatorbundle(name, csv, bundle{names}) SELECT name, csv, bundle{names} FROM new.operatorbundle"
    ));
    run(&format!(
        "CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT,
             FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name){cascade});
         CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT, PRIMARY KEY(name, package_name),
             FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name){cascade});
         CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT,
             operatorbundle_name TEXT, replaces INTEGER, depth INTEGER,
             FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED,
             FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name){cascade});
         CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL,
             PRIMARY KEY(group_name, version, kind));
         INSERT INTO package SELECT * FROM new.package;
         INSERT INTO channel SELECT * FROM new.channel;
         INSERT INTO channel_entry SELECT * FROM new.channel_entry;"
    ));
    // Before the third migration, databases had provided APIs only.
    run("INSERT INTO api SELECT * FROM new.api AS api WHERE EXISTS (SELECT 1 FROM new.api_provider AS user
             WHERE user.group_name = api.group_name AND user.kind = api.kind)");
    if version >= 1 {
        run(&format!(
            "CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT,
                 FOREIGN KEY(operatorbundle_name) REFERENCES operatorbundle(name){cascade});
             INSERT INTO related_image SELECT * FROM new.related_image"
        ));
    }
    if version >= 3 {
        run("INSERT OR IGNORE INTO api SELECT * FROM new.api");
    }
    if version >= 6 {
        run("CREATE UNIQUE INDEX pk ON operatorbundle(name, version, bundlepath)");
    }
    for (table, since) in [("api_provider", 0), ("api_requirer", 3)] {
        if version < since {
            continue;
        }
        if version >= 6 {
            run(&format!(
                "CREATE TABLE {table} (group_name TEXT, version TEXT, kind TEXT, operatorbundle_name TEXT,
                     operatorbundle_version TEXT, operatorbundle_path TEXT,
                     FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
                     REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE,
                     FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind) ON DELETE CASCADE);
                 INSERT INTO {table} SELECT * FROM new.{table}"
            ));
        } else {
            run(&format!(
                "CREATE TABLE {table} (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
                     FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id){cascade},
                     FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind){cascade});
                 INSERT INTO {table} SELECT user.group_name, user.version, user.kind, entry.entry_id
                     FROM new.{table} AS user
                     JOIN channel_entry AS entry ON entry.operatorbundle_name = user.operatorbundle_name"
            ));
        }
    }
    let of_bundle = "type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT,
        operatorbundle_path TEXT, FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE";
    if version >= 8 {
        run(&format!(
            "CREATE TABLE dependencies ({of_bundle}); INSERT INTO dependencies SELECT * FROM new.dependencies"
        ));
    }
    if version == 8 {
        run("UPDATE dependencies SET value = '{\"type\":\"' || type || '\",' || substr(CAST(value AS TEXT), 2)");
    }
    if version >= 9 {
        run(&format!("CREATE TABLE properties ({of_bundle}); INSERT INTO properties SELECT * FROM new.properties"));
    }
    if version == 9 {
        run("UPDATE properties SET operatorbundle_path = NULL");
    }
    if version >= 12 {
        run("CREATE TABLE deprecated (operatorbundle_name TEXT PRIMARY KEY)");
    }
    run("COMMIT");
}

#[test]
fn every_version_migrates_to_the_content_of_a_new_database() {
    let scratch = Scratch::new();
    let mut with_images = bundles(&scratch);
    let new = scratch.path("new.db");
    add(&new, &with_images, AddMode::Replaces).unwrap();
    // There were no images before the second migration.
    with_images.iter_mut().for_each(|bundle| bundle.image = String::new());
    let plain = scratch.path("plain.db");
    add(&plain, &with_images, AddMode::Replaces).unwrap();
    for version in 0..=VERSION {
        let from = if version < 2 { &plain } else { &new };
        let old = scratch.path(&format!("old-{version}.db"));
        write_old(from, &old, version);
        Database::write(&old)
            .and_then(|database| database.migrate())
            .unwrap_or_else(|error| panic!("version {version}: {error}"));
        let (migrated, wanted) = (content(&old), content(from));
        let missing: Vec<_> = wanted.iter().filter(|row| !migrated.contains(row)).collect();
        let surplus: Vec<_> = migrated.iter().filter(|row| !wanted.contains(row)).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "version {version}: missing {missing:#?}, surplus {surplus:#?}"
        );
        let connection = raw(&old);
        let broken: i64 =
            connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
        assert_eq!(broken, 0, "version {version}");
        let now: i64 = connection.query_row("SELECT version FROM schema_migrations", [], |row| row.get(0)).unwrap();
        assert_eq!(now, VERSION);
    }
}

#[test]
fn a_failed_migration_leaves_the_database_unchanged() {
    let scratch = Scratch::new();
    let new = scratch.path("new.db");
    add(&new, &bundles(&scratch), AddMode::Replaces).unwrap();
    let old = scratch.path("old.db");
    write_old(&new, &old, 5);
    // The sixth migration creates a table of this name.
    Connection::open(&old).unwrap().execute_batch("CREATE TABLE opm_new(x)").unwrap();
    let before = std::fs::read(&old).unwrap();
    let error = Database::write(&old).and_then(|database| database.migrate()).unwrap_err();
    assert!(error.to_string().starts_with("migrating the database from schema version 5:"), "{error}");
    assert_eq!(std::fs::read(&old).unwrap(), before);
    assert!(Database::read(&old).is_err());
    assert_eq!(std::fs::read(&old).unwrap(), before);
}
