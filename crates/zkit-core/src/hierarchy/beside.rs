//! What lies beside the documents that a hierarchy was read from: nodes behind consolidated metadata, v2 metadata beside v3.

use std::collections::BTreeSet;

use super::foreign::Foreign;
use super::node::{ArrayNode, Consolidated, Hierarchy, StoreKind, with_groups_above};
use super::open::{MAX_DOCUMENT_BYTES, parse_document, unreadable};
use super::walk;
use crate::error::{ErrorKind, Result};
use crate::metadata::{ArrayMetadata, Defect, Json, Loss, ZarrFormat};
use crate::store::{FetchResult, join};

/// What consolidated metadata says of a store whose nodes were read one by one.
#[derive(Debug)]
pub struct Consolidation {
    /// What consolidated metadata says.
    pub copy: Hierarchy,
    /// The nodes that it alone has: they are gone, or broken.
    pub lost: BTreeSet<String>,
    /// What is wrong with the documents of nodes.
    pub node_defects: Vec<Defect>,
}

impl Hierarchy {
    /// Puts what nodes say of themselves in the place of what consolidated metadata says of them, and returns what that was;
    /// `None`, and no change, where [`Self::one_by_one`] returns `None`.
    ///
    /// The consolidated copy stays where a node is broken or gone. Errors: those of [`Self::one_by_one`].
    pub fn prefer_nodes(&mut self) -> Result<Option<Consolidation>> {
        let Some(nodes) = self.one_by_one()? else { return Ok(None) };
        let mut copy = nodes.without_nodes();
        (copy.consolidated, copy.unreadable) = (self.consolidated, self.unreadable);
        copy.groups = std::mem::replace(&mut self.groups, nodes.groups);
        copy.arrays = std::mem::replace(&mut self.arrays, nodes.arrays);
        copy.defects = self.defects.clone();
        let sound: BTreeSet<&str> = (self.arrays.iter().map(|array| array.path.as_str()))
            .chain(self.groups.iter().map(|group| group.path.as_str()))
            .collect();
        let lacking = |path: &str| !sound.contains(path);
        let groups: Vec<_> = copy.groups.iter().filter(|group| lacking(&group.path)).cloned().collect();
        let arrays: Vec<_> = copy.arrays.iter().filter(|array| lacking(&array.path)).cloned().collect();
        let lost = (groups.iter().map(|group| group.path.clone()))
            .chain(arrays.iter().map(|array| array.path.clone()))
            .collect();
        self.groups.extend(groups);
        self.arrays.extend(arrays);
        for defect in &nodes.defects {
            if !self.defects.contains(defect) {
                self.defects.push(defect.clone());
            }
        }
        self.unreadable |= nodes.unreadable;
        self.sort();
        Ok(Some(Consolidation { copy, lost, node_defects: nodes.defects }))
    }

    /// Returns a hierarchy of the same store, without its bytes, nodes and defects.
    fn without_nodes(&self) -> Self {
        Self {
            url: self.url.clone(),
            store: None,
            kind: StoreKind::Zarr,
            container: self.container,
            consolidated: Consolidated::None,
            groups: Vec::new(),
            arrays: Vec::new(),
            defects: Vec::new(),
            unreadable: false,
            foreign: Foreign::default(),
        }
    }

    /// Reads the nodes of the same store one by one, whatever consolidated metadata says; `None` where this hierarchy
    /// did not come from consolidated metadata, or where there is no store to read.
    ///
    /// One listing a group and two or three small reads a node.
    pub fn one_by_one(&self) -> Result<Option<Self>> {
        let Some(store) = self.store.as_ref().filter(|_| self.consolidated != Consolidated::None) else {
            return Ok(None);
        };
        let mut hierarchy = self.without_nodes();
        let mut text = Vec::new();
        let root = match store.get("zarr.json", MAX_DOCUMENT_BYTES, &mut text)? {
            true => {
                parse_document("/", "zarr.json", &text).map_err(|defect| hierarchy.take_defect(defect)).ok()
            }
            false => None,
        };
        walk::read(&mut hierarchy, store, root)?;
        hierarchy.sort();
        Ok(Some(hierarchy))
    }

    /// Looks for nodes that consolidated metadata does not name, and for foreign objects beside its nodes: readers do not see them,
    /// and a copy would leave them behind. What is found becomes defects and [`Hierarchy::foreign`].
    ///
    /// One listing a group, and reads of what is new there; nothing where nodes were read one by one, or where there is no listing.
    pub fn look_beside(&mut self) -> Result<()> {
        let Some(store) = self.store.as_ref().filter(|_| self.consolidated != Consolidated::None) else {
            return Ok(());
        };
        let mut beside = self.without_nodes();
        let known: BTreeSet<&str> = self.paths().flat_map(with_groups_above).collect();
        let format = self.formats().first().copied().unwrap_or(ZarrFormat::V3);
        let is_array: BTreeSet<&str> = self.arrays.iter().map(|array| array.path.as_str()).collect();
        let groups: Vec<(String, ZarrFormat)> = (known.iter().filter(|path| !is_array.contains(*path)))
            .map(|path| ((*path).to_owned(), format))
            .collect();
        match walk::read_beside(&mut beside, store, &groups, &known) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            read => read?,
        }
        let found: Vec<String> = beside.paths().map(str::to_owned).collect();
        self.defects.append(&mut beside.defects);
        self.unreadable |= beside.unreadable;
        self.foreign = beside.foreign;
        for path in found {
            let message =
                "it is stored, but consolidated metadata does not name it: most readers do not see it";
            self.losing(Loss::Node, &path, "consolidated-stale", message);
        }
        self.sort();
        Ok(())
    }

    /// Reads the `.zarray` that lies beside the `zarr.json` of each v3 array, where one does; defects are those of the
    /// v2 documents, unreadable ones among them.
    ///
    /// One small read a v3 array, and one more where there is something. Errors: `Cancelled`.
    pub fn v2_twins(&self) -> Result<(Vec<ArrayNode>, Vec<Defect>)> {
        let Some(store) = &self.store else { return Ok((Vec::new(), Vec::new())) };
        let arrays: Vec<&ArrayNode> =
            self.arrays.iter().filter(|array| array.metadata.format == ZarrFormat::V3).collect();
        let keys: Vec<String> = arrays.iter().map(|array| join(array.prefix(), ".zarray")).collect();
        let (mut twins, mut defects) = (Vec::new(), Vec::new());
        for (array, fetched) in arrays.into_iter().zip(store.get_many(&keys, MAX_DOCUMENT_BYTES)) {
            if fetched.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled) {
                fetched?;
                continue;
            }
            let path = &array.path;
            // one array that cannot be looked at hides no other
            let parsed = |name: &str, fetched: FetchResult| match fetched {
                Ok(None) => Ok(None),
                Ok(Some(text)) => match parse_document(path, name, &text)? {
                    Json::Object(document) => Ok(Some(document)),
                    _ => Err(Defect::remark(path, "malformed-metadata", format!("{name} is not an object"))),
                },
                Err(error) => Err(unreadable(Loss::Unused, path, &error)),
            };
            let unused = |defect: Defect| Defect { loss: Loss::Unused, ..defect };
            let document = match parsed(".zarray", fetched) {
                Ok(None) => continue,
                Ok(Some(document)) => document,
                Err(defect) => {
                    defects.push(unused(defect));
                    continue;
                }
            };
            let mut text = Vec::new();
            let found = store.get(&join(array.prefix(), ".zattrs"), MAX_DOCUMENT_BYTES, &mut text);
            let attributes = parsed(".zattrs", found.map(|found| found.then(|| text.into())));
            let attributes = attributes.unwrap_or_else(|defect| {
                defects.push(unused(defect));
                None
            });
            match ArrayMetadata::parse_v2(path, document, attributes.unwrap_or_default(), &mut defects) {
                Ok(metadata) => twins.push(ArrayNode { path: path.clone(), metadata }),
                Err(defect) => defects.push(unused(defect)),
            }
        }
        Ok((twins, defects))
    }
}

#[cfg(test)]
mod tests {
    use crate::hierarchy::Hierarchy;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    const ARRAY: &str = r#"{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"}"#;

    #[test]
    fn nodes_behind_consolidated_metadata_are_read_for_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let consolidated = format!(
            r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},"a/.zarray":{ARRAY},"gone/.zarray":{ARRAY}}}}}"#
        );
        std::fs::write(folder.path().join(".zmetadata"), consolidated).unwrap();
        std::fs::write(folder.path().join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
        for name in ["a", "new"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join(".zarray"), ARRAY).unwrap();
        }
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let nodes = hierarchy.one_by_one().unwrap().unwrap();
        let paths = |hierarchy: &Hierarchy| -> Vec<String> {
            hierarchy.arrays.iter().map(|array| array.path.clone()).collect()
        };
        assert_eq!(paths(&hierarchy), ["/a", "/gone"]);
        assert_eq!(paths(&nodes), ["/a", "/new"]);
        assert!(nodes.one_by_one().unwrap().is_none());
    }

    #[test]
    fn nodes_are_preferred_where_they_are_sound() {
        let folder = tempfile::tempdir().unwrap();
        let consolidated = format!(
            r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},"a/.zarray":{ARRAY},"broken/.zarray":{ARRAY},"gone/.zarray":{ARRAY}}}}}"#
        );
        std::fs::write(folder.path().join(".zmetadata"), consolidated).unwrap();
        std::fs::write(folder.path().join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
        let grown = ARRAY.replace("[4]", "[6]");
        for (name, text) in [("a", grown.as_str()), ("broken", "{"), ("new", ARRAY)] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join(".zarray"), text).unwrap();
        }
        let url = StoreUrl::Local(folder.path().to_owned());
        let mut hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let both = hierarchy.prefer_nodes().unwrap().unwrap();
        let shapes = |hierarchy: &Hierarchy| -> Vec<(String, u64)> {
            let arrays = hierarchy.arrays.iter();
            arrays.map(|array| (array.path.clone(), array.metadata.shape()[0])).collect()
        };
        let named = |shapes: &[(&str, u64)]| -> Vec<(String, u64)> {
            shapes.iter().map(|&(path, length)| (path.to_owned(), length)).collect()
        };
        assert_eq!(shapes(&hierarchy), named(&[("/a", 6), ("/broken", 4), ("/gone", 4), ("/new", 4)]));
        assert_eq!(shapes(&both.copy), named(&[("/a", 4), ("/broken", 4), ("/gone", 4)]));
        assert_eq!(both.lost.iter().collect::<Vec<_>>(), ["/broken", "/gone"]);
        assert_eq!(both.node_defects.len(), 1);
        let defects: Vec<_> = hierarchy.defects.iter().map(|defect| defect.path.as_str()).collect();
        assert_eq!((defects, hierarchy.groups.len()), (vec!["/broken"], 1));
    }

    #[test]
    fn v2_metadata_beside_v3_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let v3 = r#"{"zarr_format":3,"node_type":"array","shape":[8],"data_type":"uint8","fill_value":0,
            "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},
            "chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]}"#;
        std::fs::write(folder.path().join("zarr.json"), v3).unwrap();
        std::fs::write(folder.path().join(".zarray"), ARRAY).unwrap();
        let url = StoreUrl::Local(folder.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let (twins, defects) = hierarchy.v2_twins().unwrap();
        assert_eq!((twins.len(), twins[0].metadata.shape(), defects.len()), (1, &[4][..], 0));
        // one that cannot be read hides nothing else
        std::fs::remove_file(folder.path().join(".zarray")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join(".zarray")).unwrap();
        let (twins, defects) = hierarchy.v2_twins().unwrap();
        assert_eq!((twins.len(), defects[0].rule), (0, "dangling-link"));
    }
}
