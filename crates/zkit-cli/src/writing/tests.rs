//! The driver as a command uses it, on a store of one array.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use clap::{Args as _, FromArgMatches as _, Parser};
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use zkit_core::engine::{self, Header, JournalArray, OnCorrupt, Resources, SurveyDepth};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::hierarchy::{Hierarchy, Reviewed};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{ChecksumChoice, Target, TargetCodec};
use zkit_core::plan::{CopyPlan, SourceKind, Stored, Wanted, WantedStore, Wish, plan_copy};
use zkit_core::publish::Consolidate;
use zkit_core::store::StoreOptions;

use super::{
    Audit, CodecChoice, Done, Earlier, Job, Own, Reach, Run, WriteArgs, emit_done, emit_plan, resume,
};
use crate::args::{GlobalArgs, StoreArgs};
use crate::environment::Environment;
use crate::shell::Shell;

const RESOURCES: Resources = Resources { memory_bytes: 64 << 20, jobs: 2 };
const DEFAULT: CodecChoice = CodecChoice::Given(TargetCodec::Keep);

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    access: StoreArgs,
}

/// A store of one array, a command line, and where the answer goes.
struct Case {
    folder: TempDir,
    line: CommandLine,
    shell: Shell,
    options: StoreOptions,
    source: Hierarchy,
    destination: StoreUrl,
}

/// What a command knows of its run.
#[derive(Serialize)]
struct Asked {
    asked: &'static str,
}

impl Case {
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source.zarr");
        fs::create_dir_all(source.join("t")).unwrap();
        fs::write(source.join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
        let document = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,
            "compressor":null,"filters":null,"order":"C"}"#;
        fs::write(source.join("t/.zarray"), document).unwrap();
        fs::write(source.join("t/0"), [1, 2]).unwrap();
        fs::write(source.join("t/1"), [3, 4]).unwrap();
        let line = CommandLine::try_parse_from([&["zkit"], options].concat()).unwrap();
        let shell = shell(&folder.path().join("answer"));
        let options = line.access.store_options(&shell).unwrap();
        Self {
            source: Hierarchy::open(&StoreUrl::Local(source), &options).unwrap(),
            destination: StoreUrl::Local(folder.path().join("copy.zarr")),
            folder,
            line,
            shell,
            options,
        }
    }

    fn destination(&self) -> &Path {
        self.destination.local_path().unwrap()
    }

    fn reach(&self) -> Reach<'_> {
        Reach::open(&[&self.destination], self.options.clone(), RESOURCES.memory_bytes, &self.shell).unwrap()
    }

    fn plan(&self) -> CopyPlan {
        let arrays: Vec<_> = self.source.arrays.iter().collect();
        let depth = SurveyDepth::Listing { sample_most: 0 };
        let store = self.source.readable_store().unwrap();
        let surveys =
            engine::survey(store, &arrays, depth, self.shell.observer(), self.shell.cancel()).unwrap();
        let wanted = arrays.iter().zip(surveys).map(|(array, survey)| Wanted {
            array: (*array).clone(),
            stored: Stored::from(survey.listing.unwrap()),
            target: Target {
                format: None,
                codec: TargetCodec::Keep,
                checksum: ChecksumChoice::Auto,
                layout: None,
            },
        });
        let reviewed = Reviewed::together(self.source.groups.clone(), []);
        let wanted = WantedStore { reviewed, arrays: wanted.collect() };
        let wish = Wish {
            format: None,
            memory_bytes: RESOURCES.memory_bytes,
            upload_bytes: 0,
            jobs: RESOURCES.jobs,
            source: SourceKind::Local,
            scratch_bytes: self.line.write.scratch_bytes(&[&self.destination]),
        };
        plan_copy(vec![wanted], &wish).unwrap()
    }

    fn job(&self) -> Job<'_> {
        Job {
            destination: &self.destination,
            sources: std::slice::from_ref(&self.source.url),
            source: self.source.readable_store().unwrap(),
            parts: &[],
            consolidate: self.line.write.consolidate.or(Consolidate::Yes),
        }
    }

    fn run<'a>(&'a self, jobs: &'a [Job<'a>], plan: &'a CopyPlan, audit: &'a Audit<'a>) -> Run<'a> {
        Run {
            args: &self.line.write,
            jobs,
            destination: "copy.zarr",
            plan,
            resources: RESOURCES,
            on_corrupt: OnCorrupt::Fail,
            unchanged: &|_| Ok(()),
            audit,
            shell: &self.shell,
        }
    }

    fn header(&self) -> Header {
        Header {
            options: self.line.write.canonical(&DEFAULT),
            source: self.source.url.clone(),
            groups: super::groups_text(&self.source.groups),
            arrays: vec![JournalArray {
                path: "/t".to_owned(),
                fingerprint: 0,
                source_document: String::new(),
                target_codec: String::new(),
            }],
        }
    }

    /// Writes the copy, and says so.
    fn write(&self, audit: &Audit<'_>) -> anyhow::Result<()> {
        let (jobs, plan, reach) = ([self.job()], self.plan(), self.reach());
        let run = self.run(&jobs, &plan, audit);
        let partials = run.begin(vec![None], &reach, &|_| self.header())?;
        let written = run.write(partials)?;
        let time = std::time::Duration::from_millis(5);
        let done = Done { plan_time: time, total_time: time, written, already_done: Vec::new() };
        emit_done(&run, &done, &own())
    }

    fn answer(&self) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path().join("answer")).unwrap()).unwrap()
    }
}

fn own() -> Own<'static, Asked> {
    let facts = vec![("asked".to_owned(), "t=1".to_owned())];
    Own { codec_reasons: &[], fields: Asked { asked: "t=1" }, facts, tables: Vec::new() }
}

/// Returns a shell whose answer, for programs, goes to `path`.
fn shell(path: &Path) -> Shell {
    let command = GlobalArgs::augment_args(clap::Command::new("test"));
    let line = ["test", "--quiet", "--format", "json", "--output"].map(Into::into);
    let line = line.into_iter().chain([path.as_os_str().to_owned()]);
    let global = GlobalArgs::from_arg_matches(&command.get_matches_from(line)).unwrap();
    Shell::new(&global, Environment::default()).unwrap()
}

#[test]
fn a_store_is_audited_when_it_is_complete_and_before_it_appears() {
    let case = Case::new(&[]);
    let seen = Cell::new(0);
    case.write(&|store, copy| {
        assert!(store == 0 && !case.destination().exists());
        assert_eq!(copy.array("/t").unwrap().metadata.shape(), [4]);
        let mut chunk = Vec::new();
        assert!(copy.readable_store()?.get("t/1", u64::MAX, &mut chunk)?);
        assert_eq!(chunk, [3, 4]);
        seen.set(seen.get() + 1);
        Ok(())
    })
    .unwrap();
    assert_eq!(seen.get(), 1);
    assert!(case.destination().join(".zmetadata").exists());
}

#[test]
fn an_audit_that_fails_keeps_the_store_from_appearing() {
    let case = Case::new(&["--consolidate", "never"]);
    let error = case.write(&|_, _| Err(Error::new(ErrorKind::Mismatch, "all of it is NaN"))).unwrap_err();
    assert_eq!(error.to_string(), "all of it is NaN");
    assert!(!case.destination().exists());
    let restarted = Case { line: CommandLine::parse_from(["zkit", "--restart"]), ..case };
    restarted.write(&|_, _| Ok(())).unwrap();
    assert!(restarted.destination().exists());
}

#[test]
fn an_answer_holds_the_contract_and_what_the_command_alone_knows() {
    let case = Case::new(&["--verify", "full"]);
    case.write(&|_, _| Ok(())).unwrap();
    let answer = case.answer();
    let url = &case.source.url;
    let expected = serde_json::json!({
        "schema_version": 1,
        "source": url,
        "sources": [url],
        "destination": "copy.zarr",
        "complete": true,
        "remaining_units": 0,
        "asked": "t=1",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(answer[field], *value, "{field}: {answer}");
    }
    assert_eq!(answer["verified"]["bytes"], 4);
    assert_eq!(answer["arrays"][0]["path"], "/t");
}

#[test]
fn a_dry_run_says_what_the_command_alone_knows_and_writes_nothing() {
    let case = Case::new(&["--dry-run"]);
    let (jobs, plan, reach) = ([case.job()], case.plan(), case.reach());
    let run = case.run(&jobs, &plan, &|_, _| Ok(()));
    emit_plan(&run, &run.costs(&reach).unwrap(), &own()).unwrap();
    let answer = case.answer();
    assert_eq!(answer["dry_run"], true);
    assert_eq!(answer["asked"], "t=1");
    assert!(!case.destination().exists());
    let left: Vec<_> =
        fs::read_dir(case.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_an_earlier_run_published_is_known_again_by_resume() {
    let case = Case::new(&["--resume"]);
    let (jobs, plan, reach) = ([case.job()], case.plan(), case.reach());
    let run = case.run(&jobs, &plan, &|_, _| Ok(()));
    let earlier = || {
        let destination = reach.destination(&case.destination);
        resume(run.args, &destination, &|_| case.header(), &|verify| {
            run.is_published(0, &reach, &DEFAULT, verify)
        })
    };
    assert!(matches!(earlier().unwrap(), Earlier::Nothing));
    case.write(&|_, _| Ok(())).unwrap();
    assert!(matches!(earlier().unwrap(), Earlier::Published));
    let other = || {
        let destination = reach.destination(&case.destination);
        let header = Header { options: Vec::new(), ..case.header() };
        resume(run.args, &destination, &|_| header.clone(), &|_| Ok(true))
    };
    let error = other().unwrap_err();
    assert!(
        error.to_string().contains("other options were given") || error.to_string().contains("`--codec`"),
        "{error}"
    );
    fs::write(case.destination().join("t/1"), [3, 5]).unwrap();
    let error = earlier().unwrap_err();
    assert!(error.to_string().contains("is not the copy that is asked for"), "{error}");
}

#[test]
fn what_was_read_while_its_source_changed_is_neither_published_nor_gone_on_with() {
    let case = Case::new(&["--verify", "none"]);
    let (jobs, plan, reach) = ([case.job()], case.plan(), case.reach());
    let changed = |_| Err(Error::new(ErrorKind::Conflict, "`/t` changed while it was read"));
    let run = Run { unchanged: &changed, ..case.run(&jobs, &plan, &|_, _| Ok(())) };
    let partials = run.begin(vec![None], &reach, &|_| case.header()).unwrap();
    let error = run.write(partials).unwrap_err();
    assert_eq!(error.to_string(), "`/t` changed while it was read");
    assert!(!case.destination().exists());
    let resumed = Case { line: CommandLine::parse_from(["zkit", "--resume"]), ..case };
    let destination = resumed.reach();
    let destination = destination.destination(&resumed.destination);
    let earlier = resume(&resumed.line.write, &destination, &|_| resumed.header(), &|_| Ok(true));
    let error = earlier.unwrap_err();
    assert!(error.to_string().contains("the source changed while an earlier run read it"), "{error}");
}
