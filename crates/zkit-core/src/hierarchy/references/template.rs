//! Templates of kerchunk references, and the rules that generate references from them.
//!
//! Source: kerchunk's specification, version 1: `templates`, `gen`. The specification names jinja2; what is understood
//! here is what its examples use: names, integers, texts, `+ - * // %`, parentheses, and templates called with arguments.

use std::collections::BTreeMap;

use super::GENERATED_MOST;
use crate::metadata::Json;

/// Texts are not filled in beyond this: templates in templates multiply.
const TEXT_BYTES_MOST: usize = 1 << 16;
/// Templates that call templates are followed so deep, and so are parentheses.
const DEPTH_MOST: usize = 16;

type Variables = BTreeMap<String, Value>;

/// Named texts, with places to be filled in.
#[derive(Debug, Clone, Default)]
pub(super) struct Templates(BTreeMap<String, String>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Integer(i64),
    Text(String),
}

impl Templates {
    /// Reads `templates`.
    pub(super) fn of(document: Option<&Json>) -> Self {
        let templates = document.and_then(Json::as_object).into_iter().flat_map(|object| object.iter());
        Self(
            templates
                .filter_map(|(name, value)| Some((name.to_owned(), value.as_str()?.to_owned())))
                .collect(),
        )
    }

    /// Fills in a text; the error says what could not be.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        self.render(text, &Variables::new(), 0)
    }

    /// Calls `take` with every reference that a rule generates: key, address, offset and length; until it returns `false`,
    /// which is an error.
    pub(super) fn generate(
        &self,
        rule: &Json,
        mut take: impl FnMut(String, String, Option<(u64, u64)>) -> bool,
    ) -> Result<(), String> {
        let text = |name: &str| rule.get(name).and_then(Json::as_str);
        let (Some(key), Some(url)) = (text("key"), text("url")) else {
            return Err("a rule of `gen` has no key or no url".to_owned());
        };
        let range = match (rule.get("offset"), rule.get("length")) {
            (Some(offset), Some(length)) => Some((written(offset)?, written(length)?)),
            (None, None) => None,
            _ => return Err("a rule of `gen` has only one of offset and length".to_owned()),
        };
        let dimensions = rule.get("dimensions").and_then(Json::as_object);
        let dimensions: Vec<(&str, Steps)> = dimensions
            .ok_or("a rule of `gen` has no dimensions")?
            .iter()
            .map(|(name, steps)| Ok((name, Steps::of(steps)?)))
            .collect::<Result<_, String>>()?;
        let mut at = vec![0; dimensions.len()];
        if dimensions.iter().any(|(_, steps)| steps.len() == 0) {
            return Ok(());
        }
        let too_many = || "its rules generate more references than zkit reads".to_owned();
        let count = dimensions.iter().try_fold(1usize, |count, (_, steps)| count.checked_mul(steps.len()));
        count.filter(|&count| count <= GENERATED_MOST).ok_or_else(too_many)?;
        loop {
            let variables =
                dimensions.iter().zip(&at).map(|((name, steps), &at)| ((*name).to_owned(), steps.at(at)));
            let variables: Variables = variables.collect();
            let whole = |template: &str| {
                let text = self.render(template, &variables, 0)?;
                text.trim()
                    .parse::<u64>()
                    .map_err(|_| format!("`{template}` gives `{text}`, which is no number"))
            };
            let range = match &range {
                Some((offset, length)) => Some((whole(offset)?, whole(length)?)),
                None => None,
            };
            let (key, url) = (self.render(key, &variables, 0)?, self.render(url, &variables, 0)?);
            if !take(key, url, range) {
                return Err(too_many());
            }
            // the last dimension runs fastest
            let mut dimension = dimensions.len();
            loop {
                let Some(next) = dimension.checked_sub(1) else { return Ok(()) };
                dimension = next;
                at[dimension] += 1;
                if at[dimension] < dimensions[dimension].1.len() {
                    break;
                }
                at[dimension] = 0;
            }
        }
    }

    fn render(&self, text: &str, variables: &Variables, depth: usize) -> Result<String, String> {
        if depth > DEPTH_MOST {
            return Err(format!("templates are nested more than {DEPTH_MOST} deep"));
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once("{{") {
            let (expression, behind) =
                tail.split_once("}}").ok_or_else(|| format!("`{text}` has no end of `{{{{`"))?;
            filled.push_str(before);
            let mut parser =
                Parser { templates: self, variables, rest: expression.trim(), depth, whole: expression };
            match parser.sum()? {
                Value::Integer(number) => filled.push_str(&number.to_string()),
                Value::Text(value) => filled.push_str(&value),
            }
            if !parser.rest.is_empty() {
                return Err(parser.misunderstood());
            }
            if filled.len() > TEXT_BYTES_MOST {
                return Err(format!("a template gives more than {TEXT_BYTES_MOST} bytes"));
            }
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// What a variable of a rule runs through.
enum Steps {
    Range { start: i64, step: i64, count: usize },
    Listed(Vec<Value>),
}

impl Steps {
    fn of(json: &Json) -> Result<Self, String> {
        if let Some(values) = json.as_array() {
            let value = |json: &Json| {
                let number = json.as_integer().map(Value::Integer);
                number.or_else(|| Some(Value::Text(json.as_str()?.to_owned())))
            };
            let values: Option<Vec<Value>> = values.iter().map(value).collect();
            return values
                .map(Self::Listed)
                .ok_or_else(|| "a dimension of `gen` lists no numbers".to_owned());
        }
        let number = |name: &str, default| match json.get(name) {
            None => default,
            Some(number) => number.as_integer::<i64>(),
        };
        let parts = (number("start", Some(0)), number("stop", None), number("step", Some(1)));
        let (Some(start), Some(stop), Some(step @ 1..)) = parts else {
            return Err("a dimension of `gen` has no stop, or a step that does not go up".to_owned());
        };
        let span = i128::from(stop) - i128::from(start);
        let count = if span <= 0 { 0 } else { (span + i128::from(step) - 1) / i128::from(step) };
        Ok(Self::Range { start, step, count: usize::try_from(count).unwrap_or(usize::MAX) })
    }

    fn len(&self) -> usize {
        match self {
            Self::Range { count, .. } => *count,
            Self::Listed(values) => values.len(),
        }
    }

    fn at(&self, at: usize) -> Value {
        match self {
            // below `stop`, which is an i64
            Self::Range { start, step, .. } => Value::Integer(
                start.saturating_add(step.saturating_mul(i64::try_from(at).unwrap_or(i64::MAX))),
            ),
            Self::Listed(values) => values[at].clone(),
        }
    }
}

/// Returns an offset or length as a template: a text, or a number.
fn written(json: &Json) -> Result<String, String> {
    let number = || json.as_integer::<u64>().map(|number| number.to_string());
    let text = json.as_str().map(str::to_owned).or_else(number);
    text.ok_or_else(|| "a rule of `gen` has an offset or a length that is no number".to_owned())
}

/// Reads one expression from its beginning.
struct Parser<'a> {
    templates: &'a Templates,
    variables: &'a Variables,
    rest: &'a str,
    depth: usize,
    whole: &'a str,
}

impl<'a> Parser<'a> {
    fn misunderstood(&self) -> String {
        let shown: String = self.whole.chars().take(100).collect();
        format!("the template `{{{{{shown}}}}}` is not understood")
    }

    /// Takes `token` if it comes next.
    fn takes(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut value = self.product()?;
        loop {
            value = if self.takes("+") {
                match (value, self.product()?) {
                    (Value::Text(one), Value::Text(other)) => self.joined(one, &other)?,
                    (one, other) => self.computed(one, other, i64::checked_add)?,
                }
            } else if self.takes("-") {
                let other = self.product()?;
                self.computed(value, other, i64::checked_sub)?
            } else {
                return Ok(value);
            };
        }
    }

    fn product(&mut self) -> Result<Value, String> {
        let mut value = self.single()?;
        loop {
            let compute: fn(i64, i64) -> Option<i64> = if self.takes("*") {
                i64::checked_mul
            } else if self.takes("//") {
                |one, other| one.checked_sub(python_remainder(one, other)?)?.checked_div(other)
            } else if self.takes("%") {
                python_remainder
            } else {
                return Ok(value);
            };
            let other = self.single()?;
            value = self.computed(value, other, compute)?;
        }
    }

    fn single(&mut self) -> Result<Value, String> {
        if self.depth > DEPTH_MOST {
            return Err(self.misunderstood());
        }
        if self.takes("(") {
            self.depth += 1;
            let value = self.sum()?;
            self.depth -= 1;
            return if self.takes(")") { Ok(value) } else { Err(self.misunderstood()) };
        }
        if self.takes("-") {
            self.depth += 1;
            let value = self.single()?;
            self.depth -= 1;
            return self.computed(Value::Integer(0), value, i64::checked_sub);
        }
        for quote in ['\'', '"'] {
            if let Some((text, rest)) = self.rest.strip_prefix(quote).and_then(|tail| tail.split_once(quote))
            {
                self.rest = rest.trim_start();
                return Ok(Value::Text(text.to_owned()));
            }
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.misunderstood());
        }
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return word.parse().map(Value::Integer).map_err(|_| self.misunderstood());
        }
        if self.takes("(") {
            return self.call(word);
        }
        if let Some(value) = self.variables.get(word) {
            return Ok(value.clone());
        }
        match self.templates.0.get(word) {
            Some(text) => self.templates.render(text, self.variables, self.depth + 1).map(Value::Text),
            None => Err(format!("the template `{word}` is not there")),
        }
    }

    fn word(&mut self) -> &'a str {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    /// Fills in a template with arguments: `name(c='text', i=3)`, behind the opening parenthesis.
    fn call(&mut self, name: &str) -> Result<Value, String> {
        let text = self.templates.0.get(name).ok_or_else(|| format!("the template `{name}` is not there"))?;
        let mut arguments = Variables::new();
        self.depth += 1;
        while !self.takes(")") {
            let argument = self.word();
            if argument.is_empty() || !self.takes("=") {
                return Err(self.misunderstood());
            }
            let value = self.sum()?;
            arguments.insert(argument.to_owned(), value);
            if !self.takes(",") && !self.rest.starts_with(')') {
                return Err(self.misunderstood());
            }
        }
        self.depth -= 1;
        self.templates.render(text, &arguments, self.depth + 1).map(Value::Text)
    }

    fn joined(&self, one: String, other: &str) -> Result<Value, String> {
        match one.len() + other.len() > TEXT_BYTES_MOST {
            true => Err(format!("a template gives more than {TEXT_BYTES_MOST} bytes")),
            false => Ok(Value::Text(one + other)),
        }
    }

    fn computed(
        &self,
        one: Value,
        other: Value,
        compute: fn(i64, i64) -> Option<i64>,
    ) -> Result<Value, String> {
        match (one, other) {
            (Value::Integer(one), Value::Integer(other)) => {
                compute(one, other).map(Value::Integer).ok_or_else(|| self.misunderstood())
            }
            _ => Err(self.misunderstood()),
        }
    }
}

/// The remainder as Python has it: with the sign of the divisor.
fn python_remainder(one: i64, other: i64) -> Option<i64> {
    let rest = one.checked_rem(other)?;
    if rest != 0 && (rest < 0) != (other < 0) { rest.checked_add(other) } else { Some(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(text: &str) -> Templates {
        Templates::of(Some(&Json::parse(text.as_bytes()).unwrap()))
    }

    #[test]
    fn expressions_are_computed_as_python_does() {
        let templates = templates(r#"{"u":"s3://b","f":"{{u}}/{{c}}.nc"}"#);
        for (text, filled) in [
            ("plain", "plain"),
            ("{{u}}/a", "s3://b/a"),
            ("{{ f(c='t') }}", "s3://b/t.nc"),
            ("a{{1 + 2 * 3}}b", "a7b"),
            ("{{ (1 + 2) * -3 }}", "-9"),
            ("{{-7 // 2}} {{-7 % 3}}", "-4 2"),
        ] {
            assert_eq!(templates.fill(text).as_deref(), Ok(filled), "{text}");
        }
        for text in
            ["{{", "{{}}", "{{x}}", "{{1 +}}", "{{1 2}}", "{{1 // 0}}", "{{'a' * 2}}", "{{f(1)}}", "{{u"]
        {
            assert!(templates.fill(text).is_err(), "{text}");
        }
    }

    #[test]
    fn templates_that_call_each_other_for_ever_are_an_error() {
        let endless = templates(r#"{"a":"{{b}}","b":"{{a}}{{a}}"}"#);
        assert!(endless.fill("{{a}}").unwrap_err().contains("deep"));
        let deep = "(".repeat(100_000);
        assert!(endless.fill(&format!("{{{{{deep}}}}}")).is_err());
        let minus = "-".repeat(100_000);
        assert!(endless.fill(&format!("{{{{{minus}1}}}}")).is_err());
    }

    #[test]
    fn rules_run_through_all_their_dimensions() {
        let rule = r#"{"key":"a/{{i}}.{{j}}","url":"{{u}}/{{n}}.nc","offset":"{{i * 10 + j}}","length":10,
            "dimensions":{"i":{"start":1,"stop":6,"step":3},"j":[7,8],"n":["x"]}}"#;
        let mut found = Vec::new();
        let rule = Json::parse(rule.as_bytes()).unwrap();
        let templates = templates(r#"{"u":"s3://b"}"#);
        let take = |key, url, range| {
            found.push((key, url, range));
            true
        };
        templates.generate(&rule, take).unwrap();
        let expected = [("a/1.7", 17), ("a/1.8", 18), ("a/4.7", 47), ("a/4.8", 48)];
        let expected =
            expected.map(|(key, offset)| (key.to_owned(), "s3://b/x.nc".to_owned(), Some((offset, 10))));
        assert_eq!(found, expected);
        assert!(templates.generate(&rule, |_, _, _| false).unwrap_err().contains("more references"));
        let endless =
            r#"{"key":"a/{{i}}.{{j}}","url":"u","dimensions":{"i":{"stop":1000000},"j":{"stop":1000000}}}"#;
        let endless = Json::parse(endless.as_bytes()).unwrap();
        let refused = templates.generate(&endless, |_, _, _| panic!("generated before it was counted"));
        assert!(refused.unwrap_err().contains("more references"));
    }
}
