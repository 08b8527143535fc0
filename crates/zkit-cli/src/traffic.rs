//! What went over the network, as answers tell it.

use serde::Serialize;
use zkit_core::event::Traffic;
use zkit_report::format;

/// What a run asked of remote stores; all zero where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TrafficOutput {
    /// Requests that were sent, retries included.
    pub requests: u64,
    /// Requests that failed and were tried again, and bodies that were asked for again.
    pub retries: u64,
    /// Of these, refusals because there were too many: answers 429 and 503.
    pub throttled: u64,
    /// Bytes that arrived.
    pub bytes_received: u64,
    /// Reads whose bytes no checksum of the server covers.
    pub unverifiable: u64,
    /// Parts for which the server sent the whole object, or all up to their end: it ignores ranges.
    pub ranges_ignored: u64,
}

impl TrafficOutput {
    /// Returns what was counted so far.
    pub fn of(traffic: &Traffic) -> Self {
        Self {
            requests: traffic.requests.get(),
            retries: traffic.retries.get(),
            throttled: traffic.throttled.get(),
            bytes_received: traffic.bytes_received.get(),
            unverifiable: traffic.unverifiable.get(),
            ranges_ignored: traffic.ranges_ignored.get(),
        }
    }

    /// Returns it in words: `1,204 requests, 3 retries, 2 of them refused as too many; 1.20 GiB received`; `None` where
    /// nothing went over the network.
    pub fn in_words(&self) -> Option<String> {
        if self.requests == 0 {
            return None;
        }
        let mut words = format::counted(self.requests, "request", "requests");
        if self.retries > 0 {
            words += &format!(", {}", format::counted(self.retries, "retry", "retries"));
        }
        if self.throttled > 0 {
            words += &format!(", {} of them refused as too many", format::count(self.throttled));
        }
        words += &format!("; {} received", format::bytes(self.bytes_received));
        if self.unverifiable > 0 {
            let reads = format::counted(self.unverifiable, "read", "reads");
            words += &format!(", {reads} without a checksum of the server");
        }
        if self.ranges_ignored > 0 {
            let parts = format::counted(self.ranges_ignored, "part", "parts");
            words += &format!("; {parts} cut out of whole objects, as the server ignores ranges");
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_asked_and_what_went_wrong() {
        let quiet = TrafficOutput {
            requests: 1_204,
            retries: 0,
            throttled: 0,
            bytes_received: 3 << 20,
            unverifiable: 0,
            ranges_ignored: 0,
        };
        assert_eq!(quiet.in_words().unwrap(), "1,204 requests; 3.00 MiB received");
        let busy = TrafficOutput { retries: 3, throttled: 2, unverifiable: 1, ..quiet };
        assert_eq!(
            busy.in_words().unwrap(),
            "1,204 requests, 3 retries, 2 of them refused as too many; 3.00 MiB received, 1 read without a checksum of \
             the server"
        );
        let wasted = TrafficOutput { ranges_ignored: 7, ..quiet };
        assert_eq!(
            wasted.in_words().unwrap(),
            "1,204 requests; 3.00 MiB received; 7 parts cut out of whole objects, as the server ignores ranges"
        );
        assert_eq!(TrafficOutput { requests: 0, ..quiet }.in_words(), None);
    }
}
