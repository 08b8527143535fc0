//! What is said of unfinished copies.

use serde::Serialize;
use zkit_core::publish::{Holder, Leftover};
use zkit_report::{Column, Document, Facts, Table, format};

/// The JSON of a list and of a clearing, version 1.
#[derive(Debug, Serialize)]
pub(crate) struct Output {
    schema_version: u32,
    /// Of a clearing, whether nothing was removed; null for a list.
    dry_run: Option<bool>,
    partials: Vec<PartialOutput>,
    /// Bytes of all that are listed; of a clearing, of those that went or would.
    bytes: u64,
}

/// One unfinished copy.
#[derive(Debug, Serialize)]
pub(crate) struct PartialOutput {
    /// The destination.
    store: String,
    /// running, nobody, or elsewhere: a run on another machine, of which only watching could tell whether it lives.
    holder: &'static str,
    /// Whether a whole store is at the destination, which is no part of it.
    published: bool,
    objects: u64,
    bytes: u64,
    /// Objects in parts that were begun and not ended.
    uploads: u64,
    /// Seconds since 1970.
    changed: Option<i64>,
    /// Of a clearing: removed, would-be-removed, in-use, too-young, refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// Why it was refused, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Removed,
    WouldBeRemoved,
    InUse,
    TooYoung,
    Refused(String),
    Failed(String),
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::WouldBeRemoved => "would-be-removed",
            Self::InUse => "in-use",
            Self::TooYoung => "too-young",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

impl PartialOutput {
    pub(crate) fn of(found: &Leftover, outcome: Option<Outcome>) -> Self {
        let holder = match found.holder {
            Holder::Running => "running",
            Holder::Nobody => "nobody",
            Holder::Elsewhere => "elsewhere",
        };
        let name = outcome.as_ref().map(Outcome::name);
        let why = match outcome {
            Some(Outcome::Refused(why) | Outcome::Failed(why)) => Some(why),
            _ => None,
        };
        let Leftover { published, objects, bytes, uploads, changed, .. } = *found;
        let store = found.url.to_string();
        Self { store, holder, published, objects, bytes, uploads, changed, outcome: name, why }
    }

    /// Returns whether it could not be removed.
    pub(crate) fn failed(&self) -> bool {
        self.outcome == Some("failed")
    }

    /// Returns whether it would have been removed.
    pub(crate) fn would_go(&self) -> bool {
        self.outcome == Some("would-be-removed")
    }
}

impl Output {
    pub(crate) fn new(partials: Vec<PartialOutput>, dry_run: Option<bool>) -> Self {
        let counts =
            |one: &&PartialOutput| matches!(one.outcome, None | Some("removed" | "would-be-removed"));
        let bytes = partials.iter().filter(counts).fold(0, |sum: u64, one| sum.saturating_add(one.bytes));
        Self { schema_version: 1, dry_run, partials, bytes }
    }

    pub(crate) fn document(&self, now: u64) -> Document {
        let mut facts = Facts::new();
        let what = match self.dry_run {
            None => "unfinished copies",
            Some(true) => "would remove",
            Some(false) => "removed",
        };
        let counts = |one: &&PartialOutput| match self.dry_run {
            None => true,
            Some(true) => one.would_go(),
            Some(false) => one.outcome == Some("removed"),
        };
        let count = self.partials.iter().filter(counts).count() as u64;
        let copies = format::counted(count, "copy", "copies");
        facts.fact(what, format!("{copies}, {}", format::bytes(self.bytes)));
        let mut document = Document::new();
        document.facts(facts).table(self.table(now));
        document
    }

    fn table(&self, now: u64) -> Table {
        let mut table = Table::new([
            Column::left("store"),
            Column::left("held by"),
            Column::right("objects"),
            Column::right("size"),
            Column::right("uploads in parts"),
            Column::left("changed"),
            Column::left("outcome").wraps(),
        ]);
        for one in &self.partials {
            let changed = one.changed.and_then(|changed| u64::try_from(changed).ok());
            let holder = match one.holder {
                "running" => "a run that lives",
                "elsewhere" => "another machine",
                other => other,
            };
            let outcome = one.outcome.unwrap_or(if one.published { "published" } else { "unfinished" });
            let outcome = outcome.replace('-', " ");
            table.row([
                one.store.clone(),
                holder.to_owned(),
                format::count(one.objects),
                format::bytes(one.bytes),
                if one.uploads > 0 { format::count(one.uploads) } else { String::new() },
                changed.map_or_else(String::new, |changed| format::ago(now.saturating_sub(changed))),
                one.why.as_ref().map_or_else(|| outcome.clone(), |why| format!("{outcome}: {why}")),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zkit_core::location::StoreUrl;

    fn partial(bytes: u64, outcome: Option<Outcome>) -> PartialOutput {
        let found = Leftover {
            url: StoreUrl::Local("/a/b.zarr".into()),
            holder: Holder::Nobody,
            published: false,
            objects: 2,
            bytes,
            uploads: 0,
            changed: Some(5),
        };
        PartialOutput::of(&found, outcome)
    }

    #[test]
    fn bytes_are_those_that_go() {
        let outcomes =
            [Outcome::Removed, Outcome::InUse, Outcome::TooYoung, Outcome::Refused("x".to_owned())];
        let partials = outcomes.into_iter().map(|outcome| partial(10, Some(outcome))).collect();
        assert_eq!(Output::new(partials, Some(false)).bytes, 10);
        assert_eq!(Output::new(vec![partial(10, None), partial(5, None)], None).bytes, 15);
    }

    #[test]
    fn what_failed_says_why() {
        let failed = partial(10, Some(Outcome::Failed("the disk is gone".to_owned())));
        assert!(failed.failed() && !failed.would_go());
        assert_eq!(failed.why.as_deref(), Some("the disk is gone"));
    }
}
