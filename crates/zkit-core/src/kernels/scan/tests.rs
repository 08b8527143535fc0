//! Scans against a model that looks at one element after the other, and against the scalar twins.

use proptest::prelude::*;

use super::*;

const KINDS: [ElementKind; 16] = [
    ElementKind::Unsigned(1),
    ElementKind::Unsigned(2),
    ElementKind::Unsigned(4),
    ElementKind::Unsigned(8),
    ElementKind::Signed(1),
    ElementKind::Signed(2),
    ElementKind::Signed(4),
    ElementKind::Signed(8),
    ElementKind::Float(2),
    ElementKind::Float(4),
    ElementKind::Float(8),
    ElementKind::BFloat16,
    ElementKind::Time,
    ElementKind::Complex(4),
    ElementKind::Complex(8),
    ElementKind::Opaque(24),
];

/// What numpy would see in one element.
#[derive(Clone, Copy)]
struct Seen {
    nan: bool,
    positive: bool,
    negative: bool,
    value: Option<Scalar>,
}

fn float(value: f64) -> Seen {
    Seen {
        nan: value.is_nan(),
        positive: value == f64::INFINITY,
        negative: value == f64::NEG_INFINITY,
        value: Some(Scalar::Float(value)),
    }
}

fn number(value: Option<Scalar>) -> Seen {
    Seen { nan: false, positive: false, negative: false, value }
}

fn see(kind: ElementKind, item: &[u8]) -> Seen {
    let unsigned = item.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    let shift = 64 - 8 * u32::try_from(item.len().min(8)).unwrap();
    let signed = (unsigned << shift).cast_signed() >> shift;
    match kind {
        ElementKind::Unsigned(_) => number(Some(Scalar::UInt(unsigned))),
        ElementKind::Signed(_) => number(Some(Scalar::Int(signed))),
        ElementKind::Time => Seen { nan: signed == i64::MIN, ..number(Some(Scalar::Int(signed))) },
        ElementKind::Float(2) => float(half::f16::from_le_bytes(item.try_into().unwrap()).to_f64()),
        ElementKind::Float(4) => float(f64::from(f32::from_le_bytes(item.try_into().unwrap()))),
        ElementKind::Float(_) => float(f64::from_le_bytes(item.try_into().unwrap())),
        ElementKind::BFloat16 => float(f64::from(f32::from_le_bytes([0, 0, item[0], item[1]]))),
        ElementKind::Complex(bytes) => {
            let (real, imaginary) = item.split_at(usize::from(bytes));
            let [a, b] = [real, imaginary].map(|part| see(ElementKind::Float(bytes), part));
            let infinite = a.positive | a.negative | b.positive | b.negative;
            Seen { nan: a.nan | b.nan, positive: infinite, negative: false, value: None }
        }
        ElementKind::Opaque(_) => number(None),
    }
}

/// The statistics of elements, one after the other; without the sum.
fn model(kind: ElementKind, bytes: &[u8], fill: Option<&[u8]>, missing: &[&[u8]]) -> (Statistics, f64) {
    let mut statistics = Statistics::default();
    let (mut sum, mut first) = (0.0, None);
    let mut constant = true;
    for item in bytes.chunks_exact(kind.item_bytes()) {
        let seen = see(kind, item);
        statistics.elements += 1;
        statistics.nan += u64::from(seen.nan);
        statistics.positive_infinity += u64::from(seen.positive);
        statistics.negative_infinity += u64::from(seen.negative);
        statistics.fill += u64::from(fill == Some(item));
        let is_missing = missing.contains(&item);
        statistics.missing += u64::from(is_missing);
        constant &= *first.get_or_insert(item) == item;
        if let (false, Some(value)) = (seen.nan | seen.positive | seen.negative | is_missing, seen.value) {
            statistics.valid += 1;
            sum += value.to_f64();
            if statistics.min.is_none_or(|min| value < min) {
                statistics.min = Some(value);
            }
            if statistics.max.is_none_or(|max| value > max) {
                statistics.max = Some(value);
            }
        }
    }
    statistics.constancy = match first {
        None => Constancy::Empty,
        Some(item) if constant && item.len() <= 16 => Constancy::Constant(little_endian(item)),
        Some(item) if constant => Constancy::Constant(xxhash_rust::xxh3::xxh3_128(item)),
        Some(_) => Constancy::Varied,
    };
    (statistics, sum)
}

fn same(found: &Statistics, expected: &Statistics) -> bool {
    let counts = |s: &Statistics| {
        let infinite = (s.positive_infinity, s.negative_infinity);
        (s.elements, s.nan, infinite, s.fill, s.missing, s.valid, s.constancy)
    };
    counts(found) == counts(expected) && (found.min, found.max) == (expected.min, expected.max)
}

/// Elements, and the fill and missing values that are looked for.
type Case = (ElementKind, Vec<u8>, Option<Vec<u8>>, Vec<Vec<u8>>);

/// Elements drawn from a few values, so that fills, NaN and runs occur; and what is looked for.
fn cases() -> impl Strategy<Value = Case> {
    (prop::sample::select(KINDS.to_vec()), 1..6usize, 0..3usize, 0..5000usize, any::<u64>(), any::<bool>())
        .prop_flat_map(|(kind, values, missing, elements, seed, fill)| {
            let item = kind.item_bytes();
            let special: Vec<Vec<u8>> = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0]
                .iter()
                .map(|value| match item {
                    2 => half::f16::from_f64(*value).to_le_bytes().to_vec(),
                    4 => half::f16::from_f64(*value).to_f32().to_le_bytes().to_vec(),
                    8 => value.to_le_bytes().to_vec(),
                    _ => vec![0xff; item],
                })
                .collect();
            let special =
                prop_oneof![prop::sample::select(special), prop::collection::vec(any::<u8>(), item)];
            prop::collection::vec(special, values).prop_map(move |values| {
                let mut state = seed;
                let mut next = || {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    state >> 33
                };
                let run = next() % 500 + 1;
                let mut bytes = Vec::new();
                let mut value = &values[0];
                for _ in 0..elements {
                    if next() % run == 0 {
                        value = &values[usize::try_from(next()).unwrap() % values.len()];
                    }
                    bytes.extend_from_slice(value);
                }
                let missing = values.iter().take(missing).cloned().collect();
                (kind, bytes, fill.then(|| values[values.len() - 1].clone()), missing)
            })
        })
}

proptest! {
    #[test]
    fn agrees_with_one_element_after_the_other((kind, bytes, fill, missing) in cases(), cut in 0..6000usize) {
        let missing: Vec<&[u8]> = missing.iter().map(Vec::as_slice).collect();
        let scanner = Scanner::new(kind, fill.as_deref(), &missing);
        let (expected, sum) = model(kind, &bytes, fill.as_deref(), &missing);
        let mut found = Statistics::default();
        let (a, b) = bytes.split_at((cut * kind.item_bytes()).min(bytes.len()));
        scanner.scan(a, &mut found);
        scanner.scan(b, &mut found);
        prop_assert!(same(&found, &expected), "{kind:?}: {found:?} is not {expected:?}");
        match found.mean() {
            Some(mean) => {
                let (mean_expected, largest) = (sum / found.valid as f64, found.max.unwrap().to_f64().abs().max(found.min.unwrap().to_f64().abs()));
                prop_assert!((mean - mean_expected).abs() <= largest * 1e-9 || !sum.is_finite(), "{mean} is not {mean_expected}");
            }
            None => prop_assert_eq!(found.valid, 0),
        }
        // joined, they are the same
        let (mut first, mut second) = (Statistics::default(), Statistics::default());
        scanner.scan(a, &mut first);
        scanner.scan(b, &mut second);
        first.join(&second);
        prop_assert!(same(&first, &expected));
    }

    #[test]
    fn agrees_with_the_scalar_twin_to_the_last_bit((kind, bytes, fill, missing) in cases()) {
        let missing: Vec<&[u8]> = missing.iter().map(Vec::as_slice).collect();
        let scanner = Scanner::new(kind, fill.as_deref(), &missing);
        let twin = Scanner { scalar: true, ..scanner.clone() };
        let (mut found, mut expected) = (Statistics::default(), Statistics::default());
        scanner.scan(&bytes, &mut found);
        twin.scan(&bytes, &mut expected);
        prop_assert!(same(&found, &expected));
        prop_assert_eq!(found.mean().map(f64::to_bits), expected.mean().map(f64::to_bits));
        let elements = bytes.len() / kind.item_bytes();
        let (mut counts, mut twins) = (vec![7; elements], vec![7; elements]);
        scanner.add_nan(&bytes, &mut counts);
        twin.add_nan(&bytes, &mut twins);
        prop_assert_eq!(counts.iter().map(|&count| u64::from(count) - 7).sum::<u64>(), expected.nan);
        prop_assert_eq!(counts, twins);
    }
}

#[test]
fn nothing_has_no_statistics() {
    for kind in KINDS {
        let mut statistics = Statistics::default();
        Scanner::new(kind, None, &[]).scan(&vec![0; kind.item_bytes() - 1], &mut statistics);
        assert_eq!(statistics, Statistics::default());
    }
}

#[test]
fn a_large_sum_is_right() {
    // one float32 after the other, the sum would stop growing at 2^24
    let values: Vec<u8> = (0..1 << 22).flat_map(|_| 16.1_f32.to_le_bytes()).collect();
    let mut statistics = Statistics::default();
    Scanner::new(ElementKind::Float(4), None, &[]).scan(&values, &mut statistics);
    assert!((statistics.mean().unwrap() - f64::from(16.1_f32)).abs() < 1e-12);
}
