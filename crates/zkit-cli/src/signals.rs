//! Ctrl-C and SIGTERM: once asks the run to stop, twice ends it.

use std::io;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use zkit_core::cancel::Cancel;

use crate::console::Console;
use crate::exit::Exit;

const STOPPING: &str =
    "stopping: what is in flight is finished or dropped; press Ctrl-C again to stop at once";

/// Starts to listen: the first signal sets `cancel`; the second calls `leave` and ends the process.
pub(crate) fn listen(cancel: Cancel, console: Console, leave: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            cancel.cancel();
            // In a thread of its own: a terminal that takes no text must not keep the second signal waiting.
            let console = console.clone();
            thread::spawn(move || console.line(STOPPING));
        }
        if arrived.next().is_some() {
            leave();
            // Skips destructors and exit handlers, which may wait for what hangs.
            signal_hook::low_level::exit(i32::from(Exit::Interrupted.code()));
        }
    })?;
    Ok(())
}
