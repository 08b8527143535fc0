//! `cargo xtask fuzz-seeds`: real metadata, frames and shard indexes from `fixtures/`, one file a seed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::{root, say};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Chunks longer than this make slow seeds.
const LONGEST_SEED: usize = 64 * 1024;

/// Writes `fuzz/corpus/TARGET/NAME` for each target.
pub(crate) fn run() -> Result<()> {
    let fixtures = root().join("fixtures");
    let mut seeds = Seeds::default();
    for file in files_below(&fixtures)? {
        let bytes = std::fs::read(&file).with_context(|| format!("could not read {}", file.display()))?;
        let name =
            file.strip_prefix(&fixtures).unwrap_or(&file).display().to_string().replace(['/', '\\'], "-");
        for target in targets_of(&file, &bytes) {
            seeds.write(target, &name, &bytes)?;
        }
    }
    say(&format!("wrote {} seeds below fuzz/corpus", seeds.written));
    Ok(())
}

#[derive(Default)]
struct Seeds {
    written: usize,
}

impl Seeds {
    fn write(&mut self, target: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let folder = root().join("fuzz").join("corpus").join(target);
        std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
        let file = folder.join(name);
        std::fs::write(&file, bytes).with_context(|| format!("could not write {}", file.display()))?;
        self.written += 1;
        Ok(())
    }
}

/// Which fuzz targets a file of a store is a seed for.
fn targets_of(file: &Path, bytes: &[u8]) -> Vec<&'static str> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if matches!(name.as_ref(), "zarr.json" | ".zarray" | ".zattrs" | ".zgroup" | ".zmetadata") {
        return vec!["metadata"];
    }
    if bytes.len() > LONGEST_SEED {
        return Vec::new();
    }
    let mut targets = Vec::new();
    if bytes.starts_with(b"PK\x03\x04") {
        targets.push("zip_store");
    }
    if name.ends_with(".kerchunk.json") {
        targets.push("kerchunk_json");
    }
    if bytes.starts_with(b"PAR1") {
        targets.push("kerchunk_parquet");
    }
    if name == "attributes.json" {
        targets.push("n5");
    }
    if is_blosc(bytes) {
        targets.push("blosc_frame");
    }
    if bytes.starts_with(&ZSTD_MAGIC) {
        targets.push("zstd_frame");
    }
    if file.components().any(|part| part.as_os_str().to_string_lossy().contains("shard")) {
        targets.push("shard_index");
    }
    targets
}

/// Whether the header is that of a blosc frame whose length is the file's.
fn is_blosc(bytes: &[u8]) -> bool {
    let Some([2, 1, _, _, _, _, _, _, _, _, _, _, a, b, c, d]) = bytes.first_chunk::<16>() else {
        return false;
    };
    u32::from_le_bytes([*a, *b, *c, *d]) as usize == bytes.len()
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("could not list {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("could not list {}", folder.display()))?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}
