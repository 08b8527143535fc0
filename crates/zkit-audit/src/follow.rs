//! `--follow-references`: whether what references point to is there, and long enough.
//!
//! Only files beside the references and public hosts are looked at: references from elsewhere must not make this machine
//! read its own files, or ask its neighbours.

use rayon::prelude::*;
use zkit_core::cancel::Cancel;
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::{References, TargetFound};
use zkit_core::location::StoreUrl;
use zkit_core::store::{Reach, Store, StoreOptions};

/// Looks at all targets that may be looked at: public ones, and those in `folder`, where the references lie, if that is on
/// this machine. Errors: `Cancelled`.
pub(crate) fn follow(
    references: &mut References,
    folder: Option<StoreUrl>,
    options: &StoreOptions,
    cancel: &Cancel,
) -> Result<()> {
    let (beside, public): (Vec<_>, Vec<_>) = references
        .targets
        .iter_mut()
        .filter(|target| matches!(target.reach, Reach::Beside | Reach::Public))
        .partition(|target| target.reach == Reach::Beside);
    if let Some(folder) = folder.filter(|_| !beside.is_empty()) {
        let store = Store::open(&folder, options)?;
        beside.into_par_iter().for_each(|target| {
            let key = target.url.trim_start_matches("./");
            target.found = Some(found(store.get_range(key, 0, 0, &mut Vec::new())));
        });
    }
    // each request waits: rayon's threads must not
    for target in public {
        cancel.check()?;
        target.found = Some(remote(&target.url, options));
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

/// Asks for one byte of a remote file, which tells its size.
fn remote(url: &str, options: &StoreOptions) -> TargetFound {
    let Some((parent, name)) = url.rsplit_once('/') else {
        return found(Err(Error::new(ErrorKind::Unsupported, format!("`{url}` names no file"))));
    };
    let read = parent
        .parse::<StoreUrl>()
        .and_then(|parent| Store::open(&parent, options)?.get_range(name, 0, 1, &mut Vec::new()));
    found(read)
}
