//! Observing one store, as closely as was asked for.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{ArraySurvey, Closeness, Resources, Sample};
use zkit_core::engine::{Repository, StoreFiles, read_n5};
use zkit_core::engine::{survey_heads, survey_references, survey_store};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::event::Observer;
use zkit_core::hierarchy::{Ahead, ArrayNode, Consolidation, Container, Hierarchy, StoreKind};
use zkit_core::location::StoreUrl;
use zkit_core::store::{ReferenceStore, Store, StoreOptions};
use zkit_rules::Depth;
use zkit_rules::against::SourceObservation;
use zkit_rules::look::{self, Look};
use zkit_rules::observe::{ArrayObservation, StoreObservation};
use zkit_rules::policy::Policy;

use crate::against::{self, Source};
use crate::follow;

/// What holds for all stores of a run.
pub(crate) struct Run<'a> {
    pub(crate) depth: Depth,
    /// How much is decoded at depth `sample`, and the seed of the draw.
    pub(crate) sample: (Sample, u64),
    pub(crate) resources: Resources,
    pub(crate) policy: &'a Policy,
    pub(crate) now: SystemTime,
    pub(crate) options: StoreOptions,
    pub(crate) follow_references: bool,
    /// The store that all were written from.
    pub(crate) source: Option<&'a Source>,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
}

/// Opens a store that is to be observed: what is looked at as a whole is listed first.
pub(crate) fn open(url: &StoreUrl, run: &Run<'_>) -> Result<Hierarchy> {
    let ahead = match run.depth {
        Depth::Metadata => Ahead::Nothing,
        Depth::Listing => Ahead::Keys,
        Depth::Headers | Depth::Sample | Depth::Full => Ahead::Documents,
    };
    open_ahead(url, run, ahead)
}

/// Opens a store again that was observed.
pub(crate) fn reopen(url: &StoreUrl, run: &Run<'_>) -> Result<Hierarchy> {
    open_ahead(url, run, Ahead::Nothing)
}

/// Opens a store for what it is: zip files are read where they lie.
fn open_ahead(url: &StoreUrl, run: &Run<'_>, ahead: Ahead) -> Result<Hierarchy> {
    let hierarchy = Hierarchy::open_ahead(url, &run.options, ahead)?;
    match (hierarchy.container, hierarchy.kind, url.local_path()) {
        (_, StoreKind::Unknown, Some(path))
            if is_named_zip(path) && hierarchy.container == Container::File =>
        {
            damaged_zip(hierarchy, path)
        }
        (_, StoreKind::KerchunkJson, Some(path)) => {
            let (mut read, _) = Hierarchy::read_references(path)?;
            read.store = hierarchy.store;
            Ok(read)
        }
        _ => Ok(hierarchy),
    }
}

fn is_named_zip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
}

/// A file that is named like a zip file and begins like none: an empty one says so already.
fn damaged_zip(hierarchy: Hierarchy, path: &Path) -> Result<Hierarchy> {
    let told = |rule: &str| hierarchy.defects.iter().any(|defect| defect.rule == rule);
    if told("empty-store") || told("pointer-file") {
        Ok(hierarchy)
    } else {
        Hierarchy::open_zip_or_damage(path)
    }
}

/// Puts what nodes say of themselves in the place of consolidated metadata, and returns both; `None` where there is
/// none. Over a network each node costs requests, so that a shallow look takes consolidated metadata at its word; where nothing
/// can be listed, nodes are not found otherwise.
pub(crate) fn read_nodes(hierarchy: &mut Hierarchy, run: &Run<'_>) -> Result<Option<Consolidation>> {
    match &hierarchy.store {
        Some(Store::References(_)) => Ok(None),
        Some(store) if !store.is_listable() => Ok(None),
        Some(store) if !store.is_remote() || run.depth >= Depth::Headers => hierarchy.prefer_nodes(),
        _ => Ok(None),
    }
}

/// Observes a store: of its arrays, those that `nodes` names.
pub(crate) fn observe<'a>(
    (hierarchy, consolidation): (&'a Hierarchy, Option<&'a Consolidation>),
    url: &StoreUrl,
    nodes: &[&'a ArrayNode],
    run: &Run<'a>,
) -> Result<StoreObservation<'a>> {
    let mut observed = StoreObservation::of_metadata(hierarchy, nodes, run.policy, run.now);
    observed.depth = run.depth;
    observed.consolidation = consolidation;
    observed.source = run.source.map(|source| SourceObservation::of_metadata(&source.hierarchy));
    if hierarchy.kind == StoreKind::KerchunkJson {
        look_at_references(&mut observed, url, nodes, run)?;
    }
    if hierarchy.kind == StoreKind::Icechunk && run.depth >= Depth::Listing {
        observed.repository = Some(Repository::read(&Store::open(url, &run.options)?)?);
    }
    if hierarchy.kind == StoreKind::KerchunkParquet && run.depth >= Depth::Listing {
        let store = Store::open(url, &run.options)?;
        observed.repository = Some(Repository::read_parquet_references(&store)?);
        look_at_parquet_references(&mut observed, url, store, run)?;
    }
    if hierarchy.kind == StoreKind::N5 {
        let closeness = match run.depth {
            Depth::Metadata => None,
            Depth::Listing => Some(Closeness::Listing),
            Depth::Headers | Depth::Sample | Depth::Full => Some(Closeness::Headers),
        };
        let container = read_n5(&Store::open(url, &run.options)?, closeness)?;
        observed.n5 = container.datasets;
        observed.files = closeness.map(|_| container.files);
    }
    let Some(store) = &hierarchy.store else { return Ok(observed) };
    if let Store::References(references) = store {
        if run.depth >= Depth::Headers {
            observed.out_of_reach = out_of_reach(&observed, references);
            look_at_heads(&mut observed, store, run)?;
        }
        if run.depth >= Depth::Sample {
            look_at_values(&mut observed, run)?;
        }
        return Ok(observed);
    }
    look_beside(&mut observed, store, run)?;
    let closeness = match run.depth {
        Depth::Metadata => return Ok(observed),
        Depth::Listing => Closeness::Listing,
        Depth::Headers | Depth::Sample | Depth::Full => Closeness::Headers,
    };
    let all: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
    let seen = survey_store(store, &all, nodes, closeness, (run.observer, run.cancel)).map_err(unlistable)?;
    for (array, survey) in observed.arrays.iter_mut().zip(seen.arrays) {
        array.survey = Some(survey);
    }
    observed.files = seen.files;
    if run.depth >= Depth::Sample {
        look_at_values(&mut observed, run)?;
    }
    Ok(observed)
}

/// Looks at the headers of chunks behind references, where those lead to what is there and may be read.
fn look_at_heads(observed: &mut StoreObservation<'_>, store: &Store, run: &Run<'_>) -> Result<()> {
    let in_reach = |array: &ArrayObservation<'_>| !observed.out_of_reach.contains(array.path());
    let places: Vec<usize> = (0..observed.arrays.len())
        .filter(|&at| observed.arrays[at].survey.is_some() && in_reach(&observed.arrays[at]))
        .collect();
    let nodes: Vec<&ArrayNode> = places.iter().map(|&at| observed.arrays[at].node).collect();
    let mut surveys: Vec<ArraySurvey> =
        places.iter().filter_map(|&at| observed.arrays[at].survey.take()).collect();
    survey_heads(store, &nodes, &mut surveys, (run.observer, run.cancel))?;
    for (at, survey) in places.into_iter().zip(surveys) {
        observed.arrays[at].survey = Some(survey);
    }
    Ok(())
}

fn look_at_values(observed: &mut StoreObservation<'_>, run: &Run<'_>) -> Result<()> {
    let sample = if run.depth == Depth::Full { Sample::Full } else { run.sample.0 };
    let look = Look {
        sample: (sample, run.sample.1),
        resources: run.resources,
        observer: run.observer,
        cancel: run.cancel,
    };
    look::read_coordinates(observed, look)?;
    look::scan(observed, look)?;
    against::compare(observed, run)
}

/// Returns the arrays of which some reference leads to what may not be read, or is not there. What is gone is no error here:
/// references travel without their data, and whoever wants to know asks with `--follow-references`.
fn out_of_reach(observed: &StoreObservation<'_>, store: &ReferenceStore) -> BTreeSet<String> {
    // references whose files are damaged are not known
    let unknown = || observed.arrays.iter().filter(|array| array.survey.is_none());
    let mut paths: BTreeSet<String> = unknown().map(|array| array.path().to_owned()).collect();
    let Some(references) = &observed.references else {
        return observed.arrays.iter().map(|array| array.path().to_owned()).collect();
    };
    let targets = &references.targets;
    let away: Vec<bool> = targets.iter().map(|target| !store.leads_to(&target.url)).collect();
    for reference in references.references.iter().filter(|reference| away[reference.target]) {
        let prefixes = reference.key.match_indices('/').map(|(at, _)| &reference.key[..at]);
        let path =
            std::iter::once("").chain(prefixes).find_map(|prefix| observed.array(&format!("/{prefix}")));
        if let Some(array) = path.filter(|array| !paths.contains(array.path())) {
            paths.insert(array.path().to_owned());
        }
    }
    paths
}

/// Reads the documents that lie beside those that the hierarchy came from.
fn look_beside(observed: &mut StoreObservation<'_>, store: &Store, run: &Run<'_>) -> Result<()> {
    if !store.is_remote() || run.depth >= Depth::Listing {
        (observed.v2_twins, observed.v2_twin_defects) = observed.hierarchy.v2_twins()?;
    }
    Ok(())
}

fn look_at_references(
    observed: &mut StoreObservation<'_>,
    url: &StoreUrl,
    nodes: &[&ArrayNode],
    run: &Run<'_>,
) -> Result<()> {
    let (_, mut references) = match url.local_path() {
        Some(path) => Hierarchy::read_references(path)?,
        None => Hierarchy::read_remote_references(url, &run.options)?,
    };
    if run.depth >= Depth::Listing {
        for (array, survey) in observed.arrays.iter_mut().zip(survey_references(nodes, &references)) {
            array.survey = Some(survey);
        }
        if run.follow_references {
            let folder = url.local_path().is_some().then(|| url.parent());
            follow::follow(&mut references, folder, &run.options, run.cancel)?;
        }
    }
    observed.references = Some(references);
    Ok(())
}

/// Reads references in parquet; arrays whose files are gone or damaged are left to the rules of those files.
fn look_at_parquet_references(
    observed: &mut StoreObservation<'_>,
    url: &StoreUrl,
    store: Store,
    run: &Run<'_>,
) -> Result<()> {
    let all: Vec<&ArrayNode> = observed.arrays.iter().map(|array| array.node).collect();
    let parquet = match Hierarchy::read_parquet_references(url, store) {
        Ok((_, parquet)) => parquet,
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(()),
        Err(error) => return Err(error),
    };
    let (mut references, lacking) = parquet.read_all(&all)?;
    let surveys = survey_references(&all, &references);
    for (array, survey) in observed.arrays.iter_mut().zip(surveys) {
        array.survey = (!lacking.contains_key(array.path())).then_some(survey);
    }
    // files that begin and end as they should, and are none
    if let Some(repository) = &mut observed.repository {
        let told: BTreeSet<String> = repository.damaged.iter().map(|(key, _)| key.clone()).collect();
        repository.damaged.extend(lacking.into_values().flatten().filter(|(key, _)| !told.contains(key)));
    }
    if run.follow_references {
        let folder = url.local_path().is_some().then(|| url.parent());
        follow::follow(&mut references, folder, &run.options, run.cancel)?;
    }
    observed.references = Some(references);
    Ok(())
}

/// Returns whether everything that the depth asks for could be read.
pub(crate) fn is_complete(observed: &StoreObservation<'_>) -> bool {
    let surveys = || observed.arrays.iter().filter_map(|array| array.survey.as_ref());
    !observed.hierarchy.unreadable
        && observed.defects("unreadable").next().is_none()
        && !surveys().any(|survey| survey.unreadable)
        && crate::values::is_complete(observed)
        && observed.files.as_ref().is_none_or(|files| files.unlisted.is_none())
        && !(observed.hierarchy.kind == StoreKind::N5 && observed.files.as_ref().is_some_and(leads_away))
        && observed.repository.as_ref().is_none_or(|repository| repository.unread.is_none())
}

/// Returns whether there are links to nothing, or out of the store: blocks may be behind them.
fn leads_away(files: &StoreFiles) -> bool {
    files.dangling.count + files.outside.count > 0
}

fn unlistable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported => error.with_hint("pass --depth metadata, which needs no listing"),
        _ => error,
    }
}
