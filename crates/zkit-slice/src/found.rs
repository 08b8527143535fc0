//! What was asked for and what was found: for people, and as an attribute of the result.

use std::collections::BTreeMap;

use zkit_core::metadata::{Json, Object};
use zkit_core::select::range_in_words;
use zkit_report::format;
use zkit_report::{Column, Table};

use crate::dimensions::{Cell, Dimensions, Overridden, Place};
use crate::duplicates::{Agreement, Duplicate, agreement_in_words};
use crate::selection::{Answer, Selected, Taken};
use crate::sources::Source;

/// Of more single values only how many there were, and the farthest, are recorded.
const RECORDED_MOST: usize = 10_000;
/// So many duplicates are recorded one by one.
const DUPLICATES_MOST: usize = 1_000;
/// Distances are the differences of coordinates in single precision, whose noise is this part of them.
const DISTANCE_NOISE: f64 = 1e-4;
/// So many single values are shown to people.
const SHOWN_MOST: usize = 12;

/// What was asked for and found, of one slice.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    sources: Vec<(usize, String)>,
    answers: Vec<Answer>,
    joined: Vec<JoinedFacts>,
    overridden: Vec<Overridden>,
    notes: Vec<String>,
}

/// Where the values of a joined dimension come from.
#[derive(Debug, Clone)]
struct JoinedFacts {
    dimension: String,
    count: usize,
    values: String,
    /// Of each store how many of its values are in the slice, and which.
    origins: Vec<(String, usize, Vec<String>)>,
    duplicates: Vec<(Duplicate, Vec<String>)>,
}

impl Found {
    /// Gathers what there is to say.
    pub(crate) fn new(
        sources: &[Source],
        dimensions: &Dimensions,
        selected: &Selected,
        notes: Vec<String>,
    ) -> Self {
        let joined = (0..dimensions.all.len())
            .filter_map(|at| joined_facts(sources, dimensions, selected, at))
            .collect();
        Self {
            sources: sources.iter().map(|source| (source.set, source.url().to_owned())).collect(),
            answers: selected.answers.clone(),
            joined,
            overridden: dimensions.overridden.clone(),
            notes,
        }
    }

    /// Returns it as the attribute `zkit_slice` of the result's root.
    pub(crate) fn to_json(&self) -> Json {
        let text = |text: &str| Json::string(text);
        let sources = self.sources.iter().map(|(set, url)| {
            let mut source = Object::from_iter([("url", text(url))]);
            if *set > 0 {
                source.push("merged", Json::number(set));
            }
            source.into()
        });
        let mut object = Object::from_iter([
            ("schema_version", Json::number(1)),
            ("sources", Json::Array(sources.collect())),
            ("selections", Json::Array(self.answers.iter().map(answer_json).collect())),
        ]);
        if !self.joined.is_empty() {
            object.push("joined", Json::Array(self.joined.iter().map(joined_json).collect()));
        }
        if !self.overridden.is_empty() {
            object.push("overridden", Json::Array(self.overridden.iter().map(overridden_json).collect()));
        }
        if !self.notes.is_empty() {
            object.push("notes", Json::Array(self.notes.iter().map(|note| text(note)).collect()));
        }
        object.into()
    }

    /// Returns what people are told: facts and tables.
    pub(crate) fn told(&self) -> (Vec<(String, String)>, Vec<Table>) {
        let (mut facts, mut tables) = (Vec::new(), Vec::new());
        let mut table = Table::new([
            Column::left("dimension"),
            Column::left("asked"),
            Column::left("method"),
            Column::left("found"),
            Column::right("apart"),
        ]);
        for answer in &self.answers {
            match answer.found.len() {
                1..=SHOWN_MOST if answer.count == answer.found.len() => {
                    for found in &answer.found {
                        let apart = distance(answer, found.distance);
                        let name = answer.key.name.as_str();
                        table.row([name, &found.asked, answer.how.word(), &found.value, &apart]);
                    }
                }
                _ => {
                    let farthest = answer.found.iter().map(|found| found.distance).fold(0.0, f64::max);
                    let apart = match answer.found.is_empty() {
                        true => String::new(),
                        false => format!("up to {}", distance(answer, farthest)),
                    };
                    let taken = format!("{} ({})", answer.taken, format::count(answer.count as u64));
                    table.row([answer.key.name.as_str(), &answer.asked, answer.how.word(), &taken, &apart]);
                }
            }
        }
        tables.push(table);
        for joined in &self.joined {
            describe_joined(joined, &mut facts, &mut tables);
        }
        facts.extend(overridden_facts(&self.overridden));
        let notes = self.answers.iter().flat_map(|answer| &answer.notes).chain(&self.notes);
        facts.extend(notes.map(|note| ("note".to_owned(), note.clone())));
        (facts, tables)
    }
}

fn joined_facts(
    sources: &[Source],
    dimensions: &Dimensions,
    selected: &Selected,
    at: usize,
) -> Option<JoinedFacts> {
    let dimension = &dimensions.all[at];
    let Place::Joined(sets) = &dimension.place else { return None };
    let all: Vec<usize>;
    let positions = match &selected.taken[at] {
        Some(taken) => taken.positions(),
        None => {
            all = (0..dimension.length).collect();
            &all
        }
    };
    let mut origins = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let Some(cells) = &sets[source.set] else { continue };
        let held: Vec<usize> = positions
            .iter()
            .copied()
            .filter(|&position| matches!(cells[position], Some(Cell { source, .. }) if source == number))
            .collect();
        origins.push((source.url().to_owned(), held.len(), runs(dimension.coordinate.as_ref(), held)));
    }
    let found = dimensions.duplicates.iter().filter(|(key, _)| *key == dimension.key);
    let duplicates = found.flat_map(|(_, duplicates)| duplicates).map(|duplicate| {
        let urls = duplicate.cells.iter().map(|cell| sources[cell.source].url().to_owned());
        (duplicate.clone(), urls.collect())
    });
    let values = match &selected.taken[at] {
        Some(Taken::Some(_)) | None => runs(dimension.coordinate.as_ref(), positions.to_vec()).join(", "),
        Some(Taken::One(_) | Taken::Points(_)) => String::new(),
    };
    Some(JoinedFacts {
        dimension: dimension.key.name.clone(),
        count: positions.len(),
        values,
        origins,
        duplicates: duplicates.collect(),
    })
}

/// Returns positions as runs, in the values of the coordinate.
fn runs(coordinate: Option<&zkit_core::select::Coordinate>, mut positions: Vec<usize>) -> Vec<String> {
    positions.sort_unstable();
    positions.dedup();
    let runs = positions.chunk_by(|one, other| one + 1 == *other);
    runs.filter_map(|run| {
        let (first, last) = (*run.first()?, *run.last()?);
        Some(match coordinate {
            Some(coordinate) => range_in_words(coordinate, first, last),
            None => format!("{first}..{last}"),
        })
    })
    .collect()
}

/// Returns a distance in words: times in days down to nanoseconds, numbers with their unit.
fn distance(answer: &Answer, distance: f64) -> String {
    let units = [(86_400e9, "d"), (3_600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "us")];
    match answer.unit.as_deref() {
        Some("ns") => {
            let unit = units.iter().find(|(unit, _)| distance >= *unit);
            let (unit, name) = unit.copied().unwrap_or((1.0, "ns"));
            format!("{} {name}", rounded(distance / unit))
        }
        Some(unit) => format!("{} {unit}", rounded(distance)),
        None => rounded(distance),
    }
}

/// Returns a distance with six digits that count, and the noise of single precision left out.
fn rounded(number: f64) -> String {
    let short: f64 = format!("{number:.3e}").parse().unwrap_or(number);
    if (short - number).abs() <= number.abs() * DISTANCE_NOISE {
        return short.to_string();
    }
    ((number * 1e6).round() / 1e6).to_string()
}

fn answer_json(answer: &Answer) -> Json {
    let mut object = Object::from_iter([
        ("dimension", Json::string(&answer.key.name)),
        ("asked", Json::string(&answer.asked)),
        ("method", Json::string(answer.how.word())),
        ("count", Json::number(answer.count)),
        ("taken", Json::string(&answer.taken)),
    ]);
    if !answer.key.scope.is_empty() {
        object.push("group", Json::string(&answer.key.scope));
    }
    if !answer.found.is_empty() {
        let farthest = answer.found.iter().map(|found| found.distance).fold(0.0, f64::max);
        object.push("farthest", Json::number(farthest));
        if let Some(unit) = &answer.unit {
            object.push("distance_units", Json::string(unit));
        }
    }
    if (1..=RECORDED_MOST).contains(&answer.found.len()) {
        let found = answer.found.iter().map(|found| {
            Object::from_iter([
                ("asked", Json::string(&found.asked)),
                ("found", Json::string(&found.value)),
                ("distance", Json::number(found.distance)),
            ])
            .into()
        });
        object.push("found", Json::Array(found.collect()));
    }
    if !answer.notes.is_empty() {
        object.push("notes", Json::Array(answer.notes.iter().map(Json::string).collect()));
    }
    object.into()
}

fn overridden_json(overridden: &Overridden) -> Json {
    let (largest, words) = overridden.largest.clone().unzip();
    Object::from_iter([
        ("path", Json::string(&overridden.path)),
        ("taken_from", Json::string(&overridden.taken)),
        ("instead_of", Json::string(&overridden.passed_over)),
        ("count", Json::number(overridden.count)),
        ("largest_difference", largest.map_or(Json::Null, Json::number)),
        ("largest_difference_text", words.map_or(Json::Null, Json::string)),
    ])
    .into()
}

/// Returns, for each array of which differences were passed over, the largest one and how many stores had any.
fn overridden_facts(overridden: &[Overridden]) -> Vec<(String, String)> {
    let mut by_path: BTreeMap<&str, Vec<&Overridden>> = BTreeMap::new();
    for one in overridden {
        by_path.entry(&one.path).or_default().push(one);
    }
    let fact = |(path, all): (&str, Vec<&Overridden>)| {
        let measured = all.iter().filter_map(|one| one.largest.as_ref());
        let largest = measured.max_by(|one, other| one.0.total_cmp(&other.0));
        let by = largest.map_or_else(String::new, |(_, words)| format!(" by up to {words}"));
        let others = match all.as_slice() {
            [one] => one.passed_over.clone(),
            many => format::counted(many.len() as u64, "other store", "other stores"),
        };
        let said = format!("`{path}` differs{by} in {others}; that of {} was taken", all[0].taken);
        ("overridden".to_owned(), said)
    };
    by_path.into_iter().map(fact).collect()
}

fn joined_json(joined: &JoinedFacts) -> Json {
    let origins = joined.origins.iter().map(|(url, count, values)| {
        Object::from_iter([
            ("url", Json::string(url)),
            ("count", Json::number(count)),
            ("values", Json::Array(values.iter().map(Json::string).collect())),
        ])
        .into()
    });
    let mut object = Object::from_iter([
        ("dimension", Json::string(&joined.dimension)),
        ("count", Json::number(joined.count)),
        ("origins", Json::Array(origins.collect())),
    ]);
    if !joined.duplicates.is_empty() {
        let duplicates = joined.duplicates.iter().take(DUPLICATES_MOST).map(|(duplicate, urls)| {
            let agree = match duplicate.agreement {
                Agreement::Unknown => Json::Null,
                Agreement::Same { .. } => Json::Bool(true),
                Agreement::Differs { .. } => Json::Bool(false),
            };
            Object::from_iter([
                ("value", Json::string(&duplicate.value)),
                ("urls", Json::Array(urls.iter().map(Json::string).collect())),
                ("agree", agree),
            ])
            .into()
        });
        object.push("duplicate_values", Json::number(joined.duplicates.len()));
        object.push("duplicates", Json::Array(duplicates.collect()));
    }
    object.into()
}

fn describe_joined(joined: &JoinedFacts, facts: &mut Vec<(String, String)>, tables: &mut Vec<Table>) {
    let count = format::count(joined.count as u64);
    let along = match joined.values.is_empty() {
        true => count,
        false => format!("{count}: {}", joined.values),
    };
    facts.push((joined.dimension.clone(), along));
    if !joined.duplicates.is_empty() {
        let same = joined
            .duplicates
            .iter()
            .filter(|(duplicate, _)| matches!(duplicate.agreement, Agreement::Same { .. }))
            .count();
        let values = format::counted(joined.duplicates.len() as u64, "value", "values");
        let said = format!("{values} in more than one place; {same} hold the same");
        facts.push(("duplicates".to_owned(), said));
    }
    let mut table = Table::new([Column::left("source"), Column::right("taken"), Column::left("values")]);
    for (url, count, values) in &joined.origins {
        table.row([url.as_str(), &format::count(*count as u64), &values.join(", ")]);
    }
    tables.push(table);
    let mut table = Table::new([Column::left("value"), Column::left("appears in"), Column::left("contents")]);
    for (duplicate, urls) in joined.duplicates.iter().take(SHOWN_MOST) {
        table.row([duplicate.value.as_str(), &urls.join(", "), &agreement_in_words(&duplicate.agreement)]);
    }
    tables.push(table);
}
