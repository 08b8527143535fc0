//! What a person asks of a coordinate: `51.5`, `500,850`, `2020-01..2020-02`, `a..`.

/// How a value that is asked for is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// It must be there.
    Exact,
    /// The nearest value; of two equally near ones the larger.
    Nearest,
    /// The value at the position before it: the largest one that is not larger, on falling coordinates the smallest one
    /// that is not smaller.
    Pad,
    /// The value at the position behind it.
    Backfill,
}

/// What is asked for, not yet read as numbers, times or texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// One value; a partial date may be many.
    One(String),
    /// Several, in this order.
    Many(Vec<String>),
    /// All from one to another, both included; either may be open.
    Range(Option<String>, Option<String>),
}

impl Request {
    /// Parses `a`, `a,b,c`, `a..b`, `a..`, `..b` and `..`; spaces around values do not count.
    ///
    /// ```
    /// use zkit_core::select::Request;
    ///
    /// assert_eq!(Request::parse("850, 500"), Request::Many(vec!["850".into(), "500".into()]));
    /// assert_eq!(Request::parse("2020-01.."), Request::Range(Some("2020-01".into()), None));
    /// ```
    pub fn parse(text: &str) -> Self {
        let owned = |part: &str| part.trim().to_owned();
        if let Some((from, to)) = text.split_once("..") {
            let end = |part: &str| Some(owned(part)).filter(|part| !part.is_empty());
            return Self::Range(end(from), end(to));
        }
        if text.contains(',') {
            return Self::Many(text.split(',').map(owned).filter(|part| !part.is_empty()).collect());
        }
        Self::One(owned(text))
    }
}
