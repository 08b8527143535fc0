//! What the journal of a copy says the run is about.

use zkit_cli::writing::{self, Before, SourceCheckArg};
use zkit_core::engine::{Header, JournalArray};

use crate::args::RecompressArgs;
use crate::layout_args::Layouts;
use crate::source::Source;
use crate::targets::Chosen;

/// Returns what a run is about, as its journal says it; `chosen` is empty where that is not known yet, and `before` is what it
/// is compared with, if it is not written.
pub(crate) fn header(
    args: &RecompressArgs,
    layouts: &Layouts,
    source: &Source,
    (chosen, before): (&[Chosen], Option<Before>),
) -> Header {
    let mut options = args.canonical();
    options.extend(layouts.canonical());
    let objects = match before {
        None => true,
        Some(Before::Unfinished) => args.write.source_check.takes_objects(&source.url),
        // they are listed in any case
        Some(Before::Published) => args.write.source_check != SourceCheckArg::Metadata,
    };
    let arrays = source.arrays.iter().enumerate().map(|(at, listed)| JournalArray {
        path: listed.array.path.clone(),
        fingerprint: if objects { listed.fingerprint } else { 0 },
        source_document: writing::documents_text(&listed.array.metadata),
        target_codec: chosen
            .get(at)
            .filter(|chosen| chosen.why.is_some())
            .map_or_else(String::new, |chosen| writing::text_of(&chosen.target.codec)),
    });
    Header {
        options,
        source: source.hierarchy.url.clone(),
        groups: writing::groups_text(&source.hierarchy.groups),
        arrays: arrays.collect(),
    }
}
