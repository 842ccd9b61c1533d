//! Archives with names and links that lead outside.

use super::{Row, layered, long, row};
use crate::Outcome::{Harmless, Rejected};
use crate::archive::{Archive, Header};

pub(super) fn names() -> Vec<Row> {
    let new = Archive::new;
    vec![
        row("climbing name", new().file("../escape", "x").end(), Rejected("leaves the image")),
        row("climbing from below", new().file("a/../../escape", "x").end(), Rejected("leaves the image")),
        row("climbing far", new().file("../".repeat(20) + "tmp/escape", "x").end(), Rejected("leaves the image")),
        row("climbing directory", new().dir("../escape/").end(), Rejected("leaves the image")),
        row("climbing and coming back", new().file("a/b/../../c", "x").end(), Harmless(&["c = x"])),
        row(
            "climbing by pax",
            new().pax(&[("path", b"../escape")]).file("safe", "x").end(),
            Rejected("leaves the image"),
        ),
        row(
            "climbing by long name",
            new().gnu_long(b'L', b"../escape").file("safe", "x").end(),
            Rejected("leaves the image"),
        ),
        row(
            "climbing prefix",
            new().with(Header::new(b"escape", b'0').prefix(b"../.."), b"x").end(),
            Rejected("leaves the image"),
        ),
        row("absolute name", new().file("/etc/passwd", "x").end(), Harmless(&["etc/", "etc/passwd = x"])),
        row("many slashes and dots", new().file("//.//./a/.//b", "x").end(), Harmless(&["a/", "a/b = x"])),
        row("name without content", new().file("", "x").end(), Rejected("it is the root of the image")),
        row("the root as a file", new().file("./", "x").end(), Rejected("it is the root of the image")),
        row("the root as a link", new().symlink(".", "../outside").file("x", "x").end(), Rejected("root of the image")),
        row("the root as a directory", new().dir("./").dir("/").end(), Harmless(&[])),
        row(
            "zero byte in a pax name",
            new().pax(&[("path", b"a\0b")]).file("safe", "x").end(),
            Rejected("it contains a NUL byte"),
        ),
        row("not UTF-8", new().file(b"\xff\xfe\x80", "x").end(), Harmless(&["\u{fffd}\u{fffd}\u{fffd} = x"])),
        row("control characters", new().file("a\nb\x1b[31m", "x").end(), Harmless(&["a\nb\x1b[31m = x"])),
        row("backslashes", new().file("..\\..\\escape", "x").end(), Harmless(&["..\\..\\escape = x"])),
        row("drive letter", new().file("C:/x", "x").end(), Harmless(&["C:/", "C:/x = x"])),
        row("tilde and dollar", new().file("~/$HOME", "x").end(), Harmless(&["~/", "~/$HOME = x"])),
        row(
            "part longer than a file name",
            new().pax(&[("path", &long("a", 256))]).file("safe", "x").end(),
            Rejected("longer than 255 bytes"),
        ),
        row(
            "path longer than allowed",
            new().pax(&[("path", &long("a/", 600))]).file("safe", "x").end(),
            Rejected("longer than the limit of 1024 bytes"),
        ),
        row(
            "path deeper than allowed",
            new().pax(&[("path", &long("a/", 50))]).file("safe", "x").end(),
            Rejected("deeper than the limit of 40"),
        ),
        row(
            "deeper and deeper through links",
            {
                let deep = "a/".repeat(30);
                new().dir(deep.clone()).symlink("l", deep).file("l/".to_owned() + &"b/".repeat(30) + "f", "x").end()
            },
            Rejected("deeper than the limit of 40"),
        ),
    ]
}

pub(super) fn links() -> Vec<Row> {
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
            "link that leaves and returns",
            new().file("f", "x").symlink("a/l", "../../target/f").end(),
            Harmless(&["a/", "a/l -> ../target", "f = x"]),
        ),
        row("link to itself", new().symlink("l", "l").symlink("m", "/m").end(), Harmless(&["l -> l", "m -> m"])),
        row(
            "file through a circle",
            new().symlink("a", "b").symlink("b", "a").file("a/f", "x").end(),
            Rejected("links"),
        ),
        row("file through a long chain", chain.file("l60/f", "x").end(), Rejected("too many levels of symbolic links")),
        row("file below a file", new().file("f", "x").file("f/g", "x").end(), Rejected("not a directory")),
        row("link without a target", new().symlink("l", "").end(), Rejected("its target is empty")),
        row("zero byte in a target", new().pax(&[("linkpath", b"a\0b")]).symlink("l", "a").end(), Rejected("NUL byte")),
        row(
            "target longer than allowed",
            new().pax(&[("linkpath", &long("a", 2000))]).symlink("l", "a").end(),
            Rejected("longer than the limit"),
        ),
        row(
            "hard link to what lies outside",
            new().hardlink("l", "../outside/secret").end(),
            Rejected("leaves the image"),
        ),
        row("hard link, absolute", new().hardlink("l", "/etc/passwd").end(), Rejected("no such file")),
        row(
            "hard link through a link that leaves",
            new().symlink("d", "../outside").hardlink("l", "d/secret").end(),
            Rejected("no such file"),
        ),
        row(
            "hard link to a link that leaves",
            new().symlink("s", "../outside/secret").hardlink("h", "s").file("h", "x").end(),
            Harmless(&["h = x", "s -> outside"]),
        ),
        row("hard link to a directory", new().dir("d").hardlink("l", "d").end(), Rejected("cannot be linked")),
        row("hard link to the root", new().hardlink("l", "/").end(), Rejected("cannot be linked")),
        row("hard link to itself", new().file("f", "x").hardlink("f", "f").end(), Harmless(&["f = x"])),
        row("hard link to what comes later", new().hardlink("l", "f").file("f", "x").end(), Rejected("no such file")),
        row(
            "file written over its hard link",
            new().file("f", "x").hardlink("l", "f").file("l", "y").end(),
            Harmless(&["f = x", "l = y"]),
        ),
        row(
            "hard link with content",
            new().file("f", "x").header(Header::new(b"l", b'1').link(b"f").size(5)).padded(b"hello").end(),
            Rejected("malformed"),
        ),
        layered(
            "link in one layer, file through it in the next",
            &[new().symlink("configs", "/outside"), new().file("configs/escape", "x")],
            Harmless(&["configs -> outside", "outside/", "outside/escape = x"]),
        ),
    ]
}

pub(super) fn whiteouts() -> Vec<Row> {
    let new = Archive::new;
    let lower = || new().file("d/a", "x").file("d/sub/b", "x").file("e", "x");
    vec![
        layered("whiteout", &[lower(), new().file("d/.wh.a", "")], Harmless(&["d/", "d/sub/", "d/sub/b = x", "e = x"])),
        layered("whiteout of a directory", &[lower(), new().file(".wh.d", "")], Harmless(&["e = x"])),
        layered("whiteout of the parent", &[lower(), new().file("d/.wh...", "")], Rejected("without a name")),
        layered("whiteout of itself", &[lower(), new().file("d/.wh..", "")], Rejected("without a name")),
        layered("whiteout of nothing", &[lower(), new().file("d/.wh.", "")], Rejected("without a name")),
        layered("climbing whiteout", &[lower(), new().file("../outside/.wh.secret", "")], Rejected("leaves the image")),
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
            "opaque directory, marked last",
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
            "whiteout of a missing file",
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
