//! Reports as one HTML file that loads nothing else: for people who get it from a CI run.
//!
//! Every text passes [`sanitize`] and the escaping of the template; the file's own style and script are named
//! by their digests in its Content-Security-Policy, so that a browser runs and loads nothing besides them.
//! Readable without the script, which only filters and sorts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::document::Advice;
use crate::finding::{Confidence, FindingCounts, Severity};
use crate::format;
use crate::groups::{Alike, Group, alike, by_rule};
use crate::names::{Folded, Names, clip, folded};
use crate::render::svg::{self, Line, Map, Strip};
use crate::report::{Report, StoreSummary, Variable};
use crate::report_text::sum_in_words;
use crate::sanitize::sanitize;
use crate::series::Series;
use crate::words;

const STYLE: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// What is shown before the rest is counted: the size of the file stays below some megabytes.
const ROWS_A_RULE: usize = 200;
const ROWS_MOST: usize = 2_000;
const STORES_MOST: usize = 500;
const UNREAD_MOST: usize = 20;
const MAPS_MOST: usize = 48;
const LINES_MOST: usize = 48;
const VARIABLES_MOST: usize = 500;
const EVIDENCE_MOST: usize = 16;
const NOT_SEEN_MOST: usize = 20;

/// The most characters of a name, and of a message, a value, a remedy.
const NAME_MOST: usize = 160;
const TEXT_MOST: usize = 600;

/// Writes the report as one self-contained file.
pub fn write(mut out: impl Write, report: &Report) -> io::Result<()> {
    Page::of(report).write_into(&mut out)?;
    out.write_all(b"\n")
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    style: &'static str,
    style_digest: String,
    script: &'static str,
    script_digest: String,
    version: String,
    depth: String,
    tone: &'static str,
    headline: &'static str,
    verdict: String,
    complete: bool,
    unread: Vec<String>,
    more_unread: u64,
    cards: Vec<Card>,
    next: Vec<Advice>,
    strip: Option<Strip>,
    prefix: Option<String>,
    groups: Vec<GroupView>,
    left_out: u64,
    maps: Vec<Map>,
    more_maps: u64,
    lines: Vec<Line>,
    more_lines: u64,
    stores: Vec<StoreView>,
    more_stores: u64,
    started: String,
    command: String,
    variables: Vec<VariableView>,
    more_variables: u64,
    rules: Vec<RuleView>,
    not_seen: Vec<String>,
    quiet_rules: String,
    hidden: u64,
}

struct Card {
    class: &'static str,
    value: String,
    label: &'static str,
}

struct GroupView {
    rule: String,
    severity: &'static str,
    severity_word: &'static str,
    /// Worst first when sorted by text.
    sort_key: u8,
    extent: String,
    summary: String,
    rows: Vec<RowView>,
    more: u64,
}

struct RowView {
    stores: Folded,
    arrays: Folded,
    extent: String,
    message: String,
    /// Empty where it is high.
    confidence: &'static str,
    evidence: Vec<(String, String)>,
    /// Each, and whether it is a command.
    remedies: Vec<(String, bool)>,
}

struct StoreView {
    name: String,
    kind: String,
    badges: Vec<(&'static str, String)>,
    arrays: String,
    stored: String,
    /// Percent of the stored size of the largest store.
    share: Option<u64>,
    decoded: String,
    ratio: String,
    depth: &'static str,
}

struct VariableView {
    store: String,
    array: String,
    data_type: String,
    chunks: String,
    nan: String,
    missing: String,
    infinite: String,
    min: String,
    mean: String,
    max: String,
}

struct RuleView {
    id: String,
    severity: &'static str,
    severity_word: &'static str,
    paragraphs: Vec<String>,
}

impl Page {
    fn of(report: &Report) -> Self {
        let groups = by_rule(report);
        let names = Names::of(report);
        let by_store = counts_by_store(report);
        let worst_stores = worst_stores_first(report, &by_store);
        let views = group_views(&groups, &names);
        let left_out = views.iter().map(|group| group.more).sum();
        let (tone, headline) = tone(report);
        let unread: Vec<&StoreSummary> = report.stores.iter().filter(|store| !store.complete).collect();
        let quiet: Vec<&str> = report
            .rules
            .iter()
            .map(|rule| rule.id)
            .filter(|id| groups.iter().all(|group| group.rule != *id))
            .collect();
        let not_seen: BTreeSet<&str> =
            report.stores.iter().flat_map(|store| &store.not_seen).map(String::as_str).collect();
        let depths: BTreeSet<&str> = report.stores.iter().map(|store| store.depth).collect();
        Self {
            style: STYLE,
            style_digest: digest(STYLE),
            script: SCRIPT,
            script_digest: digest(SCRIPT),
            version: name(&report.zkit_version),
            depth: depths.into_iter().collect::<Vec<_>>().join(", "),
            tone,
            headline,
            verdict: report.verdict(),
            complete: report.complete,
            more_unread: beyond(unread.len(), UNREAD_MOST),
            unread: unread.into_iter().take(UNREAD_MOST).map(|store| name(&store.url)).collect(),
            cards: cards(report),
            next: report.advice(&groups, &names).into_iter().map(clean_advice).collect(),
            strip: (report.stores.len() > 1).then(|| strip(&worst_stores, &by_store, &names)),
            left_out,
            groups: views,
            maps: maps(report, &names),
            more_maps: beyond(report.occupancy.len(), MAPS_MOST),
            lines: lines(report, &names),
            more_lines: beyond(report.series.len(), LINES_MOST),
            stores: store_views(report, &worst_stores, &by_store, &names),
            more_stores: beyond(report.stores.len(), STORES_MOST),
            started: text(&report.started),
            command: text(&report.command),
            variables: variable_views(report, &names),
            more_variables: beyond(report.variables.len(), VARIABLES_MOST),
            rules: rule_views(report, &groups),
            not_seen: not_seen.into_iter().take(NOT_SEEN_MOST).map(text).collect(),
            quiet_rules: quiet.join(", "),
            hidden: report.hidden,
            prefix: names.folder.as_deref().map(name),
        }
    }
}

/// Returns the digest by which a Content-Security-Policy names a style or a script.
fn digest(content: &str) -> String {
    STANDARD.encode(Sha256::digest(content))
}

fn name(name: &str) -> String {
    words::clipped(&sanitize(name), NAME_MOST).into_owned()
}

fn sanitized(name: String) -> String {
    sanitize(&name).into_owned()
}

fn text(text: &str) -> String {
    words::clipped(&sanitize(text), TEXT_MOST).into_owned()
}

fn clean_advice(advice: Advice) -> Advice {
    Advice { what: text(&advice.what), why: text(&advice.why), command: advice.command.as_deref().map(text) }
}

/// Returns how many of `all` are not among the first `shown`.
fn beyond(all: usize, shown: usize) -> u64 {
    all.saturating_sub(shown) as u64
}

fn tone(report: &Report) -> (&'static str, &'static str) {
    match report.findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Error) => ("error", "Do not rely on this data yet"),
        Some(Severity::Warning) => ("warning", "Look at this before you rely on the data"),
        _ if !report.complete => ("warning", "Nothing wrong was seen, but not everything could be read"),
        Some(Severity::Info) => ("info", "Nothing wrong was seen"),
        None => ("good", "Nothing wrong was seen"),
    }
}

/// Returns the word for a severity.
const fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "note",
        other => other.name(),
    }
}

fn cards(report: &Report) -> Vec<Card> {
    let arrays = report.stores.iter().map(|store| store.arrays).fold(0, u64::saturating_add);
    let found = |class: &'static str, number: u64, label| Card {
        class: if number == 0 { "zero" } else { class },
        value: format::count(number),
        label,
    };
    let plain = |value, label| Card { class: "", value, label };
    let unknown = || "unknown".to_owned();
    vec![
        found("error", report.summary.errors, "errors"),
        found("warning", report.summary.warnings, "warnings"),
        found("info", report.summary.infos, "notes"),
        plain(format::count(report.stores.len() as u64), "stores"),
        plain(format::count(arrays), "arrays"),
        plain(sum_in_words(&report.stores, |store| store.bytes_stored).unwrap_or_else(unknown), "stored"),
        plain(sum_in_words(&report.stores, |store| store.bytes_decoded).unwrap_or_else(unknown), "decoded"),
    ]
}

fn counts_by_store(report: &Report) -> BTreeMap<&str, FindingCounts> {
    let mut by_store: BTreeMap<&str, FindingCounts> = BTreeMap::new();
    for finding in &report.findings {
        let counts = by_store.entry(&finding.store).or_default();
        match finding.severity {
            Severity::Error => counts.errors += 1,
            Severity::Warning => counts.warnings += 1,
            Severity::Info => counts.infos += 1,
        }
    }
    by_store
}

/// Returns the stores: those with most errors first, then warnings; the rest in their own order.
fn worst_stores_first<'a>(
    report: &'a Report,
    by_store: &BTreeMap<&str, FindingCounts>,
) -> Vec<&'a StoreSummary> {
    let mut stores: Vec<&StoreSummary> = report.stores.iter().collect();
    stores.sort_by_key(|store| {
        let counts = by_store.get(store.url.as_str()).copied().unwrap_or_default();
        std::cmp::Reverse((counts.errors, counts.warnings, !store.complete, counts.infos))
    });
    stores
}

/// Returns the class of a store by its worst finding, and a sign that does not need colours.
fn class_of(counts: &FindingCounts) -> (&'static str, &'static str) {
    match counts {
        FindingCounts { errors: 1.., .. } => ("error", "\u{d7}"),
        FindingCounts { warnings: 1.., .. } => ("warning", "!"),
        FindingCounts { infos: 1.., .. } => ("info", ""),
        _ => ("good", ""),
    }
}

fn strip(stores: &[&StoreSummary], by_store: &BTreeMap<&str, FindingCounts>, names: &Names) -> Strip {
    let square = |store: &&StoreSummary| {
        let counts = by_store.get(store.url.as_str()).copied().unwrap_or_default();
        let (class, sign) = if store.complete { class_of(&counts) } else { incomplete_class(&counts) };
        (class, sign, format!("{}: {}", sanitized(names.store(&store.url)), words::counts(&counts)))
    };
    svg::strip(stores.iter().take(STORES_MOST).map(square))
}

fn incomplete_class(counts: &FindingCounts) -> (&'static str, &'static str) {
    match class_of(counts) {
        (class @ ("error" | "warning"), sign) => (class, sign),
        _ => ("gap", ""),
    }
}

fn group_views(groups: &[Group<'_>], names: &Names) -> Vec<GroupView> {
    let mut left = ROWS_MOST;
    let mut views = Vec::with_capacity(groups.len());
    for group in groups {
        let rows = alike(group);
        let shown = &rows[..rows.len().min(ROWS_A_RULE).min(left)];
        left -= shown.len();
        let findings: usize = shown.iter().map(|row| row.findings).sum();
        views.push(GroupView {
            rule: name(group.rule),
            severity: group.severity.name(),
            severity_word: severity_word(group.severity),
            sort_key: match group.severity {
                Severity::Error => 0,
                Severity::Warning => 1,
                Severity::Info => 2,
            },
            extent: extent_of(group),
            summary: group.summary.map(text).unwrap_or_default(),
            rows: shown.iter().map(|row| row_view(row, names)).collect(),
            more: beyond(group.findings.len(), findings),
        });
    }
    views
}

/// Returns how far the findings of a rule reach: `12 findings in 3 stores, 7 arrays`.
fn extent_of(group: &Group<'_>) -> String {
    let mut extent = format::counted(group.findings.len() as u64, "finding", "findings");
    extent.push_str(&format!(" in {}", format::counted(group.stores(), "store", "stores")));
    match group.arrays() {
        0 => extent,
        arrays => format!("{extent}, {}", format::counted(arrays, "array", "arrays")),
    }
}

fn row_view(row: &Alike<'_>, names: &Names) -> RowView {
    let finding = row.finding;
    let evidence = finding.evidence.iter().filter(|(key, _)| *key != "coordinates").take(EVIDENCE_MOST);
    RowView {
        stores: folded(&row.stores, |url| sanitized(names.store(url))),
        arrays: folded(&row.arrays, |path| sanitized(clip(path))),
        extent: words::extent(finding).as_deref().map(text).unwrap_or_default(),
        message: text(&finding.message),
        confidence: if finding.confidence == Confidence::High { "" } else { finding.confidence.name() },
        evidence: evidence.map(|(key, value)| (name(key), text(&words::plain(value)))).collect(),
        remedies: row.remedies.iter().map(|remedy| (text(remedy), words::is_command(remedy))).collect(),
    }
}

fn maps(report: &Report, names: &Names) -> Vec<Map> {
    let mut maps: Vec<_> = report.occupancy.iter().collect();
    maps.sort_by_key(|occupancy| !occupancy.map.has_bad());
    maps.into_iter()
        .take(MAPS_MOST)
        .map(|occupancy| {
            let place = sanitized(names.place(&occupancy.store, Some(&occupancy.array)));
            svg::map(&occupancy.map, place, &occupancy.grid_shape)
        })
        .collect()
}

fn lines(report: &Report, names: &Names) -> Vec<Line> {
    // what is the same all along, as NaN over land is, matters least
    let change = |series: &Series| {
        let values = series.points.iter().filter_map(|point| point.value);
        let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most), value| {
            (f64::min(least, value), f64::max(most, value))
        });
        f64::max(most - least, 0.0)
    };
    let mut series: Vec<&Series> = report.series.iter().collect();
    series.sort_by(|a, b| change(b).total_cmp(&change(a)));
    series
        .into_iter()
        .take(LINES_MOST)
        .map(|series| svg::line(series, sanitized(names.place(&series.store, Some(&series.array)))))
        .collect()
}

fn store_views(
    report: &Report,
    stores: &[&StoreSummary],
    by_store: &BTreeMap<&str, FindingCounts>,
    names: &Names,
) -> Vec<StoreView> {
    let largest = report.stores.iter().filter_map(|store| store.bytes_stored).max().unwrap_or(0);
    let share = |stored: u64| (report.stores.len() > 1 && largest > 0).then(|| percent(stored, largest));
    let view = |store: &&StoreSummary| StoreView {
        name: sanitized(names.store(&store.url)),
        kind: name(&store.kind),
        badges: badges(store, by_store.get(store.url.as_str()).copied().unwrap_or_default()),
        arrays: format::count(store.arrays),
        stored: store.bytes_stored.map_or_else(|| "unknown".into(), format::bytes),
        share: store.bytes_stored.and_then(share),
        decoded: store.bytes_decoded.map_or_else(|| "unknown".into(), format::bytes),
        ratio: match (store.bytes_decoded, store.bytes_stored) {
            (Some(decoded), Some(stored)) => format::ratio(decoded, stored),
            _ => String::new(),
        },
        depth: store.depth,
    };
    stores.iter().take(STORES_MOST).map(view).collect()
}

/// Returns a share in whole percent; of `whole` that is not zero.
fn percent(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(100).min(100)
}

fn badges(store: &StoreSummary, counts: FindingCounts) -> Vec<(&'static str, String)> {
    let parts = [
        ("error", counts.errors, "error", "errors"),
        ("warning", counts.warnings, "warning", "warnings"),
        ("info", counts.infos, "note", "notes"),
    ];
    let mut badges: Vec<_> = parts
        .into_iter()
        .filter(|(_, number, ..)| *number > 0)
        .map(|(class, number, one, many)| (class, format::counted(number, one, many)))
        .collect();
    if !store.complete {
        badges.push(("warning", "not all read".into()));
    } else if badges.is_empty() {
        badges.push(("good", "nothing found".into()));
    }
    badges
}

fn variable_views(report: &Report, names: &Names) -> Vec<VariableView> {
    let share = |count: u64, variable: &Variable| count as f64 / variable.elements.max(1) as f64;
    let mut variables: Vec<&Variable> = report.variables.iter().collect();
    let void = |variable: &Variable| share(variable.nan.saturating_add(variable.missing), variable);
    variables.sort_by(|a, b| void(b).total_cmp(&void(a)).then(share(b.nan, b).total_cmp(&share(a.nan, a))));
    let number = |number: Option<f64>| number.map(svg::short).unwrap_or_default();
    let shown = |variable: &Variable, at: usize| match &variable.dates {
        Some(dates) => text(&dates[at]),
        None => number([variable.min, variable.mean, variable.max][at]),
    };
    let view = |variable: &Variable| VariableView {
        store: sanitized(names.store(&variable.store)),
        array: name(&variable.array),
        data_type: name(&variable.data_type),
        chunks: format!(
            "{} of {}",
            format::count(variable.chunks_decoded),
            format::count(variable.chunks_total)
        ),
        nan: format::percent(variable.nan, variable.elements),
        missing: format::percent(variable.missing, variable.elements),
        infinite: format::count(variable.infinite),
        min: shown(variable, 0),
        mean: shown(variable, 1),
        max: shown(variable, 2),
    };
    variables.into_iter().take(VARIABLES_MOST).map(view).collect()
}

/// Returns what is said of the rules that found something, each once.
fn rule_views(report: &Report, groups: &[Group<'_>]) -> Vec<RuleView> {
    let mut seen = BTreeSet::new();
    let mut views = Vec::new();
    for group in groups.iter().filter(|group| seen.insert(group.rule)) {
        let Some(rule) = report.rules.iter().find(|rule| rule.id == group.rule) else { continue };
        views.push(RuleView {
            id: name(rule.id),
            severity: group.severity.name(),
            severity_word: severity_word(group.severity),
            paragraphs: words::paragraphs(if rule.explain.is_empty() { rule.summary } else { rule.explain }),
        });
    }
    views
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;
    use crate::samples::{self, HOSTILE};
    use proptest::prelude::*;

    fn written(report: &Report) -> String {
        samples::written(report, |out, report| write(out, report))
    }

    /// Returns the page without what does not come from the report.
    fn body(page: &str) -> String {
        page.replace(STYLE, "").replace(SCRIPT, "").replace(&digest(STYLE), "-").replace(&digest(SCRIPT), "-")
    }

    /// Returns the tags of a page as (name, names of attributes); panics on a tag that does not end.
    fn tags(page: &str) -> Vec<(String, Vec<String>)> {
        let mut tags = Vec::new();
        let mut rest = page;
        while let Some((_, after)) = rest.split_once('<') {
            let (tag, next) = after.split_once('>').expect("a tag ends");
            rest = next;
            // outside of quotes a tag holds names and `=` alone
            let unquoted: String = tag.split('"').step_by(2).collect();
            let mut words = unquoted.split_whitespace();
            let name = words.next().unwrap_or_default().trim_end_matches('/').to_owned();
            let names = words.map(|word| word.trim_end_matches(['=', '/']).to_owned());
            tags.push((name, names.filter(|name| !name.is_empty()).collect()));
        }
        tags
    }

    #[test]
    fn shows_verdict_findings_maps_and_values() {
        insta::assert_snapshot!(body(&written(&samples::report())));
    }

    #[test]
    fn a_clean_report_says_so() {
        let mut report = samples::report();
        report.findings.clear();
        report.summary = FindingCounts::default();
        report.occupancy.clear();
        let page = written(&report);
        assert!(page.contains("<h1>Nothing wrong was seen</h1>"));
        assert!(!page.contains("id=\"findings\""));
        report.complete = false;
        let page = written(&report);
        assert!(page.contains("<h1>Nothing wrong was seen, but not everything could be read</h1>"));
    }

    #[test]
    fn many_findings_and_long_names_take_some_megabytes_at_most() {
        let mut report = samples::report();
        let long = "x".repeat(2_000);
        let finding = |index: u32| Finding {
            array: Some(format!("/{index}{long}")),
            message: format!("{index} {long}"),
            ..samples::finding(if index.is_multiple_of(2) { "corrupt-chunk" } else { "truncated-chunk" })
        };
        report.findings = (0..1_000).map(finding).collect();
        report.stores.extend(
            (0..5_000)
                .map(|index| StoreSummary { url: format!("/d/{index}{long}"), ..report.stores[0].clone() })
                .collect::<Vec<_>>(),
        );
        let page = written(&report);
        assert!(page.len() < 3_000_000, "{}", page.len());
        assert!(page.contains("and 300 more of corrupt-chunk"));
        assert!(page.contains("600 findings are not listed here"));
        assert!(page.contains("4,503 more are not listed"));
    }

    fn assert_safe(text: &str) {
        let page = written(&samples::hostile_report(text));
        let steers = |character: char| character != '\n' && crate::sanitize::steers_terminal(character);
        assert!(!page.contains(steers), "{page:?}");
        // slashes decide whether stores share a folder, which is said
        let harmless = text.replace(|character| character != '/', "x");
        let expected = tags(&body(&written(&samples::hostile_report(&harmless))));
        let found = tags(&body(&page));
        assert_eq!(found.len(), expected.len(), "other tags than with the name `{harmless}`");
        let different = found.into_iter().zip(expected).find(|(tag, expected)| tag != expected);
        assert_eq!(different, None, "another tag or attribute than with the name `{harmless}`");
        assert_eq!(page.matches("<script>").count(), 1);
    }

    #[test]
    fn hostile_names_change_no_tag() {
        HOSTILE.into_iter().for_each(assert_safe);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_name_changes_a_tag(text in samples::hostile_text()) {
            // no empty name and no command, which the template has other places for
            assert_safe(&format!("x{text}"));
        }
    }
}
