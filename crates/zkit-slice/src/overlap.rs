//! Arrays that several sources hold: what they hold of one place must be the same, as readers decode it.

use std::collections::HashSet;

use zkit_core::engine::{self, Sha256Digest};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::grid::{Region, for_each_index, unravel};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::select::{Coordinate, DriftKind, Rounding, concatenate, read_decoded};

use crate::coordinates::Means;
use crate::dimensions::{Combination, Dimensions, Drift, Held, Overridden, Place};
use crate::sources::Source;
use crate::stacked::described;
use crate::variables::{Member, Variable, is_coordinate_of, node};

/// Arrays that decode to more are compared by the digests of their elements alone.
const DECODED_BYTES_MOST: u64 = 64 << 20;

/// Refuses arrays that several sources hold and that do not hold the same; returns those that differ and may.
///
/// Most are compared by digests; where these differ, and where sources hold different parts, as decoded: the same time in
/// other units is the same. Errors: `Mismatch`, which names the array, two stores, and the first difference.
pub(crate) fn check(
    sources: &[Source],
    dimensions: &Dimensions,
    variables: &[Variable],
    combination: &Combination,
    means: Means<'_>,
) -> Result<Vec<Overridden>> {
    let mut whole: Vec<&Variable> = Vec::new();
    for variable in variables.iter().filter(|variable| variable.members.len() > 1) {
        if is_coordinate_of(dimensions, variable) {
            continue;
        }
        let overlap = Overlap { sources, dimensions, variable, means };
        match overlap.parts() {
            Parts::Whole => whole.push(variable),
            Parts::Apart => {}
            Parts::Overlapping => overlap.check()?,
        }
    }
    check_whole(sources, &whole, combination, means)
}

/// Compares arrays that all their members hold whole.
fn check_whole(
    sources: &[Source],
    variables: &[&Variable],
    combination: &Combination,
    means: Means<'_>,
) -> Result<Vec<Overridden>> {
    let mut first: Vec<Option<(Member, Sha256Digest)>> = vec![None; variables.len()];
    let mut overridden = Vec::new();
    let describing: HashSet<String> = sources.iter().flat_map(described).collect();
    for source in 0..sources.len() {
        let of =
            |variable: &&Variable| variable.members.iter().copied().find(|member| member.source == source);
        let held: Vec<(usize, Member)> =
            variables.iter().enumerate().filter_map(|(at, variable)| Some((at, of(variable)?))).collect();
        if held.is_empty() {
            continue;
        }
        let nodes: Vec<&ArrayNode> = held.iter().map(|&(_, member)| node(sources, member)).collect();
        let store = sources[source].store()?;
        let digests = engine::digest(store, &nodes, means.resources, means.observer, means.cancel)?;
        for ((at, member), digest) in held.into_iter().zip(digests) {
            let digest = digest?;
            let &mut (one, expected) = first[at].get_or_insert((member, digest));
            if digest == expected {
                continue;
            }
            let describes = describing.contains(&variables[at].path);
            let pair = Differing { sources, one, other: member, describes };
            overridden.extend(pair.judge(combination, means)?);
        }
    }
    Ok(overridden)
}

/// Two arrays whose elements are not the same bytes.
struct Differing<'a> {
    sources: &'a [Source],
    one: Member,
    other: Member,
    /// Whether it says where or when data is.
    describes: bool,
}

impl Differing<'_> {
    /// Says whether the two decode to the same, or may differ: by rounding where they describe data, by anything else where
    /// they are data. `--allow coordinates` is needed for either.
    fn judge(&self, combination: &Combination, means: Means<'_>) -> Result<Option<Overridden>> {
        let decoded = (decoded(self.sources, self.one, means)?, decoded(self.sources, self.other, means)?);
        let (url, other_url) = (self.sources[self.one.source].url(), self.sources[self.other.source].url());
        let path = &node(self.sources, self.one).path;
        let (drift, told) = match &decoded {
            (Some(one), Some(other)) if same_shape(self.sources, self.one, self.other) => {
                let drift = one.drift(other, Rounding::OfSinglePrecision);
                if drift.is_none() && one.len() == other.len() && concatenate(&[one, other]).is_ok() {
                    return Ok(None);
                }
                (
                    drift.map(|drift| (drift, one)),
                    drift.map(|drift| first_difference((one, url), (other, other_url), drift.at, drift.at)),
                )
            }
            _ => (None, None),
        };
        let rounding = drift.is_some_and(|(drift, _)| drift.kind == DriftKind::Rounding);
        if combination.coordinates == Drift::Allowed && (rounding || !self.describes) {
            return Ok(Some(match drift {
                Some((drift, one)) => Overridden::of(one, &drift, url, other_url),
                None => Overridden {
                    path: path.clone(),
                    taken: url.to_owned(),
                    passed_over: other_url.to_owned(),
                    count: 0,
                    largest: None,
                },
            }));
        }
        let more = told.map_or_else(String::new, |told| format!(": {told}"));
        let message = format!(
            "`{path}` is not along the dimension that sources are put together along, and differs between {url} and {other_url}{more}"
        );
        let hint = match rounding {
            true => "they differ by rounding: pass --allow coordinates to take the first one",
            false => "--exclude it, or slice the sources apart",
        };
        Err(Error::new(ErrorKind::Mismatch, message).with_hint(hint))
    }
}

fn same_shape(sources: &[Source], one: Member, other: Member) -> bool {
    let dimensions =
        |member: Member| -> Vec<_> { sources[member.source].axes.keys_of(member.array).collect() };
    node(sources, one).metadata.shape() == node(sources, other).metadata.shape()
        && dimensions(one) == dimensions(other)
}

/// Returns the elements of a member as readers decode them; `None` where they are many, or of a type that is only bytes.
fn decoded(sources: &[Source], member: Member, means: Means<'_>) -> Result<Option<Coordinate>> {
    let array = node(sources, member);
    let region = Region::whole(array.metadata.shape());
    if array.metadata.decoded_bytes().is_none_or(|bytes| bytes > DECODED_BYTES_MOST)
        && array.metadata.data_type.item_bytes().is_some()
    {
        return Ok(None);
    }
    let store = sources[member.source].store()?;
    match read_decoded(store, array, &region, means.resources.memory_bytes, means.context()) {
        Ok(decoded) => Ok(Some(decoded)),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::OverBudget) => Ok(None),
        Err(error) => Err(error),
    }
}

fn first_difference(
    (one, url): (&Coordinate, &str),
    (other, other_url): (&Coordinate, &str),
    at: usize,
    other_at: usize,
) -> String {
    format!("the first difference is {} in {url} and {} in {other_url}", one.show(at), other.show(other_at))
}

/// What of an array its members hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// All of it, each.
    Whole,
    /// Each a part that no other has.
    Apart,
    /// Parts of which some places are in several.
    Overlapping,
}

/// One array of which sources hold different parts.
struct Overlap<'a> {
    sources: &'a [Source],
    dimensions: &'a Dimensions,
    variable: &'a Variable,
    means: Means<'a>,
}

impl Overlap<'_> {
    fn parts(&self) -> Parts {
        let set = |member: &Member| self.sources[member.source].set;
        let first = set(&self.variable.members[0]);
        if self.variable.joined(self.dimensions).is_some() {
            let one_set = self.variable.members.iter().all(|member| set(member) == first);
            return if one_set { Parts::Apart } else { Parts::Overlapping };
        }
        let listed = |member: &Member| {
            self.variable.dimensions.iter().any(|&dimension| match &self.dimensions.all[dimension].place {
                Place::Aligned(held) => matches!(held[member.source], Some(Held::Listed(_))),
                Place::Joined(_) => false,
            })
        };
        if self.variable.members.iter().any(listed) { Parts::Overlapping } else { Parts::Whole }
    }

    /// Refuses an array of which two sources hold other values of one place, or which no source could be taken for.
    fn check(&self) -> Result<()> {
        let members = &self.variable.members;
        let mut distinct = self.variable.dimensions.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let joined = self.variable.joined(self.dimensions).map_or(0, |_| 1);
        if partial(self.dimensions, self.variable).len() + joined > 1
            || distinct.len() < self.variable.dimensions.len()
        {
            return Err(self.refused("they hold different parts of several dimensions"));
        }
        let all = members.iter().map(|&member| decoded(self.sources, member, self.means));
        let all: Option<Vec<Coordinate>> = all.collect::<Result<Option<_>>>()?;
        let lengths: Vec<u64> =
            self.variable.dimensions.iter().map(|&at| self.dimensions.all[at].length as u64).collect();
        let elements = lengths.iter().try_fold(1u64, |product, &length| product.checked_mul(length));
        let elements = elements.filter(|&elements| elements <= DECODED_BYTES_MOST / 8);
        let (Some(all), Some(elements)) = (all, elements) else {
            return Err(self.refused("it is too large to be compared"));
        };
        let together = concatenate(&all.iter().collect::<Vec<_>>())
            .map_err(|error| error.context(format!("could not compare `{}`", self.variable.path)))?;
        // where each place was seen first: the number of the member, and its position among all
        let mut seen: Vec<Option<(usize, usize)>> = vec![None; usize::try_from(elements).unwrap_or(0)];
        let mut start = 0;
        for (number, (&member, decoded)) in members.iter().zip(&all).enumerate() {
            for (at, place) in self.flat_places(member, &lengths).into_iter().enumerate() {
                let Some(place) = place else { continue };
                let here = start + at;
                let Some((first, there)) = seen[place] else {
                    seen[place] = Some((number, here));
                    continue;
                };
                let same = match (together.is_missing(there), together.is_missing(here)) {
                    (false, false) => together.values.compare(there, here).is_eq(),
                    (one, other) => one == other,
                };
                if !same {
                    return Err(self.differs((first, there), (number, here), (&together, place, &lengths)));
                }
            }
            start += decoded.len();
        }
        Ok(())
    }

    /// Returns, for each dimension of a member, the position of each of its elements among those of all sources.
    fn places(&self, member: Member) -> Vec<Vec<Option<usize>>> {
        let axes = &self.sources[member.source].axes;
        let of = |key| {
            let dimension = &self.dimensions.all[self.dimensions.position(key)?];
            let length = axes.get(key).map_or(0, |axis| axis.length);
            let mut places = vec![None; usize::try_from(length).unwrap_or(0)];
            for position in 0..dimension.length {
                if let Some(index) = dimension.held(self.sources, member.source, position) {
                    places[index] = Some(position);
                }
            }
            Some(places)
        };
        axes.keys_of(member.array).map(|key| of(key).unwrap_or_default()).collect()
    }

    /// Returns where elements of a member lie among those of all sources, in C order; `None` for those that are not taken.
    fn flat_places(&self, member: Member, lengths: &[u64]) -> Vec<Option<usize>> {
        let places = self.places(member);
        let axes = &self.sources[member.source].axes;
        let to: Vec<Option<usize>> = axes
            .keys_of(member.array)
            .map(|key| {
                let dimension = self.dimensions.position(key)?;
                self.variable.dimensions.iter().position(|&of| of == dimension)
            })
            .collect();
        let counts: Vec<_> = places.iter().map(|places| 0..places.len() as u64).collect();
        let mut flat = Vec::new();
        let mut at = vec![0u64; lengths.len()];
        // visiting cannot fail
        let _ = for_each_index::<()>(&counts, |index| {
            let mut taken = true;
            for ((&index, places), to) in index.iter().zip(&places).zip(&to) {
                match (places[to_usize(index)], to) {
                    (Some(place), Some(axis)) => at[*axis] = place as u64,
                    _ => taken = false,
                }
            }
            let place = at.iter().zip(lengths).fold(0, |place, (&at, &length)| place * length + at);
            flat.push(taken.then(|| to_usize(place)));
            Ok(())
        });
        flat
    }

    fn differs(
        &self,
        (first, there): (usize, usize),
        (number, here): (usize, usize),
        (all, place, lengths): (&Coordinate, usize, &[u64]),
    ) -> Error {
        let url = |number: usize| self.sources[self.variable.members[number].source].url();
        let index = unravel(place as u64, lengths);
        let at: Vec<String> = self
            .variable
            .dimensions
            .iter()
            .zip(&index)
            .map(|(&dimension, &at)| {
                let dimension = &self.dimensions.all[dimension];
                let value = dimension.coordinate.as_ref().map(|coordinate| coordinate.show(to_usize(at)));
                format!("{}={}", dimension.key.name, value.unwrap_or_else(|| at.to_string()))
            })
            .collect();
        let message = format!(
            "`{}` is {} in {} and {} in {}, at {}",
            self.variable.path,
            all.show(there),
            url(first),
            all.show(here),
            url(number),
            at.join(", ")
        );
        Error::new(ErrorKind::Mismatch, message).with_hint(self.without_it(url(number)))
    }

    fn refused(&self, why: &str) -> Error {
        let members = &self.variable.members;
        let url = |member: &Member| self.sources[member.source].url();
        let last = members.last().map_or("", |member| url(member));
        let message =
            format!("`{}` is in {} and also in {last}, and {why}", self.variable.path, url(&members[0]));
        Error::new(ErrorKind::Mismatch, message).with_hint(self.without_it(last))
    }

    fn without_it(&self, url: &str) -> String {
        let path = self.variable.path.trim_start_matches('/');
        format!("leave it out of one of them first: zkit slice {url} --exclude {path} --to WITHOUT.zarr")
    }
}

/// Returns the dimensions along which some source holds only a part of what is taken, the joined one aside.
pub(crate) fn partial(dimensions: &Dimensions, variable: &Variable) -> Vec<usize> {
    let in_part = |at: &usize| match &dimensions.all[*at].place {
        Place::Joined(_) => false,
        Place::Aligned(held) => variable.members.iter().any(|member| match &held[member.source] {
            Some(Held::Listed(list)) => list.iter().any(Option::is_none),
            _ => false,
        }),
    };
    variable.dimensions.iter().copied().filter(in_part).collect()
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
