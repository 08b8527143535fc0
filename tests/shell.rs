//! What every command shares: exit codes, messages, where the answer goes.

use std::process::Stdio;

use crate::fixtures::{TOUR, fixture, run, zkit};

const COMMANDS: [&str; 4] = ["inspect", "digest", "compare", "recompress"];

#[test]
fn help_and_version_are_answers() {
    for command in COMMANDS {
        let answer = run(zkit().args([command, "--help"]));
        assert_eq!(answer.code, 0);
        assert!(answer.stdout.contains("Usage"), "{command}: {}", answer.stdout);
    }
    let answer = run(zkit().arg("--version"));
    assert_eq!(answer.code, 0);
    assert!(answer.stdout.contains(env!("CARGO_PKG_VERSION")), "{}", answer.stdout);
}

#[test]
fn a_wrong_argument_is_a_usage_error() {
    for arguments in [
        vec!["inspect"],
        vec!["no-such-command"],
        vec!["inspect", "a", "--no-such-option"],
        vec!["recompress", "only-one"],
    ] {
        let answer = run(zkit().args(&arguments));
        assert_eq!(answer.code, 2, "{arguments:?}: {}", answer.stderr);
        assert!(answer.stdout.is_empty() && !answer.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn formats_of_reports_are_refused_by_commands_without_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for format in ["junit", "sarif", "github", "html"] {
        for command in ["inspect", "digest"] {
            let file = folder.path().join("answer");
            let arguments = [command, "no/such/store.zarr", "--format", format, "--output"];
            let answer = run(zkit().args(arguments).arg(&file));
            assert_eq!(answer.code, 2, "{command} {format}: {}", answer.stderr);
            let expected = format!("`{command}` has no answer in the format `{format}`");
            assert!(answer.stderr.contains(&expected), "{command} {format}: {}", answer.stderr);
            assert!(!file.exists(), "nothing is written");
        }
    }
}

#[test]
fn a_store_that_is_not_there_is_named_on_stderr() {
    for command in ["inspect", "digest"] {
        let answer = run(zkit().args([command, "no/such/store.zarr"]));
        assert!([2, 3].contains(&answer.code), "{command}: exit {}", answer.code);
        assert!(answer.stderr.contains("no/such/store.zarr"), "{command}: {}", answer.stderr);
        assert!(answer.stdout.is_empty(), "{command}: {}", answer.stdout);
    }
}

#[test]
fn output_goes_to_the_file_that_was_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("answer.json");
    let answer =
        run(zkit().arg("inspect").arg(fixture(TOUR)).args(["--format", "json", "--output"]).arg(&file));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stdout.is_empty());
    let text = std::fs::read_to_string(&file).expect("the answer was written");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
}

#[test]
fn colour_is_drawn_when_asked_for_alone() {
    let plain = run(zkit().arg("inspect").arg(fixture(TOUR)).args(["--color", "never"]));
    let drawn =
        run(zkit().env_remove("NO_COLOR").arg("inspect").arg(fixture(TOUR)).args(["--color", "always"]));
    assert!(!plain.stdout.contains('\u{1b}'));
    assert!(drawn.stdout.contains('\u{1b}'));
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_zkit"))
        .arg("inspect")
        .arg(fixture("mixed_types.zarr"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("zkit starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("zkit ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
