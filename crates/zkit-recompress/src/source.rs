//! The stores that are copied: opened, listed, and what of each is taken.

use std::collections::HashSet;

use zkit_cli::Shell;
use zkit_cli::writing::{Job, WriteArgs};
use zkit_core::engine::{self, SurveyDepth};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::hierarchy::{ArrayNode, Broken, Consolidated, Hierarchy, Reviewed};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::Defect;
use zkit_core::plan::Stored;
use zkit_core::publish::{self, Consolidate};
use zkit_core::store::Store;

use crate::args::{RecompressArgs, Route};

/// A store that is open, with what is taken of it.
pub(crate) struct Source {
    pub(crate) url: StoreUrl,
    pub(crate) destination: StoreUrl,
    pub(crate) hierarchy: Hierarchy,
    /// Its groups, and what of it is not copied.
    pub(crate) reviewed: Reviewed,
    pub(crate) arrays: Vec<Listed>,
    /// Arrays that --first leaves out.
    pub(crate) left_out: Vec<Listed>,
}

/// An array, and what a listing says of it.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) array: ArrayNode,
    pub(crate) stored: Stored,
    pub(crate) fingerprint: u128,
}

impl Source {
    /// Opens a store and lists the chunks of the arrays that are to be copied.
    pub(crate) fn open(args: &RecompressArgs, route: Route, shell: &Shell) -> anyhow::Result<Self> {
        publish::check_apart(&route.source, &route.destination)?;
        let options = args.access.store_options(shell)?;
        let mut hierarchy = Hierarchy::open(&route.source, &options)?;
        hierarchy.readable_store()?;
        let reviewed = review(args, &mut hierarchy, shell)?;
        let arrays = args.select.take(hierarchy.arrays.iter().collect())?;
        let (arrays, left_out) = match args.first {
            Some(first) => split_first(arrays, first),
            None => (arrays, Vec::new()),
        };
        let store = hierarchy.readable_store()?;
        // what is not copied need not be fetched where it is asked for
        let unread = SurveyDepth::Source { read: false };
        let depth = match args.write.source_check.takes_objects(&route.source) {
            true => SurveyDepth::Listing { sample_most: 0 },
            false => SurveyDepth::Source { read: !args.write.dry_run },
        };
        let arrays = list(store, &arrays, depth, shell)?;
        let left_out = list(store, &left_out, unread, shell)?;
        Ok(Self { url: route.source, destination: route.destination, hierarchy, reviewed, arrays, left_out })
    }

    /// Returns what is to be written of it.
    pub(crate) fn job<'a>(&'a self, args: &WriteArgs) -> Result<Job<'a>, Error> {
        let as_it_is = match self.hierarchy.consolidated {
            Consolidated::None => Consolidate::No,
            _ => Consolidate::Yes,
        };
        Ok(Job {
            destination: &self.destination,
            sources: std::slice::from_ref(&self.hierarchy.url),
            source: self.store()?,
            parts: &[],
            consolidate: args.consolidate.or(as_it_is),
        })
    }

    /// Returns the store behind it.
    pub(crate) fn store(&self) -> Result<&Store, Error> {
        self.hierarchy.readable_store()
    }
}

/// Refuses a store of which something that is copied is not known, or names what is left out of it.
fn review(args: &RecompressArgs, source: &mut Hierarchy, shell: &Shell) -> Result<Reviewed, Error> {
    source.look_beside()?;
    let filter = args.select.filter();
    let groups = source.groups.iter().map(|group| group.path.clone());
    let arrays = source.arrays.iter().map(|array| array.path.clone()).filter(|path| filter.takes(path));
    let needed: HashSet<String> = groups.chain(arrays).chain(["/".to_owned()]).collect();
    let concerns = |defect: &Defect| filter.concerns(defect, &|path| needed.contains(path));
    let broken = if args.skip_broken { Broken::LeaveOut } else { Broken::Refuse };
    let reviewed = source.review(&concerns, broken).map_err(|error| {
        let hint = error.hint().unwrap_or_default();
        let hint = format!("{hint}; --skip-broken leaves out everything that is broken");
        error.with_hint(hint)
    })?;
    for left_out in reviewed.left_out() {
        let message = format!("not copied: {} `{}`: {}", left_out.what, left_out.path, left_out.why);
        shell.observer().event(Event::Warning(message));
    }
    Ok(reviewed)
}

fn list(
    store: &Store,
    arrays: &[&ArrayNode],
    depth: SurveyDepth,
    shell: &Shell,
) -> Result<Vec<Listed>, Error> {
    let surveys = engine::survey(store, arrays, depth, shell.observer(), shell.cancel())?;
    let mut listed = Vec::with_capacity(arrays.len());
    for (array, survey) in arrays.iter().zip(surveys) {
        // what cannot be read is no absent chunk: a copy without it would hold fill values in its place
        let listing = match survey.listing {
            Some(listing) if !survey.unreadable => listing,
            _ => {
                let unreadable = |defect: &&Defect| matches!(defect.rule, "unreadable" | "dangling-link");
                let what = survey.defects.iter().find(unreadable).or(survey.defects.first());
                let what = what.map_or_else(String::new, |defect| format!(": {}", defect.message));
                let message = format!("could not list the chunks of `{}`{what}", array.path);
                return Err(Error::new(ErrorKind::Unreadable, message)
                    .with_hint("mend the source, or --exclude the array"));
            }
        };
        let fingerprint = listing.fingerprint;
        listed.push(Listed { array: (*array).clone(), stored: listing.into(), fingerprint });
    }
    Ok(listed)
}

/// Returns the coordinates and the first variables, and the other variables.
fn split_first(arrays: Vec<&ArrayNode>, first: usize) -> (Vec<&ArrayNode>, Vec<&ArrayNode>) {
    let mut variables = 0;
    arrays.into_iter().partition(|array| {
        let coordinate = is_coordinate(array);
        variables += usize::from(!coordinate);
        coordinate || variables <= first
    })
}

/// Returns whether an array is small beside the variables: of one dimension or none.
pub(crate) fn is_coordinate(array: &ArrayNode) -> bool {
    array.metadata.shape().len() < 2
}
