//! How many reads of one server are in flight: as many as make it faster, and fewer when it asks for patience.
//!
//! A read holds its permit from before its first request until its body has arrived, pauses between tries included: what a
//! server refuses does not make room for more.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads in flight before anything is known of the server.
const WIDTH_AT_FIRST: usize = 64;
/// What an answer counts beside its bytes, so that many small objects are throughput too.
const ANSWER_BYTES: u64 = 64 << 10;
/// A round that brings so much more than the best one before shows that the wider window paid.
const GAIN: f64 = 1.05;
/// A round that brings less than this share shows that things have changed.
const LOSS: f64 = 0.7;
/// Rounds without gain after which a wider window is tried again.
const ROUNDS_BEFORE_PROBE: u32 = 8;

/// Lets so many reads of one server through at once.
#[derive(Debug)]
pub(super) struct Window {
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    /// Permits that are taken away as they come back.
    owed: usize,
    /// Reads that wait for a permit.
    waiting: usize,
    round: Round,
    /// When the window was halved last: what was asked before that says nothing new.
    halved: Option<Instant>,
    /// Until when the server wants to be left alone.
    hold_until: Option<Instant>,
}

/// As many reads as the window is wide.
#[derive(Debug)]
struct Round {
    begun: Instant,
    reads: usize,
    bytes: u64,
    /// Whether one had to wait for a permit: else the window is not what limits.
    waited: bool,
}

impl Round {
    fn new(waited: bool) -> Self {
        Self { begun: Instant::now(), reads: 0, bytes: 0, waited }
    }

    /// Returns bytes a second.
    fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let work = (self.bytes + ANSWER_BYTES * self.reads as u64) as f64;
        work / self.begun.elapsed().as_secs_f64().max(1e-6)
    }
}

/// A read that is in flight.
#[derive(Debug)]
pub(super) struct Permit {
    window: Arc<Window>,
    permit: Option<OwnedSemaphorePermit>,
    bytes: u64,
}

impl Permit {
    /// Counts what arrived.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.window.left(permit, self.bytes);
        }
    }
}

/// A read that waits for a permit, until it has one or is given up.
struct Waiting<'w>(&'w Window);

impl<'w> Waiting<'w> {
    fn new(window: &'w Window) -> Self {
        let mut state = window.lock();
        state.waiting += 1;
        state.round.waited = true;
        Self(window)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Window {
    pub(super) fn new(most: NonZeroUsize) -> Self {
        let pace = Pace::new(most.get());
        let (owed, waiting, round) = (0, 0, Round::new(false));
        let state = State { owed, waiting, round, halved: None, hold_until: None, pace };
        Self { permits: Arc::new(Semaphore::new(state.pace.width)), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another read may begin.
    pub(super) async fn enter(self: &Arc<Self>) -> Permit {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _waiting = Waiting::new(self);
                Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed")
            }
        };
        Permit { window: Arc::clone(self), permit: Some(permit), bytes: 0 }
    }

    fn left(&self, permit: OwnedSemaphorePermit, bytes: u64) {
        let mut state = self.lock();
        if state.owed > 0 {
            state.owed -= 1;
            permit.forget();
        }
        state.round.reads += 1;
        state.round.bytes = state.round.bytes.saturating_add(bytes);
        if state.round.reads >= state.pace.width {
            let next = Round::new(state.waiting > 0);
            let round = std::mem::replace(&mut state.round, next);
            if round.waited {
                let before = state.pace.width;
                state.pace.round(round.rate());
                self.resize(&mut state, before);
            }
        }
    }

    /// Halves the window, as the server refused a request that was sent at `asked`; once for all that were sent before it
    /// was halved.
    pub(super) fn refused(&self, asked: Instant) {
        let mut state = self.lock();
        if state.halved.is_some_and(|halved| asked < halved) {
            return;
        }
        let before = state.pace.width;
        state.pace.refused();
        state.halved = Some(Instant::now());
        state.round = Round::new(state.waiting > 0);
        self.resize(&mut state, before);
    }

    fn resize(&self, state: &mut State, before: usize) {
        let width = state.pace.width;
        if width < before {
            state.owed += before - width;
        } else {
            let paid = state.owed.min(width - before);
            state.owed -= paid;
            self.permits.add_permits(width - before - paid);
        }
    }

    /// Lets no request begin for some time, as the server asked.
    pub(super) fn hold(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.lock();
        state.hold_until = Some(state.hold_until.map_or(until, |before| before.max(until)));
    }

    /// Waits until the server may be asked again.
    pub(super) async fn wait_for_server(&self) {
        loop {
            let until = self.lock().hold_until;
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }
}

/// Decides how wide a window is.
#[derive(Debug)]
struct Pace {
    width: usize,
    most: usize,
    /// How wide it was before it grew last.
    before: usize,
    /// Bytes a second at which it grew last.
    reference: f64,
    growth: Growth,
    /// Rounds without gain.
    flat: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// Twice as wide, while each time pays.
    Doubling,
    /// An eighth wider.
    Careful,
}

impl Pace {
    fn new(most: usize) -> Self {
        let width = WIDTH_AT_FIRST.min(most);
        Self { width, most, before: width, reference: 0.0, growth: Growth::Doubling, flat: 0 }
    }

    /// Takes in how many bytes a second a round brought in which the window was full.
    fn round(&mut self, rate: f64) {
        if rate > self.reference * GAIN {
            (self.reference, self.flat) = (rate, 0);
            return self.grow();
        }
        // what did not pay is taken back
        (self.growth, self.width) = (Growth::Careful, self.before.min(self.width));
        if rate < self.reference * LOSS {
            (self.reference, self.flat) = (rate, 0);
            return;
        }
        self.flat += 1;
        if self.flat.is_multiple_of(ROUNDS_BEFORE_PROBE) {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.before = self.width;
        let more = if self.growth == Growth::Doubling { self.width } else { self.width.div_ceil(8) };
        self.width = self.width.saturating_add(more).min(self.most);
    }

    fn refused(&mut self) {
        self.width = (self.width / 2).max(1);
        // what was possible before is no measure any more
        *self = Self { before: self.width, reference: 0.0, growth: Growth::Careful, flat: 0, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 128;

    fn window(most: usize) -> Arc<Window> {
        Arc::new(Window::new(NonZeroUsize::new(most).unwrap()))
    }

    /// Runs rounds against a server that serves so many requests at once, each in a second.
    fn settle(pace: &mut Pace, serves: usize, rounds: usize) {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        (0..rounds).for_each(|_| pace.round(pace.width.min(serves) as f64));
    }

    #[test]
    fn grows_to_the_bound_within_two_rounds_where_each_connection_adds() {
        let mut pace = Pace::new(MOST);
        settle(&mut pace, 1000, 2);
        assert_eq!(pace.width, MOST);
    }

    #[test]
    fn stops_growing_where_more_connections_bring_no_more() {
        let mut pace = Pace::new(1024);
        settle(&mut pace, 48, 40);
        assert!((48..=80).contains(&pace.width), "{}", pace.width);
    }

    #[test]
    fn recovers_from_refusals_round_by_round() {
        let mut pace = Pace::new(MOST);
        settle(&mut pace, 1000, 2);
        (0..20).for_each(|_| pace.refused());
        assert_eq!(pace.width, 1);
        settle(&mut pace, 1000, 50);
        assert_eq!(pace.width, MOST);
    }

    #[test]
    fn becomes_narrower_again_where_growing_made_it_slower() {
        let mut pace = Pace::new(MOST);
        pace.round(100.0);
        assert_eq!(pace.width, 2 * WIDTH_AT_FIRST);
        pace.round(50.0);
        assert_eq!(pace.width, WIDTH_AT_FIRST);
    }

    fn wait<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn refusals_of_one_round_trip_halve_the_window_once() {
        let window = window(64);
        let mut permits: Vec<Permit> = (0..WIDTH_AT_FIRST).map(|_| wait(window.enter())).collect();
        let asked = Instant::now();
        (0..10).for_each(|_| window.refused(asked));
        assert_eq!(window.lock().pace.width, WIDTH_AT_FIRST / 2);
        // nobody enters before half of them have left
        permits.truncate(WIDTH_AT_FIRST / 2);
        assert_eq!(window.permits.available_permits(), 0);
        permits.truncate(1);
        assert_eq!(window.permits.available_permits(), WIDTH_AT_FIRST / 2 - 1);
        window.refused(Instant::now());
        assert_eq!(window.lock().pace.width, WIDTH_AT_FIRST / 4);
    }

    #[test]
    fn a_window_that_nobody_waits_for_stays_as_it_is() {
        let window = window(64);
        for _ in 0..10 * WIDTH_AT_FIRST {
            drop(wait(window.enter()));
        }
        assert_eq!(window.lock().pace.width, WIDTH_AT_FIRST);
    }

    #[test]
    fn a_window_grows_while_reads_wait_that_came_before_its_round() {
        let window = window(MOST);
        wait(async {
            let most = std::sync::atomic::AtomicUsize::new(0);
            let reads = (0..4 * MOST).map(|_| async {
                let _permit = window.enter().await;
                let in_flight = window.lock().pace.width - window.permits.available_permits();
                most.fetch_max(in_flight, std::sync::atomic::Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            });
            futures_util::future::join_all(reads).await;
            assert_eq!(most.into_inner(), MOST);
        });
        assert_eq!(window.lock().waiting, 0);
    }

    #[test]
    fn a_server_that_asks_for_patience_is_left_alone() {
        let window = window(4);
        let (begun, asked) = (Instant::now(), Duration::from_millis(20));
        window.hold(asked);
        window.hold(Duration::ZERO);
        wait(window.wait_for_server());
        assert!(begun.elapsed() >= asked);
    }
}
