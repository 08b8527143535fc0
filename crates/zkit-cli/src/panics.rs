//! What is said when zkit itself is broken.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

use zkit_core::hierarchy::panics_are_contained;
use zkit_report::sanitize;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const ISSUES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");

/// Makes a panic say that it is a bug and where to report it; the process then ends with code 101.
pub(crate) fn install_hook() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(|info| {
        if panics_are_contained() {
            return;
        }
        // Many threads may fail of one cause; the first says it.
        if !REPORTED.swap(true, Ordering::Relaxed) {
            let _ = std::io::stderr().write_all(report(info).as_bytes());
        }
    }));
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(|| "an unknown place".into(), ToString::to_string);
    let message = sanitize(info.payload_as_str().unwrap_or("no message"));
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let mut text = format!(
        "error: zkit failed in a way that it should not; this is a bug\n  \
         caused by: {message}\n  at {place}, zkit {VERSION}, {system} {machine}\n\
         hint: report this text and the command line at {ISSUES}\n"
    );
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("{backtrace}\n"));
    }
    text
}
