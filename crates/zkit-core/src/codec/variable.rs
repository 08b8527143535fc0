//! Elements of any length: strings, bytes, arrays.

use super::error::CodecError;

const CODEC: &str = "vlen";

/// Elements of any length in C order: one run of bytes and where each element lies in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VariableElements {
    data: Vec<u8>,
    /// Start and length of each element.
    spans: Vec<(usize, usize)>,
}

impl VariableElements {
    /// Returns `count` elements that are all `element`.
    pub fn filled(element: &[u8], count: usize) -> Self {
        Self { data: element.to_vec(), spans: vec![(0, element.len()); count] }
    }

    /// Returns how many elements there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns one element.
    pub fn get(&self, position: usize) -> &[u8] {
        let (start, length) = self.spans[position];
        &self.data[start..start + length]
    }

    /// Returns all elements in C order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|&(start, length)| &self.data[start..start + length])
    }

    /// Returns the position of the first element that is not UTF-8.
    pub fn first_not_utf8(&self) -> Option<usize> {
        self.iter().position(|element| std::str::from_utf8(element).is_err())
    }

    /// Adds an element behind all others.
    pub fn push(&mut self, element: &[u8]) {
        let start = self.data.len();
        self.data.extend_from_slice(element);
        self.spans.push((start, element.len()));
    }

    /// Replaces one element.
    pub fn set(&mut self, position: usize, element: &[u8]) {
        let start = self.data.len();
        self.data.extend_from_slice(element);
        self.spans[position] = (start, element.len());
    }

    /// Puts the elements of `part` at the given positions of these elements.
    pub(super) fn place(&mut self, part: &Self, positions: impl Iterator<Item = (usize, usize)>) {
        let base = self.data.len();
        self.data.extend_from_slice(&part.data);
        for (to, from) in positions {
            let (start, length) = part.spans[from];
            self.spans[to] = (base + start, length);
        }
    }

    /// Returns the bytes that the elements take in memory.
    pub fn memory_bytes(&self) -> usize {
        self.data.len() + self.spans.len() * size_of::<(usize, usize)>()
    }

    /// Reads numcodecs' layout: a count, then length and bytes of each element, lengths as `u32` little-endian.
    /// Source: numcodecs/vlen.pyx.
    pub(super) fn parse(bytes: Vec<u8>, count: usize) -> Result<Self, CodecError> {
        let word = |at: usize| {
            bytes
                .get(at..at + 4)
                .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize)
        };
        let short =
            |position: usize| CodecError::corrupt(CODEC, format!("the bytes end inside element {position}"));
        let found = word(0).ok_or_else(|| CodecError::corrupt(CODEC, "no element count"))?;
        if found != count {
            return Err(CodecError::corrupt(CODEC, format!("{found} elements, {count} expected")));
        }
        // every element takes four bytes at least: a lying count cannot make this allocate
        if (bytes.len() - 4) / 4 < count {
            return Err(short(0));
        }
        let mut spans = Vec::with_capacity(count);
        let mut at = 4;
        for position in 0..count {
            let length = word(at).ok_or_else(|| short(position))?;
            at += 4;
            if bytes.len() - at < length {
                return Err(short(position));
            }
            spans.push((at, length));
            at += length;
        }
        Ok(Self { data: bytes, spans })
    }

    /// Appends numcodecs' layout.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let word = |length: usize| {
            let length = u32::try_from(length).map_err(|_| CodecError::Unsupported {
                codec: CODEC,
                what: format!("an element of {length} bytes"),
            });
            length.map(u32::to_le_bytes)
        };
        out.extend_from_slice(&word(self.len())?);
        for element in self.iter() {
            out.extend_from_slice(&word(element.len())?);
            out.extend_from_slice(element);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_round_trips_and_lies_are_found() {
        let bytes = [2u8, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 0];
        let elements = VariableElements::parse(bytes.to_vec(), 2).unwrap();
        assert_eq!(elements.iter().collect::<Vec<_>>(), [b"a".as_slice(), b""]);
        let mut again = Vec::new();
        elements.write(&mut again).unwrap();
        assert_eq!(again, bytes);
        for length in 0..bytes.len() {
            assert!(VariableElements::parse(bytes[..length].to_vec(), 2).is_err());
        }
        assert!(VariableElements::parse(bytes.to_vec(), 3).is_err());
        assert!(VariableElements::parse(vec![0xff; 8], 0xffff_ffff).is_err());
    }
}
