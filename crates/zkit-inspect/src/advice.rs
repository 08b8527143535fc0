//! What could be better, why, and the command that mends it.
//!
//! Rules are pure functions of a [`Profile`] (one array) or a [`StoreProfile`]; each gives at most one piece of
//! advice. Advice that many arrays share is given once.

mod profile;
mod rules;

use zkit_report::{Advice, format};

use profile::{Profile, StoreProfile};

use crate::command_line::CommandLine;
use crate::facts::Inspection;

/// Arrays that one piece of advice names in JSON.
const NAMED_MOST: usize = 1_000;

/// One piece of advice, and where it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advised {
    /// The array whose numbers it gives: the largest one; `/` for the store.
    pub(crate) path: String,
    /// The rule that gave it.
    pub(crate) rule: &'static str,
    /// All arrays that it applies to.
    pub(crate) arrays: Vec<String>,
    pub(crate) advice: Advice,
}

/// Returns the advice for a store, what matters most first.
pub(crate) fn advise(inspection: &Inspection<'_>) -> Vec<Advised> {
    if inspection.hierarchy.store.is_none() {
        return Vec::new();
    }
    let line = CommandLine::for_store(&inspection.hierarchy.url);
    let store = StoreProfile::of(inspection);
    let mut profiles: Vec<Profile<'_>> = inspection.arrays.iter().map(Profile::of).collect();
    // the largest array speaks for all
    profiles.sort_by(|a, b| b.bytes_decoded.cmp(&a.bytes_decoded).then_with(|| a.path.cmp(b.path)));
    let about_store = rules::STORE_RULES.iter().filter_map(|(rule, check)| {
        let advice = check(&store, &line)?;
        Some(Advised { path: "/".into(), rule, arrays: Vec::new(), advice })
    });
    let about_arrays = rules::ARRAY_RULES.iter().filter_map(|(rule, check)| {
        let hits: Vec<(&Profile<'_>, Advice)> = profiles
            .iter()
            .filter_map(|profile| Some((profile, check(profile, inspection.access.as_ref(), &line)?)))
            .collect();
        merged(rule, hits)
    });
    let mut advised: Vec<Advised> = about_store.chain(about_arrays).collect();
    if profiles.len() == 1 {
        advised.extend(rules::without_checksum(&profiles[0], &line).map(|advice| Advised {
            path: profiles[0].path.to_owned(),
            rule: "no-checksum",
            arrays: vec![profiles[0].path.to_owned()],
            advice,
        }));
    }
    advised
}

/// Returns the advice of one rule for all arrays that it hit, the largest of which comes first.
fn merged(rule: &'static str, hits: Vec<(&Profile<'_>, Advice)>) -> Option<Advised> {
    let arrays: Vec<String> =
        hits.iter().take(NAMED_MOST).map(|(profile, _)| profile.path.to_owned()).collect();
    let others = hits.len() as u64;
    let (profile, mut advice) = hits.into_iter().next()?;
    if others > 1 {
        advice.why.push_str(&format!(
            "; the same holds for {}",
            format::counted(others - 1, "other array", "other arrays")
        ));
    }
    Some(Advised { path: profile.path.to_owned(), rule, arrays, advice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_that_arrays_share_is_given_once() {
        let advice = |path: &str| Advice {
            what: "shuffle".into(),
            why: format!("{path} holds floats"),
            command: None,
        };
        let profiles = ["/a", "/b", "/c"].map(|path| Profile::for_tests(path, &[]));
        let hits = profiles.iter().map(|profile| (profile, advice(profile.path))).collect();
        let advised = merged("no-shuffle", hits).unwrap();
        assert_eq!(advised.path, "/a");
        assert_eq!(advised.arrays, ["/a", "/b", "/c"]);
        assert_eq!(advised.advice.why, "/a holds floats; the same holds for 2 other arrays");
        assert_eq!(merged("no-shuffle", Vec::new()), None);
    }
}
