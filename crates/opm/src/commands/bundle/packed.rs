//! The size of a bundle, raw and packed into a ConfigMap by OLM v0.

use std::io::Write;
use std::path::Path;

use bundle::Whole;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The packed size in bytes that counts as near the limit.
const NEAR_LIMIT: u64 = 1_048_576 * 85 / 100;

/// Returns the total size of all files, raw and as OLM v0 packs them.
pub(super) fn size(root: &Path, whole: &Whole) -> (u64, u64) {
    let all: u64 = whole.files.iter().map(|file| file.size).sum();
    // Small bundles need no compression: gzip adds less than 1 % and a few bytes per file.
    let most = (all + all / 100 + 64 * whole.files.len() as u64).div_ceil(3) * 4;
    if most <= NEAR_LIMIT {
        return (all, most);
    }
    // If fast compression is already small enough, skip the default level, which takes several times as long.
    let fast = packed(root, whole, Compression::fast());
    (all, if fast <= NEAR_LIMIT / 10 * 9 { fast } else { packed(root, whole, Compression::new(6)) })
}

/// Returns the size of all files of a bundle, each compressed and base64-encoded.
fn packed(root: &Path, whole: &Whole, level: Compression) -> u64 {
    let each = whole.files.iter().filter_map(|file| {
        let text = std::fs::read(root.join(&file.name)).ok()?;
        let mut encoder = GzEncoder::new(Counted(0), level);
        let packed = encoder.write_all(&text).and_then(|()| encoder.finish()).map_or(0, |packed| packed.0);
        Some(packed.div_ceil(3) * 4)
    });
    each.sum()
}

/// A writer that counts bytes.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
