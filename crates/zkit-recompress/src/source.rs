//! The stores that are copied: opened, listed, and what of each is taken.

use std::collections::BTreeSet;

use zkit_cli::Shell;
use zkit_cli::writing::{self, Job, WriteArgs};
use zkit_core::engine::{self, GridParts, Listing, SurveyDepth};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_core::grid::ChunkSet;
use zkit_core::hierarchy::{
    ArrayNode, Broken, Consolidated, Differs, Hierarchy, LeftOut, Reviewed, describing, differences,
    needed_by, with_companions,
};
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
    /// How closely its chunks were listed.
    depth: SurveyDepth,
    pub(crate) arrays: Vec<Listed>,
    /// Paths of those of them that --include does not name: they describe others.
    pub(crate) came_along: Vec<String>,
    /// Arrays that --first leaves out.
    pub(crate) left_out: Vec<Listed>,
}

/// An array, and what a listing says of it.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) array: ArrayNode,
    pub(crate) stored: Stored,
    pub(crate) fingerprint: u128,
    parts: GridParts,
}

impl Source {
    /// Opens a store and lists the chunks of the arrays that are to be copied.
    pub(crate) fn open(args: &RecompressArgs, route: Route, shell: &Shell) -> anyhow::Result<Self> {
        publish::check_apart(&route.source, &route.destination)?;
        let options = args.access.store_options(shell)?;
        let mut hierarchy = Hierarchy::open(&route.source, &options)?;
        hierarchy.readable_store()?;
        let mut reviewed = review(args, &mut hierarchy)?;
        let named = args.select.take(hierarchy.arrays.iter().collect())?;
        let (arrays, left_out) = taken(args, &hierarchy, &named);
        let came_along: Vec<String> = arrays
            .iter()
            .filter(|array| !args.select.filter().takes(&array.path))
            .map(|array| array.path.clone())
            .collect();
        let store = hierarchy.readable_store()?;
        // what is not copied need not be fetched where it is asked for
        let unread = SurveyDepth::Source { read: false };
        let depth = match args.write.source_check.takes_objects(&route.source) {
            true => SurveyDepth::Listing { sample_most: 0 },
            false => SurveyDepth::Source { read: !args.write.dry_run },
        };
        let arrays = list(store, &arrays, (depth, &mut reviewed), shell)?;
        let left_out = list(store, &left_out, (unread, &mut reviewed), shell)?;
        warn_of_left_out(&reviewed, shell);
        Ok(Self {
            url: route.source,
            destination: route.destination,
            hierarchy,
            reviewed,
            depth,
            arrays,
            came_along,
            left_out,
        })
    }

    /// Refuses to publish what was read while the store changed: its documents are read again, and its chunks listed again.
    ///
    /// Fails with kind `Conflict` if anything that was read is not as it was when the store was opened.
    pub(crate) fn check_unchanged(&self, args: &RecompressArgs, shell: &Shell) -> Result<(), Error> {
        let now = Hierarchy::open(&self.url, &args.access.store_options(shell)?)?;
        let store = now.readable_store()?;
        for group in &self.hierarchy.groups {
            let is = now.groups.iter().find(|is| is.path == group.path);
            let texts = [Some(group), is]
                .map(|group| group.map(|group| writing::groups_text(std::slice::from_ref(group))));
            if texts[0] != texts[1] {
                return Err(self.changed(&format!("the metadata of `{}`", group.path), None));
            }
        }
        for Listed { array, .. } in &self.arrays {
            let is = now.array(&array.path).map(|is| writing::documents_text(&is.metadata));
            if is != Some(writing::documents_text(&array.metadata)) {
                return Err(self.changed(&format!("the metadata of `{}`", array.path), None));
            }
        }
        if !store.is_listable() && !args.write.source_check.takes_objects(&self.url) {
            // each chunk would have to be asked for once more
            return Ok(());
        }
        let arrays: Vec<&ArrayNode> = self.arrays.iter().map(|listed| &listed.array).collect();
        let again = engine::survey_again(store, &arrays, self.depth, shell.observer(), shell.cancel())?;
        for (before, listing) in self.arrays.iter().zip(again) {
            if listing.as_ref().map(|listing| listing.fingerprint) != Some(before.fingerprint) {
                let object = listing.and_then(|listing| changed_object(before, &listing));
                return Err(self.changed(&format!("`{}`", before.array.path), object));
            }
        }
        Ok(())
    }

    /// Compares what the documents of a copy say, as they will be read, with those of the source.
    ///
    /// Fails with kind `Mismatch` where a group, dimension name or attribute is not as it was; what the two formats say in different
    /// ways is the same.
    pub(crate) fn check_documents(&self, copy: &Hierarchy) -> Result<(), Error> {
        let copied: BTreeSet<&str> = (self.arrays.iter().map(|listed| listed.array.path.as_str()))
            .chain(self.reviewed.groups().iter().map(|group| group.path.as_str()))
            .collect();
        let found = differences(&self.hierarchy, copy, &|path| copied.contains(path));
        // names of types differ between formats; elements are compared by themselves
        let lost = found.iter().find(|one| one.left.is_some() && one.what != Differs::DataType);
        lost.map_or(Ok(()), |one| {
            let say = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
            let message = format!(
                "the copy of `{}` differs from its source in its {}: {} there, {} in the copy; nothing was published",
                one.path,
                one.what.name(),
                say(&one.left),
                say(&one.right)
            );
            Err(Error::new(ErrorKind::Mismatch, message))
        })
    }

    fn changed(&self, what: &str, object: Option<String>) -> Error {
        let object = object.map_or_else(String::new, |object| format!(" ({object})"));
        let url = &self.url;
        let message = format!("{what} of {url} changed while it was read{object}; nothing was published");
        Error::new(ErrorKind::Conflict, message)
            .with_hint("run the same command with --restart once nothing writes there")
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

/// Refuses a store of which something that is copied is not known.
fn review(args: &RecompressArgs, source: &mut Hierarchy) -> Result<Reviewed, Error> {
    source.look_beside()?;
    let filter = args.select.filter();
    let arrays = &source.arrays;
    let taken: Vec<usize> = (0..arrays.len()).filter(|&at| filter.takes(&arrays[at].path)).collect();
    let mut needed = needed_by(arrays, &taken, None);
    // all groups are copied
    needed.extend(source.groups.iter().map(|group| group.path.clone()));
    let concerns = |defect: &Defect| filter.concerns(defect, &|path| needed.contains(path));
    let broken = if args.skip_broken { Broken::LeaveOut } else { Broken::Refuse };
    source.review(&concerns, broken).map_err(|error| match args.skip_broken {
        true => error,
        false => {
            let hint = error.hint().unwrap_or_default();
            let hint = format!("{hint}; --skip-broken leaves out everything that is broken");
            error.with_hint(hint)
        }
    })
}

/// Adds the objects of an array that are no chunks of its grid: no reader sees them, and the copy does not have them.
fn leave_out_strays(reviewed: &mut Reviewed, url: &str, array: &ArrayNode, listing: &Listing) {
    let strays = [
        (&listing.orphans, "chunks outside the grid"),
        (&listing.foreign, "objects that are no chunks of it"),
    ];
    for (keys, why) in strays.into_iter().filter(|(keys, _)| keys.count > 0) {
        reviewed.leave_out(LeftOut {
            store: url.to_owned(),
            path: array.path.clone(),
            what: zkit_report::format::counted(keys.count, "object", "objects"),
            why: format!("{why}: {}", keys.in_words()),
        });
    }
}

/// Says what of a store is not copied.
fn warn_of_left_out(reviewed: &Reviewed, shell: &Shell) {
    for left_out in reviewed.left_out() {
        let message = format!("not copied: {} `{}`: {}", left_out.what, left_out.path, left_out.why);
        shell.observer().event(Event::Warning(message));
    }
}

/// Says which object of an array changed, as far as listings tell.
fn changed_object(before: &Listed, now: &Listing) -> Option<String> {
    let (first, last) = before.parts.first_difference(&now.parts)?;
    let array = &before.array;
    let last = last.min(array.metadata.grid.total()?.checked_sub(1)?);
    let key_of = |position: u64| {
        let mut key = String::new();
        array.chunk_key(&array.metadata.grid.index_at(position), &mut key);
        key
    };
    let known = |known: &Option<ChunkSet>, all: &ChunkSet, position| match known {
        Some(known) => known.contains(position),
        None => all.contains(position),
    };
    let was = |position: u64| known(&before.stored.known, &before.stored.chunks, position);
    let is = |position: u64| known(&now.known, &now.stored, position);
    Some(match (was(first), is(first)) {
        _ if first < last => format!("an object from `{}` to `{}`", key_of(first), key_of(last)),
        (true, false) => format!("`{}` is gone", key_of(first)),
        (false, true) => format!("`{}` is new", key_of(first)),
        _ => format!("`{}`", key_of(first)),
    })
}

fn list(
    store: &Store,
    arrays: &[&ArrayNode],
    (depth, reviewed): (SurveyDepth, &mut Reviewed),
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
                    .with_hint(format!("fix it, or pass --exclude '{}' to copy the rest", array.path)));
            }
        };
        leave_out_strays(reviewed, &store.place(), array, &listing);
        let (fingerprint, parts) = (listing.fingerprint, listing.parts.clone());
        listed.push(Listed { array: (*array).clone(), stored: listing.into(), fingerprint, parts });
    }
    Ok(listed)
}

/// Returns the arrays that are copied and those that --first leaves out: what describes an array that is copied comes along.
fn taken<'h>(
    args: &RecompressArgs,
    source: &'h Hierarchy,
    named: &[&ArrayNode],
) -> (Vec<&'h ArrayNode>, Vec<&'h ArrayNode>) {
    let filter = args.select.filter();
    let arrays = &source.arrays;
    let paths: BTreeSet<&str> = named.iter().map(|array| array.path.as_str()).collect();
    let named: Vec<usize> =
        (0..arrays.len()).filter(|&at| paths.contains(arrays[at].path.as_str())).collect();
    let with =
        |taken: Vec<usize>| match args.no_coordinates || filter.takes_all() && taken.len() == arrays.len() {
            true => taken,
            false => with_companions(arrays, taken, &|path| filter.refuses(path), None),
        };
    let all = with(named.clone());
    let copied = match args.first {
        Some(first) => with(first_variables(arrays, named, first)),
        None => all.clone(),
    };
    let (copied, left_out): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|at| copied.contains(at));
    let nodes = |positions: Vec<usize>| positions.into_iter().map(|at| &arrays[at]).collect();
    (nodes(copied), nodes(left_out))
}

/// Returns the positions of the first variables, the largest first: what describes others is none.
fn first_variables(arrays: &[ArrayNode], mut named: Vec<usize>, first: usize) -> Vec<usize> {
    let describing = describing(arrays);
    let bytes = |at: usize| arrays[at].metadata.decoded_bytes().unwrap_or(0);
    if named.iter().any(|at| !describing.contains(at)) {
        named.retain(|at| !describing.contains(at));
    }
    named.sort_by_key(|&at| std::cmp::Reverse(bytes(at)));
    named.truncate(first);
    named
}
