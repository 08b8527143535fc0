//! What of a store a copy would lose: each defect is refused, or listed as left out.
//!
//! A plan takes the groups of its sources from a [`Reviewed`], which only [`Hierarchy::review`] makes: so nobody plans a copy
//! without having answered for every document that could not be read.

use super::node::{GroupNode, Hierarchy, with_groups_above};
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{Defect, Loss};

/// What becomes of nodes of which something is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// They are an error.
    Refuse,
    /// They are left out, and listed.
    LeaveOut,
}

/// Something of a source that its copy does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The store, without secrets.
    pub store: String,
    /// The path of the node, starting with `/`.
    pub path: String,
    /// What of it is left out: "the attributes".
    pub what: String,
    /// Why.
    pub why: String,
}

/// What of a store may be copied, after its defects were answered for.
#[derive(Debug, Clone)]
pub struct Reviewed {
    groups: Vec<GroupNode>,
    left_out: Vec<LeftOut>,
}

impl Reviewed {
    /// Returns the groups.
    pub fn groups(&self) -> &[GroupNode] {
        &self.groups
    }

    /// Returns what the copy will not have.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns what is said of several stores that are put together: the groups are `groups`, all that is left out is listed.
    pub fn together<'a>(groups: Vec<GroupNode>, all: impl IntoIterator<Item = &'a Self>) -> Self {
        let left_out = all.into_iter().flat_map(|reviewed| reviewed.left_out.iter().cloned()).collect();
        Self { groups, left_out }
    }

    /// Adds something that was found to be left out later.
    pub fn leave_out(&mut self, left_out: LeftOut) {
        self.left_out.push(left_out);
    }
}

impl Hierarchy {
    /// Answers for every defect that `concerns` the copy: it is refused, or what it touches is taken out of the hierarchy and listed.
    ///
    /// Arrays whose attributes are not known are left out whole: without scale and offset their values mean something else.
    /// Errors: `Unreadable` or `Corrupt` with the first such defect, if they are refused.
    pub fn review(&mut self, concerns: &dyn Fn(&Defect) -> bool, broken: Broken) -> Result<Reviewed> {
        let losses: Vec<&Defect> = self.losses().filter(|defect| concerns(defect)).collect();
        let refused: Vec<&Defect> =
            losses.iter().copied().filter(|defect| defect.loss != Loss::Unused).collect();
        let is_whole = |defect: &Defect| {
            defect.loss == Loss::Node || (defect.loss == Loss::Attributes && self.array("/").is_some())
        };
        let all = refused.iter().find(|defect| defect.path == "/" && is_whole(defect));
        match (refused.first(), all, broken) {
            (Some(first), _, Broken::Refuse) => return Err(self.refusal(first, refused.len())),
            // nothing would be left to copy
            (_, Some(root), Broken::LeaveOut) => return Err(self.refusal(root, 1)),
            _ => {}
        }
        let mut left_out: Vec<LeftOut> = losses.iter().map(|defect| self.left_out(defect)).collect();
        if self.foreign.count() > 0 {
            let (count, names) = (self.foreign.count(), self.foreign.names().join(", "));
            let more = if count > self.foreign.names().len() as u64 { ", ..." } else { "" };
            left_out.push(LeftOut {
                store: self.url.clone(),
                path: "/".to_owned(),
                what: if count == 1 { "1 object".to_owned() } else { format!("{count} objects") },
                why: format!("no Zarr node uses them: {names}{more}"),
            });
        }
        let paths =
            |loss| losses.iter().filter(move |defect| defect.loss == loss).map(|defect| defect.path.clone());
        let (nameless, gone): (Vec<String>, Vec<String>) =
            (paths(Loss::Attributes).collect(), paths(Loss::Node).collect());
        // what lies below a node that is lost goes with it
        let is_gone = |path: &str| with_groups_above(path).any(|above| gone.iter().any(|gone| gone == above));
        self.arrays.retain(|array| !is_gone(&array.path) && !nameless.contains(&array.path));
        self.groups.retain(|group| !is_gone(&group.path));
        Ok(Reviewed { groups: self.groups.clone(), left_out })
    }

    fn left_out(&self, defect: &Defect) -> LeftOut {
        let whole = defect.loss == Loss::Attributes && self.array(&defect.path).is_some();
        let what = if whole { "the array" } else { defect.loss.describe() };
        LeftOut {
            store: self.url.clone(),
            path: defect.path.clone(),
            what: what.to_owned(),
            why: defect.message.clone(),
        }
    }

    fn refusal(&self, first: &Defect, count: usize) -> Error {
        let path = &first.path;
        let what = match first.loss {
            Loss::Attributes => format!("the attributes of `{path}` cannot be read"),
            Loss::Below => format!("nodes below `{path}` cannot be read"),
            Loss::Consolidated => "the consolidated metadata cannot be read".to_owned(),
            Loss::Node | Loss::Nothing | Loss::Unused => format!("`{path}` would be left behind"),
        };
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let message = format!("could not copy all of {}: {what}: {}{more}", self.url, first.message);
        let kind = if first.is_unreadable() { ErrorKind::Unreadable } else { ErrorKind::Corrupt };
        let hint = match path.as_str() {
            "/" => "fix it".to_owned(),
            path => format!("fix it, or pass --exclude '{path}' to copy the rest"),
        };
        Error::new(kind, message).with_hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    const ARRAY: &str = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;
    const GROUP: &str = r#"{"zarr_format":2}"#;

    fn open(files: &[(&str, &str)]) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        let sound = [(".zgroup", GROUP), ("g/.zgroup", GROUP), ("g/a/.zarray", ARRAY), ("b/.zarray", ARRAY)];
        for (key, text) in sound.iter().chain(files) {
            std::fs::create_dir_all(folder.path().join(key).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(key), text).unwrap();
        }
        let url = StoreUrl::Local(folder.path().to_owned());
        let mut hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        hierarchy.look_beside().unwrap();
        (folder, hierarchy)
    }

    #[test]
    fn every_document_that_is_broken_is_refused_or_listed() {
        let nodes =
            format!(r#"{{"metadata":{{".zgroup":{GROUP},"g/.zgroup":{GROUP},"g/a/.zarray":{ARRAY}}}}}"#);
        for (key, text, what, left) in [
            (".zattrs", "{", "the attributes", 2),
            ("g/.zattrs", "[1]", "the attributes", 2),
            ("b/.zattrs", r#"{"units":"K",}"#, "the array", 1),
            ("b/.zattrs", "", "the array", 1),
            ("b/.zarray", "\u{feff}{}", "the node", 1),
            ("g/.zgroup", "null", "the node", 1),
            ("g/.zgroup", "{", "the node", 1),
            ("g/zarr.json", "{", "the node", 1),
            (".zmetadata", "{", "the consolidated metadata", 2),
            (".zmetadata", &nodes, "the node", 1),
        ] {
            let (_folder, mut hierarchy) = open(&[(key, text)]);
            let error = hierarchy.review(&|_| true, Broken::Refuse).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{key}: {error}");
            assert!(hierarchy.review(&|_| false, Broken::Refuse).is_ok(), "{key}");
            let reviewed = hierarchy.review(&|_| true, Broken::LeaveOut).unwrap();
            let listed: Vec<_> = reviewed.left_out().iter().map(|one| one.what.as_str()).collect();
            assert_eq!((listed, hierarchy.arrays.len()), (vec![what], left), "{key} {text}");
        }
    }

    #[test]
    fn a_sound_store_leaves_out_nothing_but_what_is_foreign() {
        let (_folder, mut hierarchy) = open(&[]);
        assert!(hierarchy.review(&|_| true, Broken::Refuse).unwrap().left_out().is_empty());
        let (_folder, mut hierarchy) = open(&[("notes.txt", ""), ("g/run.log", "")]);
        let reviewed = hierarchy.review(&|_| true, Broken::Refuse).unwrap();
        assert_eq!(reviewed.left_out()[0].what, "2 objects");
        assert!(reviewed.left_out()[0].why.ends_with("notes.txt, g/run.log"), "{:?}", reviewed.left_out());
    }
}
