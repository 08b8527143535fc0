//! Which chunks of a grid are stored, in memory that follows what is stored, never the size of the grid.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Positions that share a page.
const PAGE_BITS: u32 = 16;

/// A longer list would take more memory than a bitmap of the page.
const LIST_LONGEST: usize = 1 << (PAGE_BITS - 4);

/// Words of a page's bitmap.
const PAGE_WORDS: usize = 1 << (PAGE_BITS - 6);

/// A set of C-order chunk positions: pages that are short lists, or bitmaps once they are full enough.
///
/// A chunk costs two bytes where few are stored and one bit where all are.
///
/// ```
/// use zkit_core::grid::ChunkSet;
///
/// let mut stored = ChunkSet::default();
/// assert!(stored.insert(1 << 60));
/// assert!(stored.insert(7) && !stored.insert(7));
/// assert_eq!(stored.iter().collect::<Vec<_>>(), [7, 1 << 60]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkSet {
    pages: BTreeMap<u64, Page>,
    len: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    /// Sorted.
    List(Vec<u16>),
    Bits(Box<[u64; PAGE_WORDS]>),
}

impl ChunkSet {
    /// Returns the set of the first so many positions.
    pub fn first(count: u64) -> Self {
        let whole = |number| (number, Page::Bits(Box::new([u64::MAX; PAGE_WORDS])));
        let mut set = Self {
            pages: (0..count >> PAGE_BITS).map(whole).collect(),
            len: count >> PAGE_BITS << PAGE_BITS,
        };
        (set.len..count).for_each(|position| {
            set.insert(position);
        });
        set
    }

    /// Adds a position; returns whether it was new.
    pub fn insert(&mut self, position: u64) -> bool {
        let (page, slot) = split(position);
        let new = self.pages.entry(page).or_insert_with(|| Page::List(Vec::new())).insert(slot);
        self.len += u64::from(new);
        new
    }

    /// Takes a position out; returns whether it was in.
    pub fn remove(&mut self, position: u64) -> bool {
        let (number, slot) = split(position);
        let Some(page) = self.pages.get_mut(&number) else { return false };
        let removed = page.remove(slot);
        if page.is_empty() {
            self.pages.remove(&number);
        }
        self.len -= u64::from(removed);
        removed
    }

    /// Returns whether a position is in the set.
    pub fn contains(&self, position: u64) -> bool {
        let (page, slot) = split(position);
        self.pages.get(&page).is_some_and(|page| page.contains(slot))
    }

    /// Returns how many positions there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the positions in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages
            .iter()
            .flat_map(|(&number, page)| page.iter().map(move |slot| number << PAGE_BITS | u64::from(slot)))
    }
}

impl ChunkSet {
    /// Returns the positions of a range in ascending order.
    pub fn range(&self, positions: RangeInclusive<u64>) -> impl Iterator<Item = u64> + '_ {
        let pages = self.pages.range(positions.start() >> PAGE_BITS..=positions.end() >> PAGE_BITS);
        let all = pages
            .flat_map(|(&number, page)| page.iter().map(move |slot| number << PAGE_BITS | u64::from(slot)));
        all.filter(move |position| positions.contains(position))
    }
}

impl Page {
    fn insert(&mut self, slot: u16) -> bool {
        match self {
            Self::Bits(words) => set_bit(words, slot),
            Self::List(slots) => match slots.binary_search(&slot) {
                Ok(_) => false,
                Err(place) if slots.len() < LIST_LONGEST => {
                    slots.insert(place, slot);
                    true
                }
                Err(_) => {
                    let mut words = Box::new([0; PAGE_WORDS]);
                    for &old in slots.iter().chain([&slot]) {
                        set_bit(&mut words, old);
                    }
                    *self = Self::Bits(words);
                    true
                }
            },
        }
    }

    fn remove(&mut self, slot: u16) -> bool {
        match self {
            Self::List(slots) => match slots.binary_search(&slot) {
                Ok(place) => {
                    slots.remove(place);
                    true
                }
                Err(_) => false,
            },
            Self::Bits(words) => {
                let (word, bit) = (&mut words[usize::from(slot >> 6)], 1 << (slot & 63));
                let there = *word & bit != 0;
                *word &= !bit;
                there
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::List(slots) => slots.is_empty(),
            Self::Bits(words) => words.iter().all(|&word| word == 0),
        }
    }

    fn contains(&self, slot: u16) -> bool {
        match self {
            Self::List(slots) => slots.binary_search(&slot).is_ok(),
            Self::Bits(words) => words[usize::from(slot >> 6)] & (1 << (slot & 63)) != 0,
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = u16> + Send + '_> {
        match self {
            Self::List(slots) => Box::new(slots.iter().copied()),
            Self::Bits(_) => Box::new((0..=u16::MAX).filter(|&slot| self.contains(slot))),
        }
    }
}

fn set_bit(words: &mut [u64; PAGE_WORDS], slot: u16) -> bool {
    let (word, bit) = (&mut words[usize::from(slot >> 6)], 1 << (slot & 63));
    let new = *word & bit == 0;
    *word |= bit;
    new
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
fn split(position: u64) -> (u64, u16) {
    (position >> PAGE_BITS, position as u16)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn holds_what_was_put_in_and_in_order(positions in proptest::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..300)) {
            let (mut set, mut model) = (ChunkSet::default(), BTreeSet::new());
            for position in positions {
                prop_assert_eq!(set.insert(position), model.insert(position));
            }
            prop_assert_eq!(set.len(), model.len() as u64);
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert!(set.range(50..=u64::MAX / 2).eq(model.range(50..=u64::MAX / 2).copied()));
            prop_assert!(model.iter().all(|&position| set.contains(position)));
        }
    }

    #[test]
    fn the_first_positions_are_all_there_is() {
        for count in [0, 1, 65_535, 65_536, 65_537, 200_000] {
            let set = ChunkSet::first(count);
            assert!(set.iter().eq(0..count));
            assert_eq!(set.len(), count);
        }
    }

    #[test]
    fn pages_that_fill_up_become_bitmaps_and_lose_nothing() {
        let mut set = ChunkSet::default();
        for position in (0..30_000u64).rev().map(|position| position * 3) {
            assert!(set.insert(position));
        }
        assert!(!set.insert(3) && set.contains(89_997) && !set.contains(89_998));
        assert!(set.iter().eq((0..30_000u64).map(|position| position * 3)));
        for position in (0..30_000u64).map(|position| position * 3) {
            assert!(set.remove(position) && !set.remove(position));
        }
        assert_eq!(set, ChunkSet::default());
    }
}
