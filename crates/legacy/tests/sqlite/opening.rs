//! Files that are no index or cannot be opened, and files that are only read.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fbc::Fbc;
use legacy::{AddMode, Database, Error, ManifestConversion};
use rusqlite::Connection;

use crate::harness::{BundleSpec, Scratch, add};

fn index(scratch: &Scratch) -> std::path::PathBuf {
    let database = scratch.path("index.db");
    let bundle_spec = BundleSpec { package: "foo", version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&bundle_spec)], AddMode::Replaces).unwrap();
    database
}

#[test]
fn reading_does_not_change_the_file() {
    let scratch = Scratch::new();
    let database = index(&scratch);
    Connection::open(&database).unwrap().execute_batch("UPDATE schema_migrations SET version = 12").unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o444)).unwrap();
    let before = fs::read(&database).unwrap();
    let mut fbc = Fbc::default();
    let open = Database::read(&database).unwrap();
    open.convert(&mut fbc, ManifestConversion::Objects, &fbc::Limits::default()).unwrap();
    drop(open);
    assert_eq!(fbc.blobs().len(), 3);
    assert_eq!(fs::read(&database).unwrap(), before);
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 2, "reading created another file");
}

#[test]
fn errors_name_what_other_files_are() {
    let scratch = Scratch::new();
    let text = scratch.path("text");
    fs::write(&text, "hello, this is certainly no database, however long it gets").unwrap();
    assert!(matches!(Database::write(&text), Err(Error::NotADatabase(_))));
    assert!(matches!(Database::read(&text), Err(Error::NotADatabase(_))));
    let foreign = scratch.path("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE cookies(host TEXT)").unwrap();
    for opened in [Database::write(&foreign), Database::read(&foreign)] {
        let error = opened.map(drop).unwrap_err();
        assert!(error.to_string().contains("not an operator index: the database has other tables: cookies"), "{error}");
    }
    let missing = scratch.path("no/such/index.db");
    let error = Database::write(&missing).map(drop).unwrap_err();
    assert!(error.to_string().contains("unable to open database file"), "{error}");
}

#[test]
fn a_truncated_file_is_reported_as_damaged() {
    let scratch = Scratch::new();
    let database = index(&scratch);
    let length = fs::metadata(&database).unwrap().len();
    fs::File::options().write(true).open(&database).unwrap().set_len(length / 2).unwrap();
    for opened in [Database::write(&database), Database::read(&database)] {
        let error = opened.map(drop).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
}

/// Lets all children of an interior page be the same page: the tree then has more rows than the file has room for.
fn repeat_child(file: &mut [u8], page: usize) -> bool {
    let start = page * 4096;
    // An interior page of a table has this type.
    if file[start] != 5 {
        return false;
    }
    let number = |at: usize| usize::from(u16::from_be_bytes([file[at], file[at + 1]]));
    let cells: Vec<usize> = (0..number(start + 3)).map(|i| start + number(start + 12 + 2 * i)).collect();
    let last: [u8; 4] = file[start + 8..start + 12].try_into().unwrap();
    cells.iter().for_each(|cell| file[*cell..cell + 4].copy_from_slice(&last));
    cells.len() > 1
}

#[test]
fn a_database_whose_pages_do_not_form_trees_is_rejected() {
    let scratch = Scratch::new();
    let database = index(&scratch);
    let raw = Connection::open(&database).unwrap();
    raw.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO channel_entry(channel_name, package_name) SELECT 'stable', 'foo' FROM n",
    )
    .unwrap();
    drop(raw);
    let mut bytes = fs::read(&database).unwrap();
    // The first page has the schema.
    let changed = (1..bytes.len() / 4096).filter(|page| repeat_child(&mut bytes, *page)).count();
    assert!(changed > 0, "no table has several pages");
    fs::write(&database, bytes).unwrap();
    for opened in [Database::write(&database), Database::read(&database)] {
        let error = opened.map(drop).unwrap_err();
        assert!(error.to_string().contains("2nd reference to page"), "{error}");
    }
}

#[test]
fn a_newer_database_is_read_if_it_has_the_required_columns_and_never_changed() {
    let scratch = Scratch::new();
    let database = index(&scratch);
    let raw = Connection::open(&database).unwrap();
    raw.execute_batch("UPDATE schema_migrations SET version = 99; ALTER TABLE package ADD COLUMN colour TEXT").unwrap();
    let before = fs::read(&database).unwrap();
    Database::write(&database).unwrap().prune_stranded().unwrap();
    let error = Database::write(&database).unwrap().prune(&[]).map(drop).unwrap_err();
    assert!(matches!(error, Error::Newer { version: 99, .. }), "{error}");
    assert_eq!(fs::read(&database).unwrap(), before, "the database was changed");
    let warning = Database::read(&database).unwrap().warning().unwrap().unwrap();
    assert!(warning.contains("schema version 99 is newer"), "{warning}");
    raw.execute_batch("ALTER TABLE channel RENAME COLUMN head_operatorbundle_name TO head").unwrap();
    let error = Database::read(&database).map(drop).unwrap_err();
    assert!(error.to_string().contains("schema version 99 is newer"), "{error}");
    assert!(error.to_string().contains("column channel.head_operatorbundle_name"), "{error}");
}

#[test]
fn a_locked_database_is_reported_after_a_timeout() {
    let scratch = Scratch::new();
    let database = index(&scratch);
    let other = Connection::open(&database).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = Database::write(&database).map(drop).unwrap_err();
    assert!(matches!(error, Error::Locked(_)), "{error}");
    assert!(error.to_string().contains("database is locked"), "{error}");
}

#[test]
fn invalid_bundle_content_is_reported_and_preserved() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let spec = "  relatedImages: [{name: x, image: 'oci://registry.test/x:1'}]\n";
    let bundle_spec =
        BundleSpec { package: "foo", version: "1.0.0", channels: "stable", spec, ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&bundle_spec)], AddMode::Replaces).unwrap();
    let mut fbc = Fbc::default();
    let open = Database::read(&database).unwrap();
    let warnings = open.convert(&mut fbc, ManifestConversion::Objects, &fbc::Limits::default()).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("invalid image pull spec \"oci://registry.test/x:1\""), "{warnings:?}");
    assert_eq!(fbc.blobs().len(), 3);
}

#[test]
fn a_bundle_with_many_properties_and_skips_is_read_within_the_deadline_of_queries() {
    let scratch = Scratch::new();
    let database = index(&scratch);
    Connection::open(&database)
        .unwrap()
        .execute_batch(
            "PRAGMA foreign_keys = OFF; CREATE TEMP TABLE n AS
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT i FROM n;
             INSERT INTO properties(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
                 SELECT 'x', i, name, version, bundlepath FROM n, operatorbundle;
             INSERT INTO channel_entry(entry_id, channel_name, package_name, operatorbundle_name, replaces, depth)
                 SELECT 1000 + 2 * i, 'stable', 'foo', 'foo.v0.' || i, NULL, 2 FROM n;
             INSERT INTO channel_entry(entry_id, channel_name, package_name, operatorbundle_name, replaces, depth)
                 SELECT 1001 + 2 * i, 'stable', 'foo', 'foo.v1.0.0', 1000 + 2 * i, 1 FROM n;",
        )
        .unwrap();
    let mut fbc = Fbc::default();
    let open = Database::read(&database).unwrap();
    open.convert(&mut fbc, ManifestConversion::Objects, &fbc::Limits::default()).unwrap();
    assert_eq!(fbc.blobs().len(), 3);
}
