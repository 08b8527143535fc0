//! Scans every array of a store and prints what it holds: `cargo run --release --example scan -- STORE [SAMPLE]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{Resources, Sample, ScanTarget, SurveyDepth, scan_values, survey};
use zkit_core::event::Silent;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::store::StoreOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store")?.parse()?;
    let sample = arguments.next().map_or(Ok(Sample::Full), |sample| sample.parse())?;
    let hierarchy = Hierarchy::open(&url, &StoreOptions::default())?;
    let store = hierarchy.readable_store()?;
    let arrays: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
    let (observer, cancel) = (Silent::default(), Cancel::default());
    let depth = SurveyDepth::Listing { sample_most: 0 };
    let surveys = survey(store, &arrays, depth, &observer, &cancel)?;
    let pairs = arrays.iter().zip(&surveys);
    let targets: Vec<ScanTarget<'_>> =
        pairs.map(|(array, survey)| ScanTarget { array, listing: survey.listing.as_ref() }).collect();
    let jobs = std::thread::available_parallelism()?.get();
    let started = Instant::now();
    let resources = Resources { memory_bytes: 128 << 20, jobs };
    let scanned = scan_values(store, &targets, (sample, 0), resources, &observer, &cancel)?;
    for (array, values) in arrays.iter().zip(scanned).take(20) {
        let all = values.statistics();
        println!("{}: {all:?}, mean {:?}, {} corrupt", array.path, all.mean(), values.corrupt.stored.len());
    }
    let meter = &observer.0;
    println!(
        "{:.3} s: {:.3} read, {:.3} decoded and scanned, of {} threads",
        started.elapsed().as_secs_f64(),
        meter.read_time.seconds(),
        meter.decode_time.seconds(),
        jobs
    );
    Ok(())
}
