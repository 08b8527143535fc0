//! The arrays of all sources together: which of them are one array of the slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use zkit_core::engine;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::select::Join;

use crate::coordinates::Means;
use crate::dimensions::{Combination, Dimensions, Drift, Held, Place};
use crate::sources::Source;

/// One array of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    let message = format!(
        "`{path}` is in {} and {} other sources, and not in {}",
        sources[members[0].source].url(),
        members.len() - 1,
        sources[lacking].url()
    );
    Error::new(ErrorKind::Mismatch, message).with_hint(
        "--exclude it, or pass --join inner to leave such arrays out or --join outer to fill them up",
    )
}

/// Refuses arrays that the sources do not lie behind each other along, and that do not hold the same in all of them.
///
/// Each is decoded whole, and compared by its digest. Errors: `Mismatch`, which names the array and two stores.
pub(crate) fn check_shared(
    sources: &[Source],
    dimensions: &Dimensions,
    variables: &[Variable],
    combination: &Combination,
    means: Means<'_>,
) -> Result<()> {
    let mut shared: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (number, variable) in variables.iter().enumerate() {
        check_sets(sources, dimensions, variable)?;
        let compared = variable.members.len() > 1
            && variable.joined(dimensions).is_none()
            && !is_coordinate_of(dimensions, variable)
            && combination.coordinates == Drift::Refused;
        if !compared {
            continue;
        }
        check_as_is(sources, dimensions, variable)?;
        for member in &variable.members {
            shared.entry(member.source).or_default().push((number, member.array));
        }
    }
    let mut first: BTreeMap<usize, (usize, engine::Sha256Digest)> = BTreeMap::new();
    for (source, arrays) in shared {
        let nodes: Vec<&ArrayNode> = arrays.iter().map(|&(_, array)| sources[source].array(array)).collect();
        let store = sources[source].store()?;
        let digests = engine::digest(store, &nodes, means.resources, means.observer, means.cancel)?;
        for ((number, _), digest) in arrays.into_iter().zip(digests) {
            let digest = digest?;
            let &mut (other, expected) = first.entry(number).or_insert((source, digest));
            if digest != expected {
                let message = format!(
                    "`{}` is not along the dimension that sources are put together along, and differs between {} and {}",
                    variables[number].path,
                    sources[other].url(),
                    sources[source].url()
                );
                return Err(Error::new(ErrorKind::Mismatch, message)
                    .with_hint("pass --allow coordinates to take the first one, or --exclude it"));
            }
        }
    }
    Ok(())
}

/// Returns whether a variable holds the values of its own dimension, which are aligned already.
pub(crate) fn is_coordinate_of(dimensions: &Dimensions, variable: &Variable) -> bool {
    let [dimension] = variable.dimensions[..] else { return false };
    let key = &dimensions.all[dimension].key;
    variable.path == format!("{}/{}", key.scope, key.name)
}

/// Refuses an array along the joined dimension that two sets have: which of them is meant?
fn check_sets(sources: &[Source], dimensions: &Dimensions, variable: &Variable) -> Result<()> {
    let (Some(joined), false) = (variable.joined(dimensions), is_coordinate_of(dimensions, variable)) else {
        return Ok(());
    };
    let set = |member: &Member| sources[member.source].set;
    let first = variable.members[0];
    let Some(other) = variable.members.iter().find(|member| set(member) != set(&first)) else {
        return Ok(());
    };
    let message = format!(
        "`{}` is along {} in {} and also in {}, which --merge-with adds",
        variable.path,
        dimensions.all[joined].key,
        sources[first.source].url(),
        sources[other.source].url()
    );
    Err(Error::new(ErrorKind::Mismatch, message).with_hint(
        "name the stores among the sources to put them behind each other, or take one with --include",
    ))
}

/// Refuses an array of several sources whose dimensions were joined to others: no one source holds it all.
fn check_as_is(sources: &[Source], dimensions: &Dimensions, variable: &Variable) -> Result<()> {
    for member in &variable.members {
        for &dimension in &variable.dimensions {
            let Place::Aligned(held) = &dimensions.all[dimension].place else { continue };
            if matches!(held[member.source], Some(Held::Listed(_))) {
                let message = format!(
                    "`{}` is in several sources that hold different parts of {}",
                    variable.path, dimensions.all[dimension].key
                );
                return Err(Error::new(ErrorKind::Mismatch, message)
                    .with_hint(format!("--exclude it, or slice {} apart", sources[member.source].url())));
            }
        }
    }
    Ok(())
}
