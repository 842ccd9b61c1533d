//! What a bundle takes, as it is and as OLM v0 packs it into a ConfigMap.

use std::io::Write;
use std::path::Path;

use bundle::Whole;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A bundle is near the limit from so many bytes on, as OLM v0 packs it.
const NEAR: u64 = 1_048_576 * 85 / 100;

/// Returns the bytes of all files, and what they take as OLM v0 packs them.
pub(super) fn size(root: &Path, whole: &Whole) -> (u64, u64) {
    let all: u64 = whole.files.iter().map(|file| file.size).sum();
    // What is small enough as it is needs no packing: that adds less than a hundredth, and some bytes for each file.
    let most = (all + all / 100 + 64 * whole.files.len() as u64).div_ceil(3) * 4;
    if most <= NEAR {
        return (all, most);
    }
    // What is small enough though hastily compressed is smaller still compressed well, which takes several times as long.
    let hasty = packed(root, whole, Compression::fast());
    (all, if hasty <= NEAR / 10 * 9 { hasty } else { packed(root, whole, Compression::new(6)) })
}

/// Returns what the files of a bundle take, each compressed and in base64.
fn packed(root: &Path, whole: &Whole, level: Compression) -> u64 {
    let each = whole.files.iter().filter_map(|file| {
        let text = std::fs::read(root.join(&file.name)).ok()?;
        let mut encoder = GzEncoder::new(Counted(0), level);
        let packed = encoder.write_all(&text).and_then(|()| encoder.finish()).map_or(0, |packed| packed.0);
        Some(packed.div_ceil(3) * 4)
    });
    each.sum()
}

/// Counts what is written to it.
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
