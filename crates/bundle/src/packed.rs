//! The size of a bundle, raw and packed into a ConfigMap by OLM v0.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::loaded::LoadedBundle;

/// The packed size in bytes that counts as near the limit.
const NEAR_LIMIT: u64 = 1_048_576 * 85 / 100;

impl LoadedBundle {
    /// Returns the total size of all files, raw and as OLM v0 packs them.
    pub(crate) fn size(&self) -> (u64, u64) {
        let files = &self.whole.files;
        let all: u64 = files.iter().map(|file| file.size).sum();
        // Small bundles need no compression: gzip adds less than 1 % and a few bytes per file.
        let most = (all + all / 100 + 64 * files.len() as u64).div_ceil(3) * 4;
        if most <= NEAR_LIMIT {
            return (all, most);
        }
        // If fast compression is already small enough, skip the default level, which takes several times as long.
        let fast = self.packed(Compression::fast());
        (all, if fast <= NEAR_LIMIT / 10 * 9 { fast } else { self.packed(Compression::new(6)) })
    }

    /// Returns the size of all files, each compressed and base64-encoded.
    fn packed(&self, level: Compression) -> u64 {
        let each = self.contents().map(|text| {
            let mut encoder = GzEncoder::new(Counted(0), level);
            let packed = encoder.write_all(&text).and_then(|()| encoder.finish()).map_or(0, |packed| packed.0);
            packed.div_ceil(3) * 4
        });
        each.sum()
    }
}

/// A writer that counts bytes.
pub(crate) struct Counted(pub(crate) u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
