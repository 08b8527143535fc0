//! The arrays of all sources together: which of them are one array of the slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::select::Join;

use crate::dimensions::{Combination, Dimensions, Place};
use crate::sources::Source;

/// One array of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Member {
    pub(crate) source: usize,
    pub(crate) array: usize,
}

/// One array of the slice, before anything is selected.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) path: String,
    /// Its dimensions, by position; those of its first member.
    pub(crate) dimensions: Vec<usize>,
    /// Where it comes from, in the order of the sources.
    pub(crate) members: Vec<Member>,
}

impl Variable {
    /// Returns the array of its first member.
    pub(crate) fn first<'a>(&self, sources: &'a [Source]) -> &'a ArrayNode {
        node(sources, self.members[0])
    }

    /// Returns which of its dimensions the sources lie behind each other along.
    pub(crate) fn joined(&self, dimensions: &Dimensions) -> Option<usize> {
        let joined = |at: &usize| matches!(dimensions.all[*at].place, Place::Joined(_));
        self.dimensions.iter().copied().find(joined)
    }
}

/// Returns the array of a member.
pub(crate) fn node(sources: &[Source], member: Member) -> &ArrayNode {
    shared(sources, member)
}

/// Returns the array of a member, to be kept.
pub(crate) fn shared(sources: &[Source], member: Member) -> &Arc<ArrayNode> {
    &sources[member.source].arrays[member.array]
}

/// Returns the arrays of all sources, by path.
///
/// Errors: `Mismatch` where an array is not in all sources of a set and the join does not say what then.
pub(crate) fn together(
    sources: &[Source],
    dimensions: &Dimensions,
    combination: &Combination,
) -> Result<Vec<Variable>> {
    let mut members: BTreeMap<&str, Vec<Member>> = BTreeMap::new();
    for (number, source) in sources.iter().enumerate() {
        for &array in &source.taken {
            let member = Member { source: number, array };
            members.entry(&source.array(array).path).or_default().push(member);
        }
    }
    let mut variables = Vec::with_capacity(members.len());
    for (path, members) in members {
        let lacking = lacking(sources, &members);
        if let Some(lacking) = lacking.first() {
            match combination.join {
                Join::Exact => return Err(missing(sources, path, &members, *lacking)),
                Join::Inner => continue,
                Join::Outer => {}
            }
        }
        let first = members[0];
        let keys = sources[first.source].axes.keys_of(first.array);
        let positions =
            keys.map(|key| dimensions.position(key).expect("the dimensions of all sources are put together"));
        variables.push(Variable { path: path.to_owned(), dimensions: positions.collect(), members });
    }
    Ok(variables)
}

/// Returns the sources that lack an array which others of their set have.
fn lacking(sources: &[Source], members: &[Member]) -> Vec<usize> {
    let has = |number: usize| members.binary_search_by_key(&number, |member| member.source).is_ok();
    let set_has = |set: usize| members.iter().any(|member| sources[member.source].set == set);
    (0..sources.len()).filter(|&number| set_has(sources[number].set) && !has(number)).collect()
}

fn missing(sources: &[Source], path: &str, members: &[Member], lacking: usize) -> Error {
    let others = match members.len() - 1 {
        0 => String::new(),
        1 => " and 1 other source".to_owned(),
        others => format!(" and {others} other sources"),
    };
    let (first, lacking) = (sources[members[0].source].url(), sources[lacking].url());
    let message = format!("`{path}` is in {first}{others}, and not in {lacking}");
    Error::new(ErrorKind::Mismatch, message).with_hint(
        "--exclude it, or pass --join inner to leave such arrays out or --join outer to fill them up",
    )
}

/// Returns whether a variable holds the values of its own dimension, which are aligned already.
pub(crate) fn is_coordinate_of(dimensions: &Dimensions, variable: &Variable) -> bool {
    let [dimension] = variable.dimensions[..] else { return false };
    let key = &dimensions.all[dimension].key;
    variable.path == format!("{}/{}", key.scope, key.name)
}
