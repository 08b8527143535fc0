//! What a rule is.

use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{CacheObservation, StoreObservation};

/// One way in which a store or a cache can be wrong.
#[derive(Debug)]
pub struct Rule {
    /// A kebab-case id: `missing-slab`.
    pub id: &'static str,
    /// How much its findings matter, unless the function says otherwise.
    pub severity: Severity,
    /// How sure its findings are, unless the function says otherwise.
    pub confidence: Confidence,
    /// The least depth that shows it.
    pub depth: Depth,
    /// What is wrong, in one line without a full stop.
    pub summary: &'static str,
    /// What it is, why it matters, how it looks on disk, how it is told from a legitimate case, what to do.
    pub explanation: &'static str,
    /// The function.
    pub check: Check,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// One store.
    Store(fn(&StoreObservation<'_>, &mut Finder<'_>)),
    /// All stores of a run together; not called for one store alone.
    Cache(fn(&CacheObservation<'_>, &mut Finder<'_>)),
    /// Each store, then all of them together.
    Both(fn(&StoreObservation<'_>, &mut Finder<'_>), fn(&CacheObservation<'_>, &mut Finder<'_>)),
}
