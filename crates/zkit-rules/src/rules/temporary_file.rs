//! `temporary-file`: what an unfinished write leaves lies in the store.

use zkit_core::engine::is_unfinished_store;
use zkit_report::{Confidence, Severity};

use super::shared::report_keys;
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{CacheObservation, StoreObservation};
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "temporary-file",
    severity: Severity::Warning,
    confidence: Confidence::High,
    depth: Depth::Listing,
    summary: "what an unfinished write leaves lies in the store",
    explanation: "\
Writers put new bytes under another name and rename it when it is whole. Such names that stay mean that a
writer was killed, or is still at work: look at what else it did not finish.

On disk: *.partial, NAME.__lock, NAME#1, .gcsfuse_tmp/, *_.gstmp, *.tmp, .NAME.a1B2c3; or a whole store of such a
name among others, as zkit builds NAME.partial.

Legitimate: while a writer is at work; set a grace period in zkit.toml (grace = \"15min\").

What to do: if no writer is at work, remove them, and check the arrays they lie in for missing chunks. `zkit partials list`
names what runs of zkit left, which go on with --resume.",
    check: Check::Both(check, check_names),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "if no writer is at work, remove them, and look for chunks that are missing beside them";
    for array in &store.arrays {
        let Some(listing) = array.survey.as_ref().and_then(|survey| survey.listing.as_ref()) else {
            continue;
        };
        if store.is_settled(listing.temporary_changed) {
            let what = "unfinished writes left their files";
            report_keys(finder, Some(array.path()), &listing.temporary, (what, remedy));
        }
    }
    if let Some(files) = store.files.as_ref().filter(|files| store.is_settled(files.temporary_changed)) {
        report_keys(finder, None, &files.temporary, ("unfinished writes left their files", remedy));
    }
    let repository = store.repository.as_ref();
    if let Some(repository) = repository.filter(|found| store.is_settled(found.temporary_changed)) {
        let remedy = "if no writer is at work, remove them: no snapshot names them";
        report_keys(finder, None, &repository.temporary, ("unfinished writes left their files", remedy));
    }
}

/// Of several stores, those whose own names say that they are not complete.
fn check_names(cache: &CacheObservation<'_>, finder: &mut Finder<'_>) {
    for store in cache.stores.iter().filter(|store| store.settled && is_unfinished_store(store.name())) {
        finder
            .elsewhere(&store.url, None, format!("`{}` is what a writer calls a store that is not complete", store.name()))
            .remedy("if no writer is at work, go on with it (`zkit partials list` names what zkit left), or remove it");
    }
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::{Keys, Repository};

    use crate::testing::{TestStore, v2_array};

    #[test]
    fn leftovers_among_the_objects_of_a_repository_are_found() {
        let temporary = Keys { count: 1, examples: vec!["chunks/X#1".to_owned()] };
        let found = TestStore::new()
            .repository_findings("temporary-file", Repository { temporary, ..Repository::default() });
        assert_eq!((found.len(), found[0].array.as_deref()), (1, None));
        assert!(found[0].message.ends_with("`chunks/X#1`"), "{}", found[0].message);
    }

    #[test]
    fn leftovers_are_found_where_they_lie_once_the_grace_period_is_over() {
        let store = || {
            TestStore::new()
                .array("a", &v2_array(&[8], &[2]))
                .file("a/0.1f0c.partial", b"x")
                .file("b.tmp/0", b"x")
        };
        let found = store().findings("temporary-file");
        let paths: Vec<_> = found.iter().map(|finding| finding.array.as_deref()).collect();
        assert_eq!(paths, [Some("/a"), None]);
        assert!(store().with_policy("grace = \"1h\"").findings("temporary-file").is_empty());
    }
}
