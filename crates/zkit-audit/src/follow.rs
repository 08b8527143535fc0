//! `--follow-references`: whether what references point to is there, and long enough.
//!
//! Only files beside the references, public hosts and what lies below an `--allow-prefix` are looked at: references from elsewhere
//! must not make this machine read its own files, or ask its neighbours.

use rayon::prelude::*;
use zkit_core::cancel::Cancel;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::{References, TargetFound};
use zkit_core::location::StoreUrl;
use zkit_core::store::{Hosts, Reach, Store, StoreOptions};

/// Looks at all targets that may be looked at: public ones and those of hosts that the user named, and those in `folder`, where
/// the references lie, if that is on this machine. Errors: `Cancelled`.
pub(crate) fn follow(
    references: &mut References,
    folder: Option<StoreUrl>,
    options: &StoreOptions,
    cancel: &Cancel,
) -> Result<()> {
    let (beside, elsewhere): (Vec<_>, Vec<_>) =
        references.targets.iter_mut().partition(|target| target.reach == Reach::Beside);
    if let Some(folder) = folder.filter(|_| !beside.is_empty()) {
        let store = Store::open(&folder, options)?;
        beside.into_par_iter().for_each(|target| {
            let key = target.url.trim_start_matches("./");
            target.found = Some(found(store.get_range(key, 0, 0, &mut Vec::new())));
        });
    }
    // each request waits: rayon's threads must not
    for target in
        elsewhere.into_iter().filter(|target| matches!(target.reach, Reach::Public | Reach::Private))
    {
        cancel.check()?;
        target.found = remote(&target.url, target.reach == Reach::Public, options);
    }
    cancel.check()
}

fn found(read: Result<Option<u64>>) -> TargetFound {
    match read {
        Ok(Some(bytes)) => TargetFound::Bytes(bytes),
        Ok(None) => TargetFound::Absent,
        Err(error) if error.kind() == ErrorKind::Absent => TargetFound::Absent,
        Err(error) => TargetFound::Unreadable(error.one_line()),
    }
}

/// Asks for one byte of a remote file, which tells its size; `None` where nobody said that its host may be asked.
fn remote(url: &str, is_public: bool, options: &StoreOptions) -> Option<TargetFound> {
    let target: StoreUrl = match url.parse() {
        Ok(target) => target,
        Err(error) => return is_public.then(|| found(Err(error))),
    };
    let hosts = Hosts::of_target(&target, &options.allow_prefixes);
    if !is_public && matches!(hosts, Hosts::Public) {
        return None;
    }
    let Some(name) = target.name() else {
        return Some(found(Err(Error::new(ErrorKind::Unsupported, format!("`{target}` names no file")))));
    };
    let options = StoreOptions { hosts, ..options.clone() };
    let read = Store::open(&target.parent(), &options)
        .and_then(|store| store.get_range(&name, 0, 1, &mut Vec::new()));
    Some(found(read))
}
