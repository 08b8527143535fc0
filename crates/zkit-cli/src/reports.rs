//! Reports in further formats, each in a file of its own: one run for the log of a job and for what reads it later.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use zkit_core::error::Error;
use zkit_report::Report;
use zkit_report::render::{github, html, json, junit, sarif, text};

use crate::args::Format;
use crate::output::Output;

/// The option `--report`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output options")]
pub struct ReportArgs {
    /// Write the report to FILE, too, as text, json, junit, sarif, github or html (html=audit.html); may be
    /// repeated.
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    pub reports: Vec<ReportFile>,
}

/// A format and the file that takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// The format.
    pub format: Format,
    /// The file.
    pub path: PathBuf,
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, path) = text.split_once('=').ok_or("expected FORMAT=FILE, such as html=audit.html")?;
        let format = Format::from_str(format, false).map_err(|_| {
            let names: Vec<&str> = Format::REPORTS.iter().map(|format| format.name()).collect();
            format!("there is no format `{format}`; there are {}", names.join(", "))
        })?;
        match path {
            "" | "-" => Err("expected a file after `=`".into()),
            path => Ok(Self { format, path: path.into() }),
        }
    }
}

impl ReportArgs {
    /// Opens the files, so that a long run does not end in vain.
    ///
    /// Fails with kind `Unwritable` where one of them cannot be written.
    pub fn open(&self) -> Result<ReportFiles, Error> {
        let open = |file: &ReportFile| Ok((file.format, Output::open(Some(&file.path))?));
        Ok(ReportFiles { files: self.reports.iter().map(open).collect::<Result<_, Error>>()? })
    }
}

/// The files of `--report`, open; dropped without an answer they leave what was there before.
#[derive(Debug)]
pub struct ReportFiles {
    files: Vec<(Format, Output)>,
}

impl ReportFiles {
    /// Writes the report to each file, which then appears.
    pub fn write(&self, report: &Report) -> anyhow::Result<()> {
        // as wide as needed, so that `grep` sees whole lines
        let style = text::Style { width: usize::MAX, color: false, unicode: true };
        for (format, output) in &self.files {
            output.write(|out| write_report(out, report, *format, &style))?;
        }
        Ok(())
    }
}

/// Writes a report in a format; `style` is that of text.
pub(crate) fn write_report(
    out: &mut dyn Write,
    report: &Report,
    format: Format,
    style: &text::Style,
) -> std::io::Result<()> {
    match format {
        Format::Text => out.write_all(text::render(&report.document(), style).as_bytes()),
        Format::Json => json::write(out, report),
        Format::Junit => junit::write(out, report),
        Format::Sarif => sarif::write(out, report),
        Format::Github => github::write(out, report),
        Format::Html => html::write(out, report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_to_each_file_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let file = |text: String| text.parse::<ReportFile>().unwrap();
        let args = ReportArgs {
            reports: vec![
                file(format!("html={}", path("a=b.html").display())),
                file(format!("junit={}", path("a.xml").display())),
            ],
        };
        let files = args.open().unwrap();
        assert!(!path("a.xml").exists());
        files.write(&Report::new("0.1.0")).unwrap();
        drop(files);
        assert!(std::fs::read_to_string(path("a=b.html")).unwrap().starts_with("<!doctype html>"));
        assert!(std::fs::read_to_string(path("a.xml")).unwrap().starts_with("<?xml"));
        drop(args.open().unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else stays behind");
    }

    #[test]
    fn what_is_no_format_and_file_is_refused() {
        for text in ["html", "=a", "pdf=a.pdf", "html=", "sarif=-", "HTML=a"] {
            assert!(text.parse::<ReportFile>().is_err(), "{text}");
        }
        let error = "pdf=a".parse::<ReportFile>().unwrap_err();
        assert_eq!(error, "there is no format `pdf`; there are text, json, junit, sarif, github, html");
    }
}
