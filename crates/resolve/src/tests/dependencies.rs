//! Reports on catalogs and conflicts.

use super::sample::read;
use crate::dependencies::check;
use crate::explain::explain;
use crate::pool::Pool;
use crate::resolver::{Resolution, resolve};

fn shown(lines: &str) -> String {
    let (sources, _) = read(lines);
    let pool = Pool::new(&sources, "here");
    let mut out = String::new();
    for finding in check(&pool, 0) {
        let mark = if finding.head { "!" } else { " " };
        out += &format!("{mark} {} ({}): {}\n", finding.bundle.name, finding.channel, finding.reason);
        finding.hints.iter().for_each(|hint| out += &format!("    {hint}\n"));
    }
    out
}

#[test]
fn bundles_that_cannot_be_installed_are_found() {
    let catalog = "catalog cat
        a/stable*: a.v1 needs=f:>=2.0.0; a.v2 r=a.v1 needs=Foo needs=none:>=1.0.0
        b/stable*: b.v1 needs=f:1.0.0; b.v2 r=b.v1 needs=f:2.0.0 needs=Bar; b.v3 s=b.v2 needs=Nowhere
        c/stable*: c.v1 needs=a:2.0.0
        d/stable*: d.v1 needs=f:2.0.0 needs=g:1.0.0
        e/stable*: e.v1 needs=Self gives=Self
        f/stable*: f.v1; f.v2 s=f.v1 gives=Only
        g/stable*: g.v1 gives=Only";
    insta::assert_snapshot!(shown(catalog), @r#"
    ! a.v2 (stable): it requires Foo (g/v1)
        no bundle here provides it
    ! a.v2 (stable): it requires package none >=1.0.0
        no catalog here has package "none"
    ! b.v3 (stable): it requires Nowhere (g/v1)
        no bundle here provides it
    ! c.v1 (stable): what it requires cannot be installed with it
        a.v2 requires Foo (g/v1)
          no bundle here provides it
        c.v1 requires package a 2.0.0
          a.v2 requires Foo (g/v1) in its turn
    ! d.v1 (stable): what it requires cannot be installed with it
        only one bundle can provide Only (g/v1): f.v2 and g.v1
        d.v1 requires package f 2.0.0
          f.v2 provides Only, which has another provider
        d.v1 requires package g 1.0.0
          g.v1 provides Only, which has another provider
    "#);
    let other = format!("{catalog}\ncatalog other\nx/stable*: x.v1 gives=Foo gives=Nowhere\nnone/a: none.v1");
    insta::assert_snapshot!(shown(&other), @r"
    ! d.v1 (stable): what it requires cannot be installed with it
        only one bundle can provide Only (g/v1): f.v2 and g.v1
        d.v1 requires package f 2.0.0
          f.v2 provides Only, which has another provider
        d.v1 requires package g 1.0.0
          g.v1 provides Only, which has another provider
    ");
}

fn explained(lines: &str) -> String {
    let (sources, state) = read(lines);
    let pool = Pool::new(&sources, "here");
    match resolve(&pool, &state) {
        Resolution::Unsatisfiable(conflict) => explain(&pool, &state, &conflict).join("\n"),
        other => format!("{other:?}"),
    }
}

#[test]
fn conflicts_are_explained() {
    insta::assert_snapshot!(explained("catalog cat\nb/stable*: b.v1 needs=f:1.0.0; b.v2 r=b.v1 needs=f:1.0.0\nf/stable*: f.v1; f.v2 s=f.v1\nsub b"), @r"
    package b of cat offers b.v2 and b.v1
    b.v1 and b.v2 require package f 1.0.0
      f.v1 would do, but in channel stable it is skipped by f.v2
      not in the range: f.v2
    ");
    insta::assert_snapshot!(explained("catalog cat\na/stable*: a.v2; a.v3 r=a.v2\ncsv a.v2\nsub a"), @r"
    package a of cat offers a.v3 and a.v2
    a.v2 is installed without a Subscription, so that nothing may take its place
    only one bundle of package a can be installed: a.v2 (installed), a.v3 and a.v2
    ");
    insta::assert_snapshot!(explained("catalog cat\na/stable*: a.v1 gives=Foo\nb/stable*: b.v1 gives=Foo\nsub a\nsub b"), @r"
    package a of cat offers a.v1
    package b of cat offers b.v1
    only one bundle can provide Foo (g/v1): a.v1 and b.v1
    ");
    insta::assert_snapshot!(explained("catalog cat\na/stable*: a.v1\nsub a @fast installed=a.v1\ncsv a.v1"), @r#"
    package a of catalog cat has no channel "fast"
      its channels are stable
      as long as the Subscription that installed a.v1 names it, nothing is resolved
    "#);
    insta::assert_snapshot!(explained("catalog cat\na/stable*: a.v1\ncatalog other\nb/stable*: b.v1\nsub b"), @r#"
    catalog cat has no package "b"
      but other has
    "#);
    insta::assert_snapshot!(explained("catalog cat\na/stable*: a.v1; a.v2 r=a.v1\nsub a start=a.v3"), @r#"
    package a of catalog cat has no bundle "a.v3" there
      there is a.v2 and a.v1
    "#);
    insta::assert_snapshot!(explained("catalog cat\na/stable*: a.v1 needs=Foo\nf/stable*: f.v1 gives=Foo needs=Bar\ng/stable*: g.v1 gives=Foo deprecated\nsub a"), @r"
    package a of cat offers a.v1
    g.v1 is never installed: it has the property olm.deprecated
    f.v1 requires Bar (g/v1)
      no bundle here provides it
    a.v1 requires Foo (g/v1)
      f.v1 requires Bar (g/v1) in its turn
      g.v1 is never installed (olm.deprecated)
    ");
}
