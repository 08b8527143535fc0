//! What journals remember of sources: texts that differ as soon as the metadata does.

use zkit_core::hierarchy::GroupNode;
use zkit_core::metadata::{ArrayMetadata, Json};

/// Returns the documents of an array as one text, for [`JournalArray`](zkit_core::engine::JournalArray).
pub fn documents_text(metadata: &ArrayMetadata) -> String {
    let documents = ArrayMetadata::documents(metadata);
    let texts = documents.into_iter().map(|(name, document)| format!("{name} {document}"));
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the documents of groups as one text, for [`Header`](zkit_core::engine::Header).
pub fn groups_text(groups: &[GroupNode]) -> String {
    let texts = groups.iter().map(|group| {
        format!(
            "{} {} {}",
            group.path,
            Json::Object(group.document.clone()),
            Json::Object(group.attributes.clone())
        )
    });
    texts.collect::<Vec<_>>().join("\n")
}
