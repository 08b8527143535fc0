//! Pyramids: one image at several resolutions, whose group names the levels. Source: OME-NGFF 0.4 and 0.5, "multiscales".

use zkit_core::hierarchy::GroupNode;
use zkit_core::metadata::Json;

use crate::observe::{ArrayObservation, StoreObservation};

/// Fewer chunks may hold so little that a coarser level has nothing of it.
const WHOLE_LEAST: u64 = 4;

/// Returns the names of the other levels of the pyramid that an array is a level of, if all of those that were written are
/// stored whole: what they show is on each level. Labels are left out, which may vanish from one to the next.
pub(crate) fn whole_levels<'a>(
    store: &'a StoreObservation<'_>,
    array: &ArrayObservation<'_>,
) -> Option<Vec<&'a str>> {
    store.hierarchy.groups.iter().find_map(|group| {
        let below = array.path().strip_prefix(group.path.trim_end_matches('/'))?.strip_prefix('/')?;
        let levels = levels_of(group);
        // a level is an array, or a group of arrays
        let within = |level: &str| {
            let rest = below.strip_prefix(level)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
        };
        let (own, rest) = levels.iter().find_map(|level| Some((*level, within(level)?)))?;
        let others = levels.iter().filter(|level| **level != own).filter_map(|level| {
            let path = format!("{}/{level}{rest}", group.path.trim_end_matches('/'));
            Some((*level, store.array(&path)?.occupancy()?))
        });
        let written: Vec<(&str, (u64, u64))> = others.filter(|(_, (_, stored))| *stored > 0).collect();
        let whole = written.iter().all(|(_, (total, stored))| total == stored);
        let chunks: u64 = written.iter().map(|(_, (_, stored))| stored).sum();
        (whole && chunks >= WHOLE_LEAST).then(|| written.into_iter().map(|(level, _)| level).collect())
    })
}

/// Returns the paths of the levels that a group names and that lie outside of the store.
pub(crate) fn levels_outside(group: &GroupNode) -> Vec<&str> {
    let depth = group.path.split('/').filter(|part| !part.is_empty()).count();
    let leaves = |level: &&str| {
        let mut left = Some(depth);
        for part in level.split('/') {
            left = match part {
                "" | "." => left,
                ".." => left.and_then(|left| left.checked_sub(1)),
                _ => left.map(|left| left + 1),
            };
        }
        level.starts_with('/') || level.contains("://") || left.is_none()
    };
    named_levels(group).into_iter().filter(leaves).collect()
}

/// Returns the paths of the levels that a group names, relative to it; none for labels.
fn levels_of(group: &GroupNode) -> Vec<&str> {
    if attribute(group, "image-label").is_some() { Vec::new() } else { named_levels(group) }
}

fn attribute<'a>(group: &'a GroupNode, name: &str) -> Option<&'a Json> {
    group.attributes.get(name).or_else(|| group.attributes.get("ome")?.get(name))
}

fn named_levels(group: &GroupNode) -> Vec<&str> {
    let images = attribute(group, "multiscales").and_then(Json::as_array).unwrap_or_default();
    let datasets = images.iter().filter_map(|image| image.get("datasets")?.as_array()).flatten();
    datasets.filter_map(|dataset| dataset.get("path")?.as_str()).collect()
}
