//! Slices in a cache: served again as long as nothing changed that they rest on, else built anew.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;
use zkit_cli::Shell;
use zkit_cli::cached::{
    self, Checked, EntryLock, Expected, Manifest, Mode, Places, Request, ResultObjects, SourceObjects,
    Verdict,
};
use zkit_cli::targets;
use zkit_cli::writing::{Earlier, WriteArgs};
use zkit_core::engine;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::event::Event;
use zkit_core::hierarchy::Hierarchy;
use zkit_core::location::StoreUrl;
use zkit_core::store::{Reads, Store, StoreOptions, write_error};
use zkit_report::{Document, Facts, format};

use crate::args::{OfDimension, SelectionArgs, SliceArgs};
use crate::sources::Source;

/// What a look into the cache came to.
pub(crate) enum Looked {
    /// There is no cache: the slice goes where --to says.
    Uncached,
    /// The slice was there, and is answered with.
    Served,
    /// It is to be built.
    Build(Box<Building>),
}

/// A slice that is built in a cache.
pub(crate) struct Building {
    /// The arguments, with the entry as destination.
    pub(crate) args: SliceArgs,
    request: Request,
    places: Places,
    /// Why an entry that is there is not served.
    why: Option<String>,
    /// Whether it goes on with what a run that died has left, or removes that.
    resumed: Cell<bool>,
    discards: Cell<bool>,
    /// Held until the entry is complete; none in a dry run.
    _lock: Option<EntryLock>,
}

/// What is said of the cache beside the run.
#[derive(Debug, Serialize)]
pub(crate) struct CacheFields {
    /// built, rebuilt or hit.
    cache: &'static str,
    /// Why it was built anew.
    cache_why: Option<String>,
    /// The store.
    store: String,
}

/// Looks whether the cache holds what is asked for; answers with it if so. No source's data is read.
pub(crate) fn look(args: &SliceArgs, shell: &Shell, started: Instant) -> anyhow::Result<Looked> {
    let Some(cache) = &args.cache else { return Ok(Looked::Uncached) };
    let sources = resolve(args, cache)?;
    let request = request(args, shell)?;
    let places = Places::of(cache, &request.store_name());
    let (key, options) = (request.key(), args.access.store_options(shell)?);
    let expected = Expected {
        key: &key,
        sources: &sources,
        options: &options,
        source_check: args.write.source_check,
        cache_check: args.cache_check,
    };
    let (pool, cancel) = (engine::pool(args.resources.jobs().get())?, shell.cancel());
    let check = || {
        shell.observer().event(Event::Phase("checking the cache"));
        pool.install(|| cached::check(&places, &expected, cancel))
    };
    let building = |why, lock| {
        let args = args_of(args, &places);
        Looked::Build(Box::new(Building {
            args,
            request: request.clone(),
            places: places.clone(),
            why,
            resumed: Cell::new(false),
            discards: Cell::new(false),
            _lock: lock,
        }))
    };
    if args.write.dry_run {
        // nothing is written, not even a lock
        let there = places.lock.exists();
        let _lock = there.then(|| EntryLock::wait(&places, Mode::Shared, shell)).transpose()?;
        return match check()? {
            Verdict::Sound(manifest, checked) => serve(args, &places, &manifest, checked, shell, started),
            Verdict::Absent => Ok(building(None, None)),
            Verdict::Unsound(why) => Ok(building(Some(why), None)),
        };
    }
    std::fs::create_dir_all(cache).map_err(|error| write_error(cache, "create", error))?;
    let before = {
        let lock = EntryLock::wait(&places, Mode::Shared, shell)?;
        match check()? {
            Verdict::Sound(manifest, checked) => {
                lock.note_use();
                return serve(args, &places, &manifest, checked, shell, started);
            }
            other => (identity(&places), other),
        }
    };
    let lock = EntryLock::wait(&places, Mode::Exclusive, shell)?;
    // another run may have built it while this one waited
    let verdict = if identity(&places) == before.0 { before.1 } else { check()? };
    match verdict {
        Verdict::Sound(manifest, checked) => {
            lock.note_use();
            serve(args, &places, &manifest, checked, shell, started)
        }
        Verdict::Absent => Ok(building(None, Some(lock))),
        Verdict::Unsound(why) => {
            shell.observer().event(Event::Warning(format!("the cached slice is built anew: {why}")));
            Ok(building(Some(why), Some(lock)))
        }
    }
}

impl Building {
    /// Returns what is gone on with, of what a run that died has left; what is of another job is removed as the store is begun.
    pub(crate) fn earlier(&self, found: anyhow::Result<Earlier>) -> anyhow::Result<Earlier> {
        let kind = |error: &anyhow::Error| {
            error.chain().find_map(|cause| cause.downcast_ref::<Error>()).map(Error::kind)
        };
        match found {
            Ok(Earlier::Unfinished(partial)) => {
                self.resumed.set(true);
                Ok(Earlier::Unfinished(partial))
            }
            Ok(_) => Ok(Earlier::Nothing),
            // nobody else builds it: the lock is held
            Err(error)
                if matches!(
                    kind(&error),
                    Some(ErrorKind::Conflict | ErrorKind::Corrupt | ErrorKind::Unsupported)
                ) =>
            {
                self.discards.set(true);
                Ok(Earlier::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns how the store is written, after [`Self::earlier`].
    pub(crate) fn write_args(&self) -> WriteArgs {
        let mut write = self.args.write.clone();
        if self.discards.get() {
            (write.resume, write.restart) = (false, true);
        }
        write
    }

    /// Writes down what a complete store that is not published yet rests on and consists of.
    ///
    /// Errors: `Conflict` if a source changed since it was read.
    pub(crate) fn seal(
        &self,
        sources: &[Source],
        slices: Vec<serde_json::Value>,
        copy: &Hierarchy,
        shell: &Shell,
    ) -> Result<()> {
        let mut known = Vec::with_capacity(sources.len());
        let mut stores: Vec<(&StoreUrl, &Store)> = Vec::with_capacity(sources.len());
        for source in sources {
            let store = source.store()?;
            // chunks that an earlier run took were not seen by this one, unless its journal tells how they were
            let told = !store.is_remote() && self.args.write.source_check.takes_objects(&source.place);
            let objects_known = told || !self.resumed.get();
            known.push(SourceObjects::of(&source.place, store, objects_known)?);
            stores.push((&source.place, store));
        }
        cached::check_unchanged(&stores, &known)?;
        let Store::Local(store) = copy.readable_store()? else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "could not cache a slice that is not on this machine",
            ));
        };
        let result = ResultObjects::of(store.root(), shell.cancel())?;
        Manifest::new(&self.places, &self.request, slices, known, result).write(&self.places)
    }

    /// Makes an entry of the published store.
    pub(crate) fn finish(&self) -> Result<()> {
        cached::publish(&self.places)
    }

    /// Returns what is said of the cache: for programs, and for people.
    pub(crate) fn told(&self) -> (CacheFields, (String, String)) {
        let cache = if self.why.is_some() { "rebuilt" } else { "built" };
        let fact = self.why.as_ref().map_or_else(|| cache.to_owned(), |why| format!("{cache}: {why}"));
        let fields = CacheFields {
            cache,
            cache_why: self.why.clone(),
            store: self.places.store.display().to_string(),
        };
        (fields, ("cache".to_owned(), fact))
    }
}

/// Refuses sources that do not tell what was read of them, before anything is built of them.
///
/// Errors: `Unsupported` for remote zip files, and for references that lead elsewhere than to their folder.
pub(crate) fn check_sources(sources: &[Source]) -> Result<()> {
    for source in sources {
        if source.store()?.seen().is_none() {
            return Err(cached::not_remembered(&source.place));
        }
    }
    Ok(())
}

/// Returns how the sources are opened: what is read of them for a cache is remembered.
pub(crate) fn store_options(
    args: &SliceArgs,
    cached: Option<&Building>,
    shell: &Shell,
) -> Result<StoreOptions> {
    let reads = if cached.is_some() { Reads::Kept } else { Reads::Forgotten };
    Ok(StoreOptions { reads, ..args.access.store_options(shell)? })
}

/// Returns the stores that the paths lead to now, in order.
///
/// Errors: `Usage` where the cache lies in a folder that is searched for sources: each slice would become one.
fn resolve(args: &SliceArgs, cache: &Path) -> Result<Vec<StoreUrl>> {
    let cache = std::path::absolute(cache).unwrap_or_else(|_| cache.to_owned());
    let mut all = Vec::new();
    for path in args.sources.iter().chain(args.merge.sets.iter().flatten()) {
        let folder = path.parse::<StoreUrl>()?.local_path().map(Path::to_owned);
        let folder = folder.and_then(|folder| std::path::absolute(folder).ok());
        if let Some(folder) = folder.filter(|folder| folder.is_dir() && cache.starts_with(folder)) {
            let message = format!("the cache {} lies in the source {}", cache.display(), folder.display());
            return Err(Error::new(ErrorKind::Usage, message).with_hint("name a cache beside the sources"));
        }
        all.extend(targets::stores(path)?);
    }
    Ok(all)
}

/// Returns the arguments with the entry as destination; what a run that died has left is gone on with.
fn args_of(args: &SliceArgs, places: &Places) -> SliceArgs {
    let mut args = args.clone();
    args.to = Some(StoreUrl::Local(places.store.clone()));
    let left = places.unfinished().iter().any(|path| path.extension().is_some_and(|end| end == "journal"));
    args.write.resume |= left && !args.write.restart;
    // what is there is not sound: nobody needs to be asked
    (args.write.overwrite, args.write.unpublish_first, args.write.yes) = (true, false, true);
    args
}

/// Returns the request in canonical form. What is no option of the result, such as --memory, is not part of it.
fn request(args: &SliceArgs, shell: &Shell) -> Result<Request> {
    // each by name: an argument that is added has to be thought of here
    let SliceArgs {
        sources,
        to: _,
        cache: _,
        cache_check: _,
        fail_on,
        write,
        layout,
        selection,
        combination,
        merge,
        select,
        resources: _,
        access,
    } = args;
    let mut options = Vec::new();
    let mut option = |name: &str, value: String| options.push((name.to_owned(), value));
    for set in std::iter::once(sources).chain(&merge.sets) {
        option("sources", set.iter().map(|path| absolute(path)).collect::<Result<Vec<_>>>()?.join("\n"));
    }
    let points = selection.points.as_deref().map(points_digest).transpose()?;
    option("--points", points.unwrap_or_default());
    option("selection", format!("{:?}", canonical(selection)));
    option("combination", format!("{combination:?}"));
    option("--chunks", format!("{layout:?}"));
    option("--fail-on", format!("{fail_on:?}"));
    option("--verify", write.verify.name().to_owned());
    option("--follow-links", access.follow_links.to_string());
    for (name, value) in write.canonical(&crate::run::DEFAULT_CODEC).iter().chain(&select.canonical()) {
        option(name, value.clone());
    }
    // they decide which store a URL means; values may be secret
    let store_options = access.store_options(shell)?;
    let endpoints = store_options.environment.iter().filter(|(name, _)| name.contains("ENDPOINT"));
    for (name, value) in endpoints.chain(&store_options.options) {
        option(name, format!("{:032x}", xxh3_128(value.as_bytes())));
    }
    Ok(Request { dataset: dataset(sources), selection: selection_in_words(selection), options })
}

/// Returns the selection without its order, which does not matter, and without the name of the file of points.
fn canonical(selection: &SelectionArgs) -> SelectionArgs {
    let mut selection = SelectionArgs { points: None, ..selection.clone() };
    let by_dimension = |one: &OfDimension, other: &OfDimension| one.dimension.cmp(&other.dimension);
    selection.sel.sort_by(by_dimension);
    selection.isel.sort_by(by_dimension);
    selection
}

fn points_digest(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| {
        Error::new(ErrorKind::Unreadable, format!("could not read the points {}", path.display()))
            .with_source(error)
    })?;
    Ok(format!("{:032x}", xxh3_128(&bytes)))
}

/// Returns a path or pattern from the root, so that it means the same wherever the command runs; URLs as they are.
fn absolute(path: &str) -> Result<String> {
    Ok(match path.parse::<StoreUrl>()? {
        StoreUrl::Local(local) => std::path::absolute(&local).unwrap_or(local).display().to_string(),
        StoreUrl::Remote { url, .. } => url.to_string(),
    })
}

/// Returns a word for the sources.
fn dataset(sources: &[String]) -> String {
    let is_pattern = |text: &str| text.contains(['*', '?', '[', '{']);
    let first = sources.first().map(|path| cached_name(path)).unwrap_or_default();
    let named = first.rsplit(['/', '\\']).find(|part| !part.is_empty() && !is_pattern(part));
    let name = named.unwrap_or("slice").trim_end_matches(".zarr").to_owned();
    match sources.len() {
        0 | 1 => name,
        many => format!("{name}-and-{}-more", many - 1),
    }
}

fn cached_name(path: &str) -> String {
    path.parse::<StoreUrl>().map_or_else(|_| String::new(), |url| cached::source_name(&url))
}

fn selection_in_words(selection: &SelectionArgs) -> String {
    let in_order = canonical(selection);
    let asked = in_order.sel.iter().chain(&in_order.isel);
    let mut words: Vec<String> = asked.map(|asked| format!("{}={}", asked.dimension, asked.text)).collect();
    let points = selection.points.as_deref().and_then(Path::file_stem);
    words.extend(points.map(|points| format!("points-{}", points.to_string_lossy())));
    if words.is_empty() { "all".to_owned() } else { words.join("_") }
}

/// Returns which manifest is there: it changes when another run writes one.
fn identity(places: &Places) -> Option<(u64, SystemTime)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = places.manifest.symlink_metadata().ok()?;
    Some((found.ino(), found.modified().ok()?))
}

/// Answers with an entry that is sound.
fn serve(
    args: &SliceArgs,
    places: &Places,
    manifest: &Manifest,
    checked: Checked,
    shell: &Shell,
    started: Instant,
) -> anyhow::Result<Looked> {
    #[derive(Serialize)]
    struct Output<'a> {
        schema_version: u32,
        dry_run: bool,
        cache: &'static str,
        cache_why: Option<String>,
        store: PathBuf,
        destination: PathBuf,
        complete: bool,
        remaining_units: u64,
        created: u64,
        bytes: u64,
        objects: u64,
        source_objects_checked: u64,
        objects_read_back: u64,
        slices: &'a [serde_json::Value],
        seconds: f64,
    }
    let header = &manifest.header;
    let output = Output {
        schema_version: 1,
        dry_run: args.write.dry_run,
        cache: "hit",
        cache_why: None,
        store: places.store.clone(),
        destination: places.store.clone(),
        complete: true,
        remaining_units: 0,
        created: header.created,
        bytes: header.bytes,
        objects: header.objects,
        source_objects_checked: checked.source_objects,
        objects_read_back: checked.read,
        slices: &header.slices,
        seconds: started.elapsed().as_secs_f64(),
    };
    let mut facts = Facts::new();
    facts.fact("cache", if args.write.dry_run { "hit: it would be served" } else { "hit" });
    facts.fact("store", places.store.display().to_string());
    facts.fact("size", format!("{}, {}", format::bytes(header.bytes), objects(header.objects)));
    facts.fact(
        "sources",
        format!(
            "{}, {} unchanged",
            format::counted(header.sources, "store", "stores"),
            objects(checked.source_objects)
        ),
    );
    facts.fact(
        "checked",
        format!("{}, {} of them read back", objects(checked.objects), format::count(checked.read)),
    );
    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let ago = format::ago(age.saturating_sub(header.created));
    facts.fact("made", format!("{ago}, by zkit {}", header.zkit));
    facts.fact("time", format::duration(started.elapsed()));
    let mut document = Document::new();
    document.facts(facts);
    shell.emit(&document, &output)?;
    Ok(Looked::Served)
}

fn objects(count: u64) -> String {
    format::counted(count, "object", "objects")
}
