//! How a run to a destination begins.

use std::fmt::Display;

use crate::error::{Error, ErrorKind};

/// What happens to a store that is already at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the run is refused.
    Keep,
    /// It is exchanged for the new one when that is complete, and then removed; refused in object stores, which
    /// cannot exchange.
    Replace,
    /// In object stores it is removed before the new one is begun, its root's metadata first; elsewhere as
    /// [`Self::Replace`].
    Unpublish,
}

/// What happens to the work of a run that did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// It stays, and the run is refused.
    Refuse,
    /// It is removed.
    Discard,
    /// It is gone on with, if it is of the same job.
    Resume,
}

/// How a run begins.
#[derive(Debug)]
pub enum Start<Store> {
    /// With a store to build, new or resumed.
    Build(Box<Store>),
    /// With nothing to do: the same job had published its store before it died. What it left is cleared.
    AlreadyPublished,
    /// Resume only: a store is at the destination, and nothing unfinished beside it. Whether it is the wanted one
    /// is the caller's to say.
    Exists,
}

impl<Store> Start<Store> {
    /// Returns the same beginning of what `make` makes of the store.
    pub(super) fn map<Other>(self, make: impl FnOnce(Box<Store>) -> Other) -> Start<Other> {
        match self {
            Self::Build(store) => Start::Build(Box::new(make(store))),
            Self::AlreadyPublished => Start::AlreadyPublished,
            Self::Exists => Start::Exists,
        }
    }
}

/// Returns the error of going on with what was read while its source changed.
pub(super) fn source_changed(destination: &dyn Display) -> Error {
    let message =
        format!("could not go on to {destination}: the source changed while an earlier run read it");
    Error::new(ErrorKind::Conflict, message).with_hint("pass --restart to begin anew")
}
