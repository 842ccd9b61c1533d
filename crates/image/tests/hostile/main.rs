//! Archives that mean harm, or are merely broken: each is refused or harmless, and the file system shows it.

mod archive;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use archive::{Archive, Header, gzip, zstd};
use image::{LayerFile, UnpackLimits, unpack, unpack_only};

/// What stands in every file that no archive may see or touch.
const CANARY: &str = "CANARY";

/// Bounds that small archives reach.
fn limits() -> UnpackLimits {
    UnpackLimits {
        total_size: 8 << 20,
        file_size: 1 << 20,
        entries: 2_000,
        path_length: 1024,
        depth: 40,
        ratio: 100,
        ratio_from: 1 << 20,
    }
}

enum Outcome {
    /// It is refused, and the error says this.
    Refused(&'static str),
    /// It is unpacked to this: names of directories with a slash, files with content, links with an arrow.
    Harmless(&'static [&'static str]),
}
use Outcome::{Harmless, Refused};

struct Row {
    name: &'static str,
    layers: Vec<Vec<u8>>,
    outcome: Outcome,
}

fn row(name: &'static str, layer: Vec<u8>, outcome: Outcome) -> Row {
    Row { name, layers: vec![layer], outcome }
}

fn layered(name: &'static str, layers: &[Archive], outcome: Outcome) -> Row {
    Row { name, layers: layers.iter().map(|layer| layer.clone().end()).collect(), outcome }
}

/// A directory with a place to unpack to, and things around it that must stay as they are.
struct Playground {
    scratch: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Playground {
    fn new() -> Playground {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("outside/sub")).unwrap();
        fs::create_dir(root.join("work")).unwrap();
        for file in ["secret", "outside/secret", "outside/sub/secret", "work/beside"] {
            fs::write(root.join(file), CANARY).unwrap();
        }
        symlink("secret", root.join("outside/link")).unwrap();
        let before = snapshot(root);
        Playground { scratch, before }
    }

    fn target(&self) -> PathBuf {
        self.scratch.path().join("work/target")
    }

    fn layers(&self, layers: &[Vec<u8>]) -> (tempfile::TempDir, Vec<LayerFile>) {
        let directory = tempfile::tempdir().unwrap();
        let files = layers.iter().enumerate().map(|(number, bytes)| {
            let path = directory.path().join(number.to_string());
            fs::write(&path, bytes).unwrap();
            LayerFile { path, media_type: image::media_type::OCI_LAYER.into() }
        });
        let files = files.collect();
        (directory, files)
    }

    /// Says what is wrong with the world around the target.
    fn damage(&self) -> Option<String> {
        let target = self.target();
        let mut after = snapshot(self.scratch.path());
        after.retain(|path, _| !path.starts_with(&target));
        (after != self.before).then(|| format!("{:?} became {after:?}", self.before))
    }
}

/// Returns everything below a directory, without following links: kind, mode and content.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let kind = metadata.file_type();
            let what = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                pending.push(path.clone());
                format!("directory {:o}", metadata.permissions().mode())
            } else {
                assert!(kind.is_file(), "{} is neither file nor directory nor link", path.display());
                let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                format!("file {:o} {content}", metadata.permissions().mode())
            };
            found.insert(path, what);
        }
    }
    found
}

/// Returns what was unpacked, after checking that nobody is misled by it.
fn listing(target: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, what) in snapshot(target) {
        let name = String::from_utf8_lossy(path.strip_prefix(target).unwrap().as_os_str().as_bytes()).into_owned();
        lines.push(if let Some(link) = what.strip_prefix("-> ") {
            if let Ok(real) = path.canonicalize() {
                assert!(real.starts_with(target.canonicalize().unwrap()), "{name} leads to {}", real.display());
            }
            format!("{name} -> {link}")
        } else if let Some(mode) = what.strip_prefix("directory ") {
            assert_eq!(mode, "40700", "{name}");
            format!("{name}/")
        } else {
            let content = what.strip_prefix("file 100600 ").unwrap_or_else(|| panic!("{name}: {what}"));
            assert!(!content.contains(CANARY), "{name} holds what lies outside");
            let short: String = content.chars().take(20).collect();
            format!("{name} = {short}")
        });
    }
    lines
}

fn check(row: &Row) -> Result<(), String> {
    let playground = Playground::new();
    let (_files, layers) = playground.layers(&row.layers);
    let target = playground.target();
    let outcome = unpack(&layers, &target, &limits(), &|_| {});
    if let Some(damage) = playground.damage() {
        return Err(format!("something outside changed: {damage}"));
    }
    match (&row.outcome, outcome) {
        (Refused(text), Err(error)) if error.to_string().contains(text) => {
            if target.symlink_metadata().is_ok() {
                Err("the target exists".into())
            } else {
                Ok(())
            }
        }
        (Refused(text), Err(error)) => Err(format!("the error does not say {text:?}: {error}")),
        (Refused(_), Ok(_)) => Err(format!("it was unpacked: {:?}", listing(&target))),
        (Harmless(_), Err(error)) => Err(format!("it was refused: {error}")),
        (Harmless(expected), Ok(_)) => {
            let found = listing(&target);
            if found == *expected { Ok(()) } else { Err(format!("unpacked to {found:#?}")) }
        }
    }
}

fn long(letter: &str, length: usize) -> Vec<u8> {
    letter.repeat(length).into_bytes()
}

fn names() -> Vec<Row> {
    let new = Archive::new;
    vec![
        row("climbing name", new().file("../escape", "x").end(), Refused("leads out of the image")),
        row("climbing from below", new().file("a/../../escape", "x").end(), Refused("leads out of the image")),
        row("climbing far", new().file("../".repeat(20) + "tmp/escape", "x").end(), Refused("leads out")),
        row("climbing directory", new().dir("../escape/").end(), Refused("leads out of the image")),
        row("climbing and coming back", new().file("a/b/../../c", "x").end(), Harmless(&["c = x"])),
        row("climbing by pax", new().pax(&[("path", b"../escape")]).file("safe", "x").end(), Refused("leads out")),
        row("climbing by long name", new().gnu_long(b'L', b"../escape").file("safe", "x").end(), Refused("leads out")),
        row(
            "climbing prefix",
            new().with(Header::new(b"escape", b'0').prefix(b"../.."), b"x").end(),
            Refused("leads out"),
        ),
        row("absolute name", new().file("/etc/passwd", "x").end(), Harmless(&["etc/", "etc/passwd = x"])),
        row("many slashes and dots", new().file("//.//./a/.//b", "x").end(), Harmless(&["a/", "a/b = x"])),
        row("name without content", new().file("", "x").end(), Refused("names the image itself")),
        row("the root as a file", new().file("./", "x").end(), Refused("names the image itself")),
        row("the root as a link", new().symlink(".", "../outside").file("x", "x").end(), Refused("the image itself")),
        row("the root as a directory", new().dir("./").dir("/").end(), Harmless(&[])),
        row(
            "zero byte in a pax name",
            new().pax(&[("path", b"a\0b")]).file("safe", "x").end(),
            Refused("it holds a zero byte"),
        ),
        row("not UTF-8", new().file(b"\xff\xfe\x80", "x").end(), Harmless(&["\u{fffd}\u{fffd}\u{fffd} = x"])),
        row("control characters", new().file("a\nb\x1b[31m", "x").end(), Harmless(&["a\nb\x1b[31m = x"])),
        row("backslashes", new().file("..\\..\\escape", "x").end(), Harmless(&["..\\..\\escape = x"])),
        row("drive letter", new().file("C:/x", "x").end(), Harmless(&["C:/", "C:/x = x"])),
        row("tilde and dollar", new().file("~/$HOME", "x").end(), Harmless(&["~/", "~/$HOME = x"])),
        row(
            "part longer than a file name",
            new().pax(&[("path", &long("a", 256))]).file("safe", "x").end(),
            Refused("longer than 255 bytes"),
        ),
        row(
            "path longer than allowed",
            new().pax(&[("path", &long("a/", 600))]).file("safe", "x").end(),
            Refused("longer than the limit of 1024 bytes"),
        ),
        row(
            "path deeper than allowed",
            new().pax(&[("path", &long("a/", 50))]).file("safe", "x").end(),
            Refused("deeper than the limit of 40"),
        ),
        row(
            "deeper and deeper through links",
            {
                let deep = "a/".repeat(30);
                new().dir(deep.clone()).symlink("l", deep).file("l/".to_owned() + &"b/".repeat(30) + "f", "x").end()
            },
            Refused("deeper than the limit of 40"),
        ),
    ]
}

fn links() -> Vec<Row> {
    let new = Archive::new;
    let chain = (0..60).fold(new().file("f", "x").symlink("l0", "f"), |archive, number| {
        archive.symlink(format!("l{}", number + 1), format!("l{number}"))
    });
    vec![
        row(
            "file through a link that leaves",
            new().symlink("d", "../outside").file("d/escape", "x").end(),
            Harmless(&["d -> outside", "outside/", "outside/escape = x"]),
        ),
        row(
            "file through an absolute link",
            new().symlink("d", "/tmp").file("d/escape", "x").end(),
            Harmless(&["d -> tmp", "tmp/", "tmp/escape = x"]),
        ),
        row(
            "file over a link that leaves",
            new().symlink("f", "../outside/secret").file("f", "x").end(),
            Harmless(&["f = x"]),
        ),
        row(
            "link to what lies outside",
            new().symlink("a/f", "../../../outside/secret").symlink("g", "/etc/passwd").end(),
            Harmless(&["a/", "a/f -> ../outside", "g -> etc"]),
        ),
        row(
            "link to the root and on",
            new().symlink("r", "/").symlink("up", "..").symlink("s", "r/up/r/up/f").file("f", "x").end(),
            Harmless(&["f = x", "r -> .", "s -> f", "up -> ."]),
        ),
        row(
            "links that stay",
            new().file("data/f", "x").symlink("c/f", "../data/f").symlink("c/g", "/data/f").symlink("d", "data").end(),
            Harmless(&["c/", "c/f -> ../data/f", "c/g -> ../data/f", "d -> data", "data/", "data/f = x"]),
        ),
        row(
            "link that leaves and comes back",
            new().file("f", "x").symlink("a/l", "../../target/f").end(),
            Harmless(&["a/", "a/l -> ../target", "f = x"]),
        ),
        row("link to itself", new().symlink("l", "l").symlink("m", "/m").end(), Harmless(&["l -> l", "m -> m"])),
        row(
            "file through a circle",
            new().symlink("a", "b").symlink("b", "a").file("a/f", "x").end(),
            Refused("links"),
        ),
        row("file through a long chain", chain.file("l60/f", "x").end(), Refused("too many links")),
        row("file below a file", new().file("f", "x").file("f/g", "x").end(), Refused("not a directory")),
        row("link without a target", new().symlink("l", "").end(), Refused("points nowhere")),
        row("zero byte in a target", new().pax(&[("linkpath", b"a\0b")]).symlink("l", "a").end(), Refused("zero byte")),
        row(
            "target longer than allowed",
            new().pax(&[("linkpath", &long("a", 2000))]).symlink("l", "a").end(),
            Refused("longer than the limit"),
        ),
        row(
            "hard link to what lies outside",
            new().hardlink("l", "../outside/secret").end(),
            Refused("out of the image"),
        ),
        row("hard link, absolute", new().hardlink("l", "/etc/passwd").end(), Refused("no such file")),
        row(
            "hard link through a link that leaves",
            new().symlink("d", "../outside").hardlink("l", "d/secret").end(),
            Refused("no such file"),
        ),
        row(
            "hard link to a link that leaves",
            new().symlink("s", "../outside/secret").hardlink("h", "s").file("h", "x").end(),
            Harmless(&["h = x", "s -> outside"]),
        ),
        row("hard link to a directory", new().dir("d").hardlink("l", "d").end(), Refused("cannot be linked")),
        row("hard link to the root", new().hardlink("l", "/").end(), Refused("cannot be linked")),
        row("hard link to itself", new().file("f", "x").hardlink("f", "f").end(), Harmless(&["f = x"])),
        row("hard link to what comes later", new().hardlink("l", "f").file("f", "x").end(), Refused("no such file")),
        row(
            "file written over its hard link",
            new().file("f", "x").hardlink("l", "f").file("l", "y").end(),
            Harmless(&["f = x", "l = y"]),
        ),
        row(
            "hard link with content",
            new().file("f", "x").header(Header::new(b"l", b'1').link(b"f").size(5)).padded(b"hello").end(),
            Refused("malformed"),
        ),
        layered(
            "link in one layer, file through it in the next",
            &[new().symlink("configs", "/outside"), new().file("configs/escape", "x")],
            Harmless(&["configs -> outside", "outside/", "outside/escape = x"]),
        ),
    ]
}

fn whiteouts() -> Vec<Row> {
    let new = Archive::new;
    let lower = || new().file("d/a", "x").file("d/sub/b", "x").file("e", "x");
    vec![
        layered("whiteout", &[lower(), new().file("d/.wh.a", "")], Harmless(&["d/", "d/sub/", "d/sub/b = x", "e = x"])),
        layered("whiteout of a directory", &[lower(), new().file(".wh.d", "")], Harmless(&["e = x"])),
        layered("whiteout of the parent", &[lower(), new().file("d/.wh...", "")], Refused("no name")),
        layered("whiteout of itself", &[lower(), new().file("d/.wh..", "")], Refused("no name")),
        layered("whiteout of nothing", &[lower(), new().file("d/.wh.", "")], Refused("no name")),
        layered("climbing whiteout", &[lower(), new().file("../outside/.wh.secret", "")], Refused("leads out")),
        layered(
            "whiteout through a link that leaves",
            &[new().symlink("d", "../outside"), new().file("d/.wh.secret", "")],
            Harmless(&["d -> outside"]),
        ),
        layered(
            "opaque through a link that leaves",
            &[new().symlink("d", "../outside"), new().file("d/.wh..wh..opq", "")],
            Harmless(&["d -> outside"]),
        ),
        layered(
            "opaque directory, said last",
            &[lower(), new().file("d/sub/c", "y").file("d/.wh..wh..opq", "")],
            Harmless(&["d/", "d/sub/", "d/sub/c = y", "e = x"]),
        ),
        layered("opaque root", &[lower(), new().file(".wh..wh..opq", "").file("f", "y")], Harmless(&["f = y"])),
        layered(
            "other notes of the storage driver",
            &[lower(), new().file(".wh..wh.plnk", "").file(".wh..wh.aufs", "")],
            Harmless(&["d/", "d/a = x", "d/sub/", "d/sub/b = x", "e = x"]),
        ),
        layered(
            "whiteout of what is not there",
            &[lower(), new().file("x/y/.wh.z", "").file(".wh.d", "")],
            Harmless(&["e = x"]),
        ),
        layered("whiteout that is a directory", &[lower(), new().dir(".wh.d/")], Harmless(&["e = x"])),
        layered(
            "directory in the place of a file and back",
            &[new().file("a", "x").file("b/c", "x"), new().dir("a").file("a/n", "y").file("b", "y")],
            Harmless(&["a/", "a/n = y", "b = y"]),
        ),
    ]
}

fn kinds() -> Vec<Row> {
    let new = Archive::new;
    let special = |flag| new().header(Header::new(b"dev/x", flag).mode(0o666)).file("f", "x").end();
    vec![
        row("character device", special(b'3'), Harmless(&["f = x"])),
        row("block device", special(b'4'), Harmless(&["f = x"])),
        row("pipe", special(b'6'), Harmless(&["f = x"])),
        layered(
            "device in the place of a file",
            &[new().file("dev/x", "x"), new().header(Header::new(b"dev/x", b'3'))],
            Harmless(&["dev/"]),
        ),
        row("unknown type", new().header(Header::new(b"x", b'Q')).end(), Refused("unknown type 'Q'")),
        row("volume label", new().header(Header::new(b"x", b'V')).end(), Refused("unknown type")),
        row("continued file", new().header(Header::new(b"x", b'M')).end(), Refused("unknown type")),
        row("sparse file", new().header(Header::new(b"x", b'S').size(0)).end(), Refused("sparse")),
        row(
            "sparse file by pax",
            new().pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"99999999999")]).file("x", "x").end(),
            Refused("sparse"),
        ),
        row(
            "setuid, setgid, sticky",
            new().with(Header::new(b"su", b'0').mode(0o7777), b"x").end(),
            Harmless(&["su = x"]),
        ),
        row(
            "no permissions at all",
            new().header(Header::new(b"d", b'5').mode(0)).with(Header::new(b"d/f", b'0').mode(0), b"x").end(),
            Harmless(&["d/", "d/f = x"]),
        ),
        row(
            "attributes and owners by pax",
            new()
                .pax(&[("SCHILY.xattr.security.capability", b"\x01\0\0\x02"), ("uid", b"0"), ("mtime", b"-1")])
                .file("f", "x")
                .end(),
            Harmless(&["f = x"]),
        ),
        row("directory of old, by its slash", new().header(Header::new(b"d/", 0)).end(), Harmless(&["d/"])),
        row(
            "same name many times",
            (0..50).fold(new(), |archive, number| archive.file("f", number.to_string())).end(),
            Harmless(&["f = 49"]),
        ),
        row(
            "same name as everything",
            new().file("f", "x").dir("f").file("f/g", "x").symlink("f", "/").file("f", "y").end(),
            Harmless(&["f = y"]),
        ),
    ]
}

fn sizes() -> Vec<Row> {
    let new = Archive::new;
    let claims = |field: &[u8]| new().header(Header::new(b"f", b'0').size_field(field)).end();
    let zeros = vec![0; 900 << 10];
    let bomb = (0..7).fold(new(), |archive, number| archive.file(format!("{number}"), &zeros)).end();
    vec![
        row(
            "size beyond the end",
            new().header(Header::new(b"f", b'0').size(700)).padded(b"x").without_end(),
            Refused("cut off"),
        ),
        row("size beyond all limits", claims(b"77777777777\0"), Refused("larger than the limit of 1048576")),
        row(
            "size in binary, huge",
            claims(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"),
            Refused("larger than the limit"),
        ),
        row(
            "size in binary, negative",
            claims(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            Refused("no number"),
        ),
        row("size with a sign", claims(b"-0000000001\0"), Refused("no number")),
        row("size with other digits", claims(b"00000000009\0"), Refused("no number")),
        row(
            "size too small",
            new().header(Header::new(b"f", b'0').size(0)).padded(&[b'x'; 600]).end(),
            Refused("malformed"),
        ),
        row(
            "directory with content",
            new().header(Header::new(b"d", b'5').size(512)).padded(&[b'x'; 512]).end(),
            Refused("malformed"),
        ),
        row("pax size, negative", new().pax(&[("size", b"-5")]).file("f", "x").end(), Refused("malformed")),
        row(
            "pax size, overflowing",
            new().pax(&[("size", b"99999999999999999999")]).file("f", "x").end(),
            Refused("malformed"),
        ),
        row("pax size, lying", new().pax(&[("size", b"1048000")]).file("f", "x").end(), Refused("cut off")),
        row(
            "pax record, endless",
            new().with(Header::new(b"x", b'x'), b"99999 path=x\n").file("f", "x").end(),
            Refused("malformed"),
        ),
        row(
            "pax record, empty",
            new().with(Header::new(b"x", b'x'), b"0 \n").file("f", "x").end(),
            Refused("malformed"),
        ),
        row(
            "pax record, no number",
            new().with(Header::new(b"x", b'x'), &[b'a'; 600]).file("f", "x").end(),
            Refused("malformed"),
        ),
        row("pax headers, huge", new().header(Header::new(b"x", b'x').size(4 << 30)).end(), Refused("more than 1 MiB")),
        row("long name, huge", new().header(Header::new(b"x", b'L').size(4 << 30)).end(), Refused("more than 1 MiB")),
        row("pax headers for nothing", new().pax(&[("path", b"x")]).end(), Refused("cut off")),
        row(
            "pax headers without end",
            (0..3000).fold(new(), |archive, _| archive.pax(&[("path", b"x")])).end(),
            Refused("more than the limit of 2000 entries"),
        ),
        row(
            "global headers",
            new().with(Header::new(b"g", b'g'), b"19 path=../escape1\n").file("f", "x").end(),
            Harmless(&["f = x"]),
        ),
        row("bomb of gzip", gzip(&bomb), Refused("more than 100 times larger")),
        row("bomb of zstd", zstd(&bomb), Refused("more than 100 times larger")),
        row("bomb of many gzip members", bomb.chunks(64 << 10).flat_map(gzip).collect(), Refused("times larger")),
        row(
            "too much in all",
            (0..12).fold(new(), |archive, number| archive.file(format!("{number}"), &zeros)).end(),
            Refused("larger than the limit of 8388608"),
        ),
        row("too large a file", new().file("f", vec![b'x'; (1 << 20) + 1]).end(), Refused("limit of 1048576")),
        row(
            "too many entries",
            (0..2100).fold(new(), |archive, number| archive.dir(number.to_string())).end(),
            Refused("more than the limit of 2000 entries"),
        ),
        row(
            "too many implied directories",
            (0..200).fold(new(), |archive, number| archive.file(format!("{number}{}", "/a".repeat(30)), "x")).end(),
            Refused("more than the limit of 2000 entries"),
        ),
    ]
}

fn streams() -> Vec<Row> {
    let new = Archive::new;
    let good = || new().file("f", "x").end();
    let random: Vec<u8> = std::iter::successors(Some(1_u64), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .map(|state| (state >> 56) as u8)
    .take(20_000)
    .collect();
    let long = gzip(&new().file("f", &random).end());
    let member = |bytes: &[u8]| bytes.chunks(300).flat_map(gzip).collect::<Vec<u8>>();
    let mut flipped = gzip(&good());
    let middle = flipped.len() - 6;
    flipped[middle] ^= 0xff;
    vec![
        row("nothing", Vec::new(), Harmless(&[])),
        row("nothing, compressed", gzip(b""), Harmless(&[])),
        row("no end", new().file("f", "x").without_end(), Harmless(&["f = x"])),
        row("no padding", good()[..513].to_vec(), Harmless(&["f = x"])),
        row("cut in the padding", good()[..700].to_vec(), Harmless(&["f = x"])),
        row("cut in a header", good()[..300].to_vec(), Refused("cut off")),
        row("cut in the content", new().file("f", [b'x'; 2000]).without_end()[..1024].to_vec(), Refused("cut off")),
        row("gzip, cut", long[..long.len() / 2].to_vec(), Refused("cut off")),
        row("gzip, header only", vec![0x1f, 0x8b, 8, 0], Refused("cut off")),
        // Nothing behind the end of the archive is read; the digest of the layer covers it.
        row("gzip, wrong checksum", flipped, Harmless(&["f = x"])),
        row(
            "gzip, garbage inside",
            [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0xff; 100]].concat(),
            Refused("cannot be read"),
        ),
        row("gzip of many members", member(&good()), Harmless(&["f = x"])),
        row("gzip, garbage behind", [gzip(&good()), b"garbage".to_vec()].concat(), Harmless(&["f = x"])),
        row("tar, garbage behind", [good(), vec![b'x'; 5000]].concat(), Harmless(&["f = x"])),
        row(
            "tar, an archive behind the end",
            [good(), new().file("../escape", "x").end()].concat(),
            Harmless(&["f = x"]),
        ),
        row("zstd, cut", zstd(&new().file("f", &random).end())[..9000].to_vec(), Refused("cut off")),
        row("zstd, garbage inside", [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0xff; 100]].concat(), Refused("cannot be read")),
        row("zstd, asking for memory", vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x01, 0, 0], Refused("cannot be read")),
        row(
            "zstd, frame to be skipped",
            [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7][..], &zstd(&good())].concat(),
            Harmless(&["f = x"]),
        ),
        row("noise", random, Refused("malformed")),
        row("wrong checksum", new().raw(&[b'x'; 512]).end(), Refused("malformed")),
        row("gzip in gzip", gzip(&gzip(&good())), Refused("cut off")),
    ]
}

#[test]
fn every_archive_is_refused_or_harmless() {
    let rows: Vec<Row> = [names(), links(), whiteouts(), kinds(), sizes(), streams()].into_iter().flatten().collect();
    assert!(rows.len() >= 100, "{} rows", rows.len());
    let wrong: Vec<String> =
        rows.iter().filter_map(|row| check(row).err().map(|error| format!("{}: {error}", row.name))).collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn a_hundred_thousand_entries_are_unpacked() {
    let archive = (0..100_000).fold(
        Archive::new(),
        |archive, number| // Few names, many times: what takes long is the file system.
        archive.symlink(format!("d{}/{}", number % 300, number % 5_000), "../d1/f"),
    );
    let playground = Playground::new();
    let (_files, layers) = playground.layers(&[gzip(&archive.end())]);
    let unpacked = unpack(&layers, &playground.target(), &UnpackLimits::default(), &|_| {}).unwrap();
    assert_eq!(unpacked.made, 15_300);
    assert_eq!(playground.damage(), None);
}

#[test]
fn encrypted_layers_are_refused() {
    let playground = Playground::new();
    let (_files, mut layers) = playground.layers(&[Archive::new().end()]);
    layers[0].media_type += "+encrypted";
    let error = unpack(&layers, &playground.target(), &limits(), &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), "layer 1: the layer is encrypted");
}

#[test]
fn what_is_there_is_never_touched() {
    let playground = Playground::new();
    let (_files, layers) = playground.layers(&[Archive::new().file("f", "x").end()]);
    let target = playground.target();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("mine"), "mine").unwrap();
    let error = unpack(&layers, &target, &limits(), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("not an empty directory"), "{error}");
    fs::remove_file(target.join("mine")).unwrap();
    unpack(&layers, &target, &limits(), &|_| {}).unwrap();
    assert_eq!(listing(&target), ["f = x"]);
    for path in [target.join("f"), target.join("none/target")] {
        unpack(&layers, &path, &limits(), &|_| {}).unwrap_err();
    }
    symlink("../outside", target.join("link")).unwrap();
    unpack(&layers, &target.join("link"), &limits(), &|_| {}).unwrap_err();
    fs::remove_file(target.join("link")).unwrap();
    assert_eq!(playground.damage(), None);
}

fn only(paths: &[&str], layers: &[Archive]) -> Vec<String> {
    let playground = Playground::new();
    let layers: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(&layer.clone().end())).collect();
    let (_files, layers) = playground.layers(&layers);
    let paths: Vec<&Path> = paths.iter().map(|path| Path::new(OsStr::new(path))).collect();
    unpack_only(&paths, &layers, &playground.target(), &limits(), &|_| {}).unwrap();
    assert_eq!(playground.damage(), None);
    listing(&playground.target())
}

#[test]
fn a_part_is_unpacked_with_what_its_links_need() {
    let image = || Archive::new().file("configs/a", "x").file("data/b", "y").file("other/c", "z").file("top", "t");
    assert_eq!(only(&["/configs"], &[image()]), ["configs/", "configs/a = x"]);
    assert_eq!(only(&["configs/", "./top"], &[image()]), ["configs/", "configs/a = x", "top = t"]);
    assert_eq!(only(&["/none", "/configs/none"], &[image()]), ["configs/"]);
    let linked = image().symlink("link", "/data").symlink("deep/er", "../link/.");
    assert_eq!(only(&["/link"], std::slice::from_ref(&linked)), ["data/", "data/b = y", "link -> data"]);
    assert_eq!(only(&["deep/er/b"], &[linked]), ["data/", "data/b = y", "deep/", "deep/er -> ../data", "link -> data"],);
    let inside = Archive::new().symlink("configs/l", "../data/b").symlink("configs/m", "../../etc/passwd");
    assert_eq!(
        only(&["configs"], &[image(), inside]),
        ["configs/", "configs/a = x", "configs/l -> ../data/b", "configs/m -> ../etc", "data/", "data/b = y"],
    );
    let hard = Archive::new().hardlink("configs/h", "data/b").file("configs/.wh.a", "");
    assert_eq!(only(&["configs"], &[image(), hard]), ["configs/", "configs/h = y"]);
    assert_eq!(only(&["l"], &[Archive::new().symlink("l", "l").file("f", "x")]), ["l -> l"]);
}
