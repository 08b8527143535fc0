//! Arrays of which not one chunk is stored.

use zkit_report::{Confidence, Severity};

use crate::boxes;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "metadata-only-array",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "an array has metadata and not one chunk, so that all of it reads as fill value",
    explanation: "\
An array was created and never written: xarray's to_zarr(compute=False) without the compute, a job that died before its
first chunk, a copy that took the metadata alone. Readers see an array of the right shape and type, full of fill values.

On disk: v2 has .zarray and .zattrs in the folder, v3 zarr.json and no c/. Coordinates often do have chunks.

Legitimate: arrays that are all fill value are stored like this on purpose by writers that leave out empty chunks. Told
apart by whether siblings or coordinates were written, and by the policy (`sparse = true`).

What to do: write the data again. If it is meant to be empty, say so in zkit.toml: [[audit.variable]] with sparse = true.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    for array in &store.arrays {
        let Some((total, 0)) = array.occupancy() else { continue };
        if total == 0 || store.variable(array.path()).sparse {
            continue;
        }
        let chunks = boxes::whole(array.node.metadata.grid.counts());
        finder
            .array(
                array.path(),
                format!("none of its {total} chunks is stored: all of it reads as fill value"),
            )
            .evidence("chunks_total", total)
            .chunks(chunks.into_iter().collect())
            .remedy("write the data again");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, v2_array};

    #[test]
    fn an_array_without_chunks_is_found_and_a_declared_one_is_not() {
        let store = TestStore::new().array("t2m", &v2_array(&[8], &[2])).array("snow", &v2_array(&[4], &[2]));
        let found = store
            .with_policy("[[variable]]\nmatch = \"snow\"\nsparse = true")
            .findings("metadata-only-array");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/t2m"));
        assert_eq!(found[0].chunks.as_ref().unwrap()[0].last, [3]);
    }
}
