//! `bad-shard-index`: the index of a shard cannot be right.

use zkit_core::engine::ChunkFault;
use zkit_report::{Confidence, Severity};

use super::shared::report_faults;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "bad-shard-index",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Headers,
    summary: "the index of a shard cannot be right",
    explanation: "\
The index says where the inner chunks of a shard lie. Its checksum differs, an entry leads behind the end of
the object, or two entries share bytes: none of the inner chunks can be trusted.

On disk: at the end of a shard (or its start), 16 bytes an inner chunk, usually with a crc32c. A shard full
of NUL bytes is what a file system leaves after a crash.

Legitimate: entries that are all ones mark inner chunks that are absent; equal entries for equal inner
chunks save room. Neither is reported.

What to do: write these shards again.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_faults(
        store,
        finder,
        ChunkFault::ShardIndex,
        ("has an index that cannot be right", "write these shards again"),
        |_, _| {},
    );
}

#[cfg(test)]
mod tests {
    use crate::testing::TestStore;

    #[test]
    fn an_entry_behind_the_end_is_found() {
        let zarr_json = br#"{"zarr_format":3,"node_type":"array","shape":[2],"data_type":"uint8","fill_value":0,
            "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},
            "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[1],"codecs":[{"name":"bytes"}],
            "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}]}"#;
        let shard = |second: u64| [vec![7, 7], [0, 1, second, 1].map(u64::to_le_bytes).concat()].concat();
        let store = TestStore::bare().file("zarr.json", zarr_json).file("c/0", &shard(1 << 61));
        assert_eq!(store.findings("bad-shard-index").len(), 1);
        assert_eq!(store.file("c/0", &shard(1)).findings("bad-shard-index").len(), 0);
    }
}
