//! Ends a run that makes no progress: a hung mount or server must not hold a job for ever.

use std::thread;
use std::time::{Duration, Instant};

use zkit_report::format;

use crate::console::Console;
use crate::exit::Exit;

/// What the watchdog looks at: a sum of all counters while work is under way, `None` otherwise.
pub(crate) type Activity = Box<dyn Fn() -> Option<u64> + Send>;

/// Starts to watch; once `activity` has not changed for `stall_timeout`, says `where_it_hung` and ends the process.
pub(crate) fn watch(
    stall_timeout: Duration,
    activity: Activity,
    where_it_hung: impl Fn() -> String + Send + 'static,
    console: Console,
) {
    let look = (stall_timeout / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
    // Not joined: it ends with the process.
    thread::spawn(move || {
        let (mut last, mut since) = (None, Instant::now());
        loop {
            thread::sleep(look);
            let now = activity();
            if now.is_none() || now != last {
                (last, since) = (now, Instant::now());
                continue;
            }
            if since.elapsed() >= stall_timeout {
                let time = format::duration(stall_timeout);
                console.line(&format!(
                    "error: no byte was read or written for {time}; the run hung while {}",
                    where_it_hung()
                ));
                console.line("hint: check the disk or the server; --stall-timeout sets how long to wait");
                // A hung system call cannot be interrupted from here: leave without waiting for it.
                signal_hook::low_level::exit(i32::from(Exit::Incomplete.code()));
            }
        }
    });
}
