//! Shows how far a run is: a bar on a terminal, a line now and then elsewhere, nothing with `--quiet`.
//!
//! Workers only add to a [`Meter`]; one thread reads it a few times a second. Work pays nothing for the
//! display.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressState, ProgressStyle};
use zkit_core::event::{Event, Meter, Observer, Pulse};
use zkit_report::{format, sanitize};

use crate::console::Console;
use crate::errors::{Color, labelled};
use crate::memory;
use crate::rates::{Rates, Sample};
use crate::watchdog::Activity;

/// In which way progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// Not at all, and no warnings.
    Quiet,
    /// As lines: for logs.
    Lines,
    /// As a bar, drawn with ASCII.
    AsciiBar,
    /// As a bar, drawn with block characters.
    UnicodeBar,
}

impl Display {
    /// Returns when progress is shown first, and how often after that. Short runs show nothing.
    fn pace(self) -> Option<(Duration, Duration)> {
        match self {
            Self::Quiet => None,
            Self::Lines => Some((Duration::from_secs(10), Duration::from_secs(60))),
            Self::AsciiBar | Self::UnicodeBar => {
                Some((Duration::from_millis(500), Duration::from_millis(200)))
            }
        }
    }
}

/// The observer that commands hand to the core.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    meter: Meter,
    pulse: Pulse,
    display: Display,
    color: Color,
    console: Console,
    told: Mutex<Told>,
    /// Wakes the ticker before its time, when it has to stop.
    stop: Condvar,
    /// Whether work is under way, displayed or not.
    working: AtomicBool,
}

/// What events have told so far.
#[derive(Default)]
struct Told {
    phase: &'static str,
    warnings: BTreeSet<String>,
    stopped: bool,
}

impl Progress {
    /// Returns an observer that shows nothing until it is [started](Self::start).
    pub(crate) fn new(display: Display, console: Console, color: Color) -> Self {
        let (meter, told, stop, working) =
            (Meter::default(), Mutex::default(), Condvar::new(), AtomicBool::default());
        Self {
            shared: Arc::new(Shared {
                meter,
                pulse: Pulse::default(),
                display,
                color,
                console,
                told,
                stop,
                working,
            }),
            ticker: Mutex::default(),
        }
    }

    /// Starts the display, unless it runs.
    pub(crate) fn start(&self) {
        self.shared.working.store(true, Ordering::Relaxed);
        let mut ticker = lock(&self.ticker);
        let Some((first, every)) = self.shared.display.pace() else { return };
        if ticker.is_none() {
            lock(&self.shared.told).stopped = false;
            let shared = Arc::clone(&self.shared);
            let tick = move || shared.tick(first, every);
            // Without a thread there is no display; the work goes on.
            *ticker = thread::Builder::new().name("progress".into()).spawn(tick).ok();
        }
    }

    /// Stops the display and takes the bar away, so that what follows is not mixed with it.
    pub(crate) fn stop(&self) {
        self.shared.working.store(false, Ordering::Relaxed);
        if let Some(ticker) = lock(&self.ticker).take() {
            lock(&self.shared.told).stopped = true;
            self.shared.stop.notify_all();
            let _ = ticker.join();
        }
    }
}

impl Progress {
    /// Returns what tells a watchdog whether the run moves.
    pub(crate) fn activity(&self) -> Activity {
        let (shared, working) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let moved = move || shared.meter.activity().wrapping_add(shared.pulse.beats());
        Box::new(move || working.working.load(Ordering::Relaxed).then(&moved))
    }

    /// Returns what takes warnings where there is no observer at hand.
    pub(crate) fn warner(&self) -> impl Fn(String) + Clone + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move |text| shared.warn(text)
    }

    /// Returns what beats when remote stores answer.
    pub(crate) fn pulse(&self) -> Pulse {
        self.shared.pulse.clone()
    }

    /// Returns what says which phase the run is in.
    pub(crate) fn phase(&self) -> impl Fn() -> String + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || match lock(&shared.told).phase {
            "" => "working".to_owned(),
            phase => phase.to_owned(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Observer for Progress {
    fn event(&self, event: Event) {
        match event {
            Event::Phase(phase) => lock(&self.shared.told).phase = phase,
            Event::Warning(text) => self.shared.warn(text),
            _ => {}
        }
    }

    fn meter(&self) -> &Meter {
        &self.shared.meter
    }
}

impl Shared {
    /// Prints a warning the first time that it comes.
    fn warn(&self, text: String) {
        if self.display == Display::Quiet {
            return;
        }
        let line = format!("{}: {}", labelled("warning", "33", self.color), sanitize(&text));
        // The lock is given back before the console is used: it may have to wait.
        let is_new = lock(&self.told).warnings.insert(text);
        if is_new {
            self.console.line(&line);
        }
    }

    /// Shows progress until told to stop.
    fn tick(&self, first: Duration, every: Duration) {
        let started = Instant::now();
        let mut rates = Rates::default();
        rates.add(Sample::of(&self.meter, Duration::ZERO));
        let mut wait = first;
        while let Some(phase) = self.wait(wait) {
            rates.add(Sample::of(&self.meter, started.elapsed()));
            self.show(phase, &rates);
            wait = every;
        }
        self.console.bar().finish_and_clear();
    }

    /// Waits, and returns the phase of the run; `None` once told to stop.
    fn wait(&self, time: Duration) -> Option<&'static str> {
        let told = lock(&self.told);
        let waited = self.stop.wait_timeout_while(told, time, |told| !told.stopped);
        let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!told.stopped).then_some(told.phase)
    }

    fn show(&self, phase: &str, rates: &Rates) {
        let (extent, pace) = (extent_line(phase, &self.meter, rates), pace_line(&self.meter, rates));
        if self.display == Display::Lines {
            let separator = if pace.is_empty() { "" } else { ", " };
            self.console.line(&format!("{extent}{separator}{pace}"));
            return;
        }
        let bar = self.console.bar();
        let total = self.meter.decoded_bytes_total.get();
        bar.set_style(self.style(extent, total));
        if bar.length() != Some(total) {
            bar.set_length(total);
        }
        bar.set_position(position(&self.meter).min(total));
        // Draws; the style does not.
        bar.set_message(pace);
    }

    /// Returns how the two lines look; while the total is not known, there is no bar to fill.
    fn style(&self, extent: String, total: u64) -> ProgressStyle {
        let template = if total > 0 { "[{bar:24}] {extent}\n{wide_msg}" } else { "{extent}\n{wide_msg}" };
        let characters =
            if self.display == Display::UnicodeBar { "█▉▊▋▌▍▎▏ " } else { "=> " };
        ProgressStyle::with_template(template)
            .expect("the template is fixed and valid")
            .progress_chars(characters)
            .with_key("extent", move |_: &ProgressState, line: &mut dyn fmt::Write| {
                let _ = line.write_str(&extent);
            })
    }
}

/// Returns the decoded bytes that are done, by this run or the one that it goes on with.
fn position(meter: &Meter) -> u64 {
    meter.bytes_decoded.get().saturating_add(meter.decoded_bytes_resumed.get())
}

/// Returns how far the run is: `copying: 12 of 3,930 arrays, 42.0 %, 3 min 05 s left`.
fn extent_line(phase: &str, meter: &Meter, rates: &Rates) -> String {
    let mut parts = Vec::new();
    let (arrays_total, total) = (meter.arrays_total.get(), meter.decoded_bytes_total.get());
    if arrays_total > 0 {
        let done = format::count(meter.arrays_done.get());
        parts.push(format!("{done} of {}", format::counted(arrays_total, "array", "arrays")));
    }
    if total > 0 {
        parts.push(format::percent(position(meter).min(total), total));
        if let Some(left) = rates.time_left(total.saturating_sub(meter.decoded_bytes_resumed.get())) {
            parts.push(format!("{} left", format::duration(left)));
        }
    }
    let phase = if phase.is_empty() { "working" } else { phase };
    if parts.is_empty() { phase.into() } else { format!("{phase}: {}", parts.join(", ")) }
}

/// Returns how fast it is and what it takes: rates in and out, size written and ratio, memory, retries.
fn pace_line(meter: &Meter, rates: &Rates) -> String {
    let flows =
        [("in", meter.bytes_read.get(), rates.read()), ("out", meter.bytes_written.get(), rates.written())];
    let mut parts = Vec::new();
    for (direction, bytes, flow) in flows.into_iter().filter(|&(_, bytes, _)| bytes > 0) {
        let rate = format::bytes_per_second(flow.bytes, flow.time);
        parts.push(format!("{direction} {} at {rate}", format::bytes(bytes)));
    }
    if meter.bytes_encoded.get() > 0 {
        let ratio = format::ratio(meter.bytes_decoded.get(), meter.bytes_encoded.get());
        parts.push(format!("ratio {ratio}"));
    }
    if let Some(rss) = memory::rss_bytes() {
        parts.push(format!("memory {}", format::bytes(rss)));
    }
    if meter.traffic.retries.get() > 0 {
        parts.push(format::counted(meter.traffic.retries.get(), "retry", "retries"));
    }
    parts.join(", ")
}

/// Locks; a thread that panicked while it held one of these locks left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half_way() -> (Meter, Rates) {
        let meter = Meter::default();
        let mut rates = Rates::default();
        rates.add(Sample::of(&meter, Duration::ZERO));
        meter.arrays_total.add(3_930);
        meter.arrays_done.add(12);
        meter.decoded_bytes_total.add(80 << 20);
        meter.bytes_read.add(10 << 20);
        meter.bytes_decoded.add(40 << 20);
        rates.add(Sample::of(&meter, Duration::from_secs(10)));
        (meter, rates)
    }

    #[test]
    fn says_how_far_the_run_is() {
        let (meter, rates) = half_way();
        assert_eq!(
            extent_line("copying", &meter, &rates),
            "copying: 12 of 3,930 arrays, 50.0 %, 10.0 s left"
        );
        assert_eq!(extent_line("", &Meter::default(), &Rates::default()), "working");
        // what an earlier run has done takes no time
        meter.decoded_bytes_resumed.add(20 << 20);
        assert_eq!(extent_line("copying", &meter, &rates), "copying: 12 of 3,930 arrays, 75.0 %, 5.0 s left");
    }

    #[test]
    fn says_how_fast_it_is_and_what_was_written() {
        let (meter, mut rates) = half_way();
        assert!(pace_line(&meter, &rates).starts_with("in 10.0 MiB at 1.00 MiB/s"));
        assert!(!pace_line(&meter, &rates).contains("out"));
        meter.bytes_encoded.add(20 << 20);
        meter.bytes_written.add(20 << 20);
        meter.traffic.retries.add(1);
        rates.add(Sample::of(&meter, Duration::from_secs(20)));
        let line = pace_line(&meter, &rates);
        assert!(line.contains("out 20.0 MiB at 1.00 MiB/s, ratio 2.00 x"), "{line}");
        assert!(line.ends_with("1 retry"), "{line}");
    }

    #[test]
    fn stops_at_once_and_starts_again() {
        let progress = Progress::new(Display::Lines, Console::without_bar(), Color::Off);
        progress.start();
        progress.event(Event::Phase("copying"));
        let asked = Instant::now();
        progress.stop();
        progress.start();
        progress.stop();
        assert!(asked.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn every_style_is_valid() {
        for display in [Display::AsciiBar, Display::UnicodeBar] {
            let progress = Progress::new(display, Console::without_bar(), Color::Off);
            progress.shared.show("copying", &Rates::default());
            progress.shared.meter.decoded_bytes_total.add(1);
            progress.shared.show("copying", &Rates::default());
        }
    }

    #[test]
    fn a_warning_is_remembered() {
        let progress = Progress::new(Display::Lines, Console::without_bar(), Color::Off);
        for _ in 0..3 {
            progress.event(Event::Warning("slow mount".into()));
        }
        assert_eq!(lock(&progress.shared.told).warnings.len(), 1);
    }
}
