//! The one place that prints an error: message, causes, hints.

use std::collections::BTreeSet;

use zkit_core::error::Error;
use zkit_core::location::redact;
use zkit_report::sanitize;

use crate::console::Console;
use crate::exit::Exit;

/// Prints how a run failed, and returns how it ends; a reader that closed stdout is told nothing.
pub(crate) fn print(console: &Console, error: &anyhow::Error, color: Color) -> Exit {
    let exit = Exit::of_error(error);
    let label = match exit {
        Exit::Done => return exit,
        Exit::Interrupted => "interrupted",
        _ => "error",
    };
    console.write(render(label, error, color).as_bytes());
    exit
}

/// Whether labels are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    On,
    Off,
}

/// Returns the error, its causes one a line, and the hints of the core.
fn render(label: &str, error: &anyhow::Error, color: Color) -> String {
    let mut messages: Vec<String> =
        error.chain().map(|cause| sanitize(&redact(&cause.to_string())).into()).collect();
    // Wrappers that pass their cause's text on would say it twice.
    messages.dedup();
    let mut text = format!("{}: {}\n", labelled(label, "31", color), messages[0]);
    for cause in &messages[1..] {
        text.push_str(&format!("  caused by: {cause}\n"));
    }
    let mut seen = BTreeSet::new();
    for hint in error.chain().filter_map(|cause| cause.downcast_ref::<Error>()?.hint()) {
        if seen.insert(hint) {
            text.push_str(&format!("{}: {}\n", labelled("hint", "36", color), sanitize(hint)));
        }
    }
    text
}

/// Returns a label, bold and in a colour where colours are welcome.
pub(crate) fn labelled(label: &str, code: &str, color: Color) -> String {
    match color {
        Color::On => format!("\u{1b}[1;{code}m{label}\u{1b}[0m"),
        Color::Off => label.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zkit_core::error::ErrorKind;

    #[test]
    fn causes_stand_one_a_line_and_hints_once() {
        let error = Error::new(ErrorKind::Unreadable, "could not read `s3://bucket/c/0`")
            .with_source(std::io::Error::other("403 Forbidden"))
            .with_hint("pass --anonymous for public buckets")
            .context("could not open `s3://bucket`");
        let expected = "\
error: could not inspect
  caused by: could not open `s3://bucket`
  caused by: could not read `s3://bucket/c/0`
  caused by: 403 Forbidden
hint: pass --anonymous for public buckets
";
        assert_eq!(
            render("error", &anyhow::Error::new(error).context("could not inspect"), Color::Off),
            expected
        );
    }

    #[test]
    fn text_from_stores_cannot_steer_the_terminal() {
        let error = anyhow::anyhow!("could not read `/a\u{1b}[2J\nerror: b`");
        assert_eq!(render("error", &error, Color::Off), "error: could not read `/a\\u{1b}[2J\\nerror: b`\n");
    }
}
