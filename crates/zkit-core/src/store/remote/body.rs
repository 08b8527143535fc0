//! The bodies of answers, brought together to what was asked for: gone on with where they break off, of one version, and
//! compared with the server's own checksum.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::path::Path as ObjectPath;
use object_store::{Attribute, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt as _};

use super::Inner;
use super::integrity::{StoreChecksum, StoreChecksums};
use super::versions::ReadVersion;
use super::window::Permit;
use crate::error::{Error, ErrorKind, Result};
use crate::units::saturating_usize;

/// How often a body that breaks off without bringing much is asked for again, where the server names no versions; where it
/// does, object_store has asked again already.
const TRIES_WITHOUT_MUCH: u32 = 4;
/// Bytes that are much, as is an eighth of the whole.
const MUCH_BYTES: u64 = 1 << 20;
/// The pause before the first of these, and before going on; the next ones are longer.
const PAUSE: Duration = Duration::from_millis(200);
/// How often an object is fetched until it is what its server has summed up.
const FETCHES: u32 = 3;
/// A body is not given more room than this before it arrives.
const ROOM_AT_FIRST: u64 = 64 << 20;

/// What is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// An object.
    Whole,
    /// A part of one.
    Part,
}

impl Extent {
    pub(super) fn doing(self) -> &'static str {
        match self {
            Self::Whole => "read",
            Self::Part => "read a part of",
        }
    }
}

impl Inner {
    /// Returns the whole body of an answer.
    ///
    /// Errors: `Unreadable` where it breaks off again and again, or the object is another one meanwhile; `Corrupt` where it is
    /// not what the server itself has summed up, each time.
    pub(super) async fn body(
        &self,
        (key, path): (&str, &ObjectPath),
        answer: GetResult,
        extent: Extent,
        permit: &mut Permit,
    ) -> Result<Bytes> {
        let is_called_page = is_called_page(&answer);
        let bytes = self.checked((key, path), answer, extent, permit).await?;
        match is_called_page && begins_as_page(&bytes) {
            true => Err(self.web_page(key)),
            false => Ok(bytes),
        }
    }

    /// Returns the whole body of an answer, compared with the server's own checksum.
    async fn checked(
        &self,
        (key, path): (&str, &ObjectPath),
        answer: GetResult,
        extent: Extent,
        permit: &mut Permit,
    ) -> Result<Bytes> {
        let promised = answer.extensions.get::<StoreChecksum>().copied();
        let is_compared = matches!((extent, self.checksums), (Extent::Whole, StoreChecksums::Compared));
        let Some(promised) = promised.filter(|_| is_compared) else {
            if !self.covered.holds(key) {
                self.network.traffic().unverifiable.add(1);
            }
            return self.unbroken((key, path), answer, extent, permit).await;
        };
        let version = ReadVersion::of(&answer.meta);
        let mut answer = answer;
        for fetch in 1..=FETCHES {
            let bytes = self.unbroken((key, path), answer, extent, permit).await?;
            if promised.fits(&bytes) {
                return Ok(bytes);
            }
            if fetch == FETCHES {
                break;
            }
            self.network.traffic().retries.add(1);
            let again = self.store.get(path).await;
            answer = again.map_err(|error| self.error(extent.doing(), key, &error))?;
            if ReadVersion::of(&answer.meta) != version {
                return Err(self.changed(key));
            }
        }
        let message = format!(
            "could not read `{key}` in {}: what arrives is not what was stored; {promised} expected",
            self.place
        );
        Err(Error::new(ErrorKind::Corrupt, message).with_hint(
            "pass --store-checksums ignore if this server's checksums are known to be wrong; codecs check theirs all the same",
        ))
    }

    /// Returns the whole body of an answer, of which the rest is asked for where it breaks off.
    async fn unbroken(
        &self,
        (key, path): (&str, &ObjectPath),
        answer: GetResult,
        extent: Extent,
        permit: &mut Permit,
    ) -> Result<Bytes> {
        let (meta, asked) = (answer.meta.clone(), answer.range.clone());
        let length = asked.end - asked.start;
        let mut body = Vec::with_capacity(saturating_usize(length.min(ROOM_AT_FIRST)));
        let mut parts = answer.into_stream();
        let tries_most = if meta.e_tag.is_some() { 0 } else { TRIES_WITHOUT_MUCH };
        let (mut tries, mut furthest) = (0, 0);
        loop {
            let broken = match parts.next().await {
                Some(Ok(part)) => {
                    permit.add_bytes(part.len());
                    body.extend_from_slice(&part);
                    if body.len() as u64 > length {
                        return Err(self.too_long(key, length));
                    }
                    continue;
                }
                None if body.len() as u64 >= length => return Ok(body.into()),
                None => None,
                Some(Err(error)) => Some(error),
            };
            let brought = (body.len() as u64).saturating_sub(furthest);
            tries = if brought >= MUCH_BYTES.min(length / 8).max(1) { 0 } else { tries + 1 };
            furthest = furthest.max(body.len() as u64);
            if tries > tries_most {
                return Err(match broken {
                    Some(error) => self.error(extent.doing(), key, &error),
                    None => self.too_short(key, body.len() as u64, length),
                });
            }
            tokio::time::sleep(PAUSE * (tries + 1)).await;
            let rest = asked.start + body.len() as u64..asked.end;
            let answer = match self.rest(path, &meta, rest).await {
                Ok(answer) => answer,
                Err(error) if matches!(extent, Extent::Part) || is_another_version(&error) => {
                    return Err(self.error(extent.doing(), key, &error));
                }
                // a server that gives no parts gives it once more
                Err(_) => {
                    body.clear();
                    let again = self.store.get(path).await;
                    again.map_err(|error| self.error(extent.doing(), key, &error))?
                }
            };
            if ReadVersion::of(&answer.meta) != ReadVersion::of(&meta) {
                return Err(self.changed(key));
            }
            parts = answer.into_stream();
        }
    }

    async fn rest(
        &self,
        path: &ObjectPath,
        meta: &ObjectMeta,
        range: Range<u64>,
    ) -> object_store::Result<GetResult> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: ReadVersion::of(meta).condition(),
            ..GetOptions::default()
        };
        self.store.get_opts(path, options).await
    }

    /// Returns the error for a page for people that came in the place of an object.
    fn web_page(&self, key: &str) -> Error {
        let message = format!("could not read `{key}` in {}: the server answers with a web page", self.place);
        Error::new(ErrorKind::Unreadable, message)
            .with_hint("check the address, and whether the server asks to sign in")
    }

    fn too_long(&self, key: &str, expected: u64) -> Error {
        let message = format!(
            "could not read `{key}` in {}: more than the {expected} bytes expected arrived",
            self.place
        );
        Error::new(ErrorKind::Unreadable, message)
    }

    fn too_short(&self, key: &str, found: u64, expected: u64) -> Error {
        let message =
            format!("could not read `{key}` in {}: {found} bytes arrived, {expected} expected", self.place);
        Error::new(ErrorKind::Unreadable, message)
    }

    /// Returns the error for an object that is another one than it was.
    pub(super) fn changed(&self, key: &str) -> Error {
        let message = format!("could not read `{key}` in {}: it changed while it was read", self.place);
        Error::new(ErrorKind::Unreadable, message).with_hint("run the command again once nobody writes to it")
    }
}

/// Returns whether an answer is called a web page: what servers give who want somebody to sign in, or know no 404.
fn is_called_page(answer: &GetResult) -> bool {
    let kind = answer.attributes.get(&Attribute::ContentType);
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
}

/// Returns whether a body begins as web pages do; what objects hold may be called anything.
fn begins_as_page(body: &[u8]) -> bool {
    let head = body.trim_ascii_start();
    let begins = |tag: &[u8]| head.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag));
    begins(b"<!doctype html") || begins(b"<html")
}

/// Returns whether a server refused to give another version of an object than the one that was begun.
pub(super) fn is_another_version(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Precondition { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_for_people_are_known_by_how_they_begin() {
        assert!(begins_as_page(b"\n <!DOCTYPE html><html>") && begins_as_page(b"<HTML><body>"));
        assert!(!begins_as_page(b"") && !begins_as_page(b"{\"zarr_format\": 2}") && !begins_as_page(b"<htm"));
    }
}
