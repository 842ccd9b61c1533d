//! Archives with misleading entries, sizes or compression.

use super::{Row, layered, row};
use crate::Outcome::{Harmless, Rejected};
use crate::archive::{Archive, Header, gzip, zstd};

pub(super) fn kinds() -> Vec<Row> {
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
        row("unknown type", new().header(Header::new(b"x", b'Q')).end(), Rejected("unknown type 'Q'")),
        row("volume label", new().header(Header::new(b"x", b'V')).end(), Rejected("unknown type")),
        row("continued file", new().header(Header::new(b"x", b'M')).end(), Rejected("unknown type")),
        row("sparse file", new().header(Header::new(b"x", b'S').size(0)).end(), Rejected("sparse")),
        row(
            "sparse file by pax",
            new().pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"99999999999")]).file("x", "x").end(),
            Rejected("sparse"),
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

pub(super) fn sizes() -> Vec<Row> {
    let new = Archive::new;
    let claims = |field: &[u8]| new().header(Header::new(b"f", b'0').size_field(field)).end();
    let zeros = vec![0; 900 << 10];
    let bomb = (0..7).fold(new(), |archive, number| archive.file(format!("{number}"), &zeros)).end();
    vec![
        row(
            "size beyond the end",
            new().header(Header::new(b"f", b'0').size(700)).padded(b"x").without_end(),
            Rejected("truncated"),
        ),
        row("size beyond all limits", claims(b"77777777777\0"), Rejected("larger than the limit of 1048576")),
        row(
            "size in binary, huge",
            claims(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"),
            Rejected("larger than the limit"),
        ),
        row(
            "size in binary, negative",
            claims(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            Rejected("not a number"),
        ),
        row("size with a sign", claims(b"-0000000001\0"), Rejected("not a number")),
        row("size with other digits", claims(b"00000000009\0"), Rejected("not a number")),
        row(
            "size too small",
            new().header(Header::new(b"f", b'0').size(0)).padded(&[b'x'; 600]).end(),
            Rejected("malformed"),
        ),
        row(
            "directory with content",
            new().header(Header::new(b"d", b'5').size(512)).padded(&[b'x'; 512]).end(),
            Rejected("malformed"),
        ),
        row("pax size, negative", new().pax(&[("size", b"-5")]).file("f", "x").end(), Rejected("malformed")),
        row(
            "pax size, overflowing",
            new().pax(&[("size", b"99999999999999999999")]).file("f", "x").end(),
            Rejected("malformed"),
        ),
        row("pax size, lying", new().pax(&[("size", b"1048000")]).file("f", "x").end(), Rejected("truncated")),
        row(
            "pax record, endless",
            new().with(Header::new(b"x", b'x'), b"99999 path=x\n").file("f", "x").end(),
            Rejected("malformed"),
        ),
        row(
            "pax record, empty",
            new().with(Header::new(b"x", b'x'), b"0 \n").file("f", "x").end(),
            Rejected("malformed"),
        ),
        row(
            "pax record, no number",
            new().with(Header::new(b"x", b'x'), &[b'a'; 600]).file("f", "x").end(),
            Rejected("malformed"),
        ),
        row("pax headers, huge", new().header(Header::new(b"x", b'x').size(4 << 30)).end(), Rejected("exceed 1 MiB")),
        row("long name, huge", new().header(Header::new(b"x", b'L').size(4 << 30)).end(), Rejected("exceed 1 MiB")),
        row("pax headers for nothing", new().pax(&[("path", b"x")]).end(), Rejected("truncated")),
        row(
            "pax headers without end",
            (0..3000).fold(new(), |archive, _| archive.pax(&[("path", b"x")])).end(),
            Rejected("more than the limit of 2000 entries"),
        ),
        row(
            "global headers",
            new().with(Header::new(b"g", b'g'), b"19 path=../escape1\n").file("f", "x").end(),
            Harmless(&["f = x"]),
        ),
        row("bomb of gzip", gzip(&bomb), Rejected("more than 100 times larger")),
        row("bomb of zstd", zstd(&bomb), Rejected("more than 100 times larger")),
        row("bomb of many gzip members", bomb.chunks(64 << 10).flat_map(gzip).collect(), Rejected("times larger")),
        row(
            "too much in all",
            (0..12).fold(new(), |archive, number| archive.file(format!("{number}"), &zeros)).end(),
            Rejected("larger than the limit of 8388608"),
        ),
        row("too large a file", new().file("f", vec![b'x'; (1 << 20) + 1]).end(), Rejected("limit of 1048576")),
        row(
            "too many entries",
            (0..2100).fold(new(), |archive, number| archive.dir(number.to_string())).end(),
            Rejected("more than the limit of 2000 entries"),
        ),
        row(
            "too many implied directories",
            (0..200).fold(new(), |archive, number| archive.file(format!("{number}{}", "/a".repeat(30)), "x")).end(),
            Rejected("more than the limit of 2000 entries"),
        ),
    ]
}

pub(super) fn streams() -> Vec<Row> {
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
        row("cut in a header", good()[..300].to_vec(), Rejected("truncated")),
        row("cut in the content", new().file("f", [b'x'; 2000]).without_end()[..1024].to_vec(), Rejected("truncated")),
        row("gzip, cut", long[..long.len() / 2].to_vec(), Rejected("truncated")),
        row("gzip, header only", vec![0x1f, 0x8b, 8, 0], Rejected("truncated")),
        // Nothing after the end of the archive is read; the digest of the layer covers it.
        row("gzip, wrong checksum", flipped, Harmless(&["f = x"])),
        row(
            "gzip, garbage inside",
            [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0xff; 100]].concat(),
            Rejected("cannot be read"),
        ),
        row("gzip of many members", member(&good()), Harmless(&["f = x"])),
        row("gzip, garbage behind", [gzip(&good()), b"garbage".to_vec()].concat(), Harmless(&["f = x"])),
        row("tar, garbage behind", [good(), vec![b'x'; 5000]].concat(), Harmless(&["f = x"])),
        row(
            "tar, an archive behind the end",
            [good(), new().file("../escape", "x").end()].concat(),
            Harmless(&["f = x"]),
        ),
        row("zstd, cut", zstd(&new().file("f", &random).end())[..9000].to_vec(), Rejected("truncated")),
        row("zstd, garbage inside", [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0xff; 100]].concat(), Rejected("cannot be read")),
        row(
            "zstd, asking for memory",
            vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x01, 0, 0],
            Rejected("cannot be read"),
        ),
        row(
            "zstd, frame to be skipped",
            [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7][..], &zstd(&good())].concat(),
            Harmless(&["f = x"]),
        ),
        row("noise", random, Rejected("malformed")),
        row("wrong checksum", new().raw(&[b'x'; 512]).end(), Rejected("malformed")),
        row("gzip in gzip", gzip(&gzip(&good())), Rejected("truncated")),
    ]
}
