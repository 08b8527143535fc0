use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

use super::*;

fn store() -> (tempfile::TempDir, LocalStore) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.zarr");
    std::fs::create_dir_all(root.join("x/c")).unwrap();
    std::fs::write(root.join("x/c/0"), b"hello").unwrap();
    std::fs::write(folder.path().join("secret"), b"secret").unwrap();
    let store = LocalStore::open(&root, false).unwrap();
    (folder, store)
}

#[test]
fn absent_is_not_an_error_and_a_directory_in_the_place_of_an_object_is() {
    let (_folder, store) = store();
    let mut buffer = Vec::new();
    assert!(store.get("x/c/0", 100, &mut buffer).unwrap());
    assert_eq!(buffer, b"hello");
    for key in ["x/c/1", "x/c/0/1", "y/z"] {
        assert!(!store.get(key, 100, &mut buffer).unwrap(), "{key}");
    }
    let error = store.get("x/c", 100, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable);
    assert!(error.to_string().ends_with("it is a directory"), "{error}");
    assert_eq!(store.get_range("x/c/0", 1, 3, &mut buffer).unwrap(), Some(5));
    assert_eq!(buffer, b"ell");
    assert_eq!(store.get_suffix("x/c/0", 2, &mut buffer).unwrap(), Some(5));
    assert_eq!(buffer, b"lo");
}

#[test]
fn what_was_read_is_remembered_as_it_was() {
    let (_folder, store) = store();
    let store = store.remembering(Reads::Kept);
    let mut buffer = Vec::new();
    store.get("x/c/0", 100, &mut buffer).unwrap();
    store.stat("x/c/1").unwrap();
    store.children("x").unwrap();
    let seen = store.seen().unwrap().all();
    let keys: Vec<&str> = seen.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["x/", "x/c/0", "x/c/1"]);
    for (key, was) in &seen {
        assert_eq!(store.see(key).unwrap(), *was, "{key}");
    }
    assert!(matches!(seen[1].1, Seen::Object(stat) if stat.size == 5));
    assert_eq!((seen[2].1, store.seen().unwrap().changed()), (Seen::Absent, None));
    std::fs::write(store.root().join("x/c/1"), b"new").unwrap();
    std::fs::create_dir(store.root().join("x/d")).unwrap();
    std::fs::write(store.root().join("x/c/0"), b"longer").unwrap();
    for (key, was) in &seen {
        assert_ne!(store.see(key).unwrap(), *was, "{key}");
    }
    store.get_range("x/c/0", 0, 1, &mut buffer).unwrap();
    assert_eq!(store.seen().unwrap().changed().as_deref(), Some("x/c/0"));
}

#[test]
fn links_inside_are_read_and_links_outside_are_not() {
    let (_folder, store) = store();
    symlink("0", store.root().join("x/c/in")).unwrap();
    symlink("../../../secret", store.root().join("x/c/out")).unwrap();
    symlink("nowhere", store.root().join("x/c/dangling")).unwrap();
    symlink(store.root().join("x/c/0"), store.root().join("x/c/absolute")).unwrap();
    let mut buffer = Vec::new();
    assert!(store.get("x/c/in", 100, &mut buffer).unwrap());
    assert!(store.get("x/c/absolute", 100, &mut buffer).unwrap());
    for key in ["x/c/out", "x/c/dangling", "../secret"] {
        assert_eq!(store.get(key, 100, &mut buffer).unwrap_err().kind(), ErrorKind::Unreadable, "{key}");
    }
}

fn listed(store: &LocalStore, prefix: &str) -> Result<Vec<(String, ObjectKind)>> {
    let mut keys = Vec::new();
    store.list_while(prefix, &|_| true, &mut |object| {
        keys.push((object.key.to_owned(), object.kind));
        ControlFlow::Continue(())
    })?;
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(keys)
}

#[test]
fn listings_enter_linked_directories_inside_and_none_outside() {
    let (folder, store) = store();
    symlink("../x/c", store.root().join("x/linked")).unwrap();
    symlink(folder.path(), store.root().join("x/out")).unwrap();
    symlink("nowhere", store.root().join("y")).unwrap();
    let expected =
        [("c/0", ObjectKind::Regular), ("linked/0", ObjectKind::Regular), ("out", ObjectKind::OutsideLink)];
    assert_eq!(listed(&store, "x").unwrap(), expected.map(|(key, kind)| (key.to_owned(), kind)));
    assert_eq!(listed(&store, "absent").unwrap(), []);
    assert_eq!(listed(&store, "y").unwrap_err().kind(), ErrorKind::Unreadable);
}

#[test]
fn listings_end_although_links_lead_in_circles() {
    let (_folder, store) = store();
    symlink(".", store.root().join("x/c/a")).unwrap();
    symlink("../other", store.root().join("x/c/b")).unwrap();
    std::fs::create_dir(store.root().join("x/other")).unwrap();
    symlink("../c", store.root().join("x/other/back")).unwrap();
    let keys: Vec<String> = listed(&store, "x").unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["c/0", "c/a", "c/b/back", "other/back/0", "other/back/a", "other/back/b"]);
}

#[test]
fn children_are_no_links_back_to_where_they_lie() {
    let (_folder, store) = store();
    symlink(".", store.root().join("x/self")).unwrap();
    symlink("../x/c", store.root().join("x/linked")).unwrap();
    std::fs::create_dir(store.root().join("y")).unwrap();
    symlink("../y", store.root().join("x/y")).unwrap();
    symlink("../x", store.root().join("y/back")).unwrap();
    let names = |prefix: &str| {
        store.children(prefix).unwrap().into_iter().map(|child| child.name).collect::<Vec<_>>()
    };
    assert_eq!(names("x"), ["c", "linked", "y"]);
    assert_eq!(names("y"), ["back"]);
    assert_eq!(names("x/y"), Vec::<String>::new());
}

#[test]
fn directories_whose_names_are_no_text_are_told() {
    use std::os::unix::ffi::OsStrExt as _;
    let (_folder, store) = store();
    std::fs::create_dir(store.root().join(std::ffi::OsStr::from_bytes(b"caf\xe9"))).unwrap();
    let children = store.children("").unwrap();
    let kinds: Vec<_> = children.iter().filter(|child| child.name.starts_with("caf")).collect();
    assert_eq!(kinds.len(), 1);
    assert_eq!(kinds[0].kind, ChildKind::UnnameableDirectory);
}

#[test]
fn a_fifo_is_unreadable_and_does_not_hang() {
    let (_folder, store) = store();
    let status = std::process::Command::new("mkfifo").arg(store.root().join("x/c/1")).status().unwrap();
    assert!(status.success());
    assert_eq!(store.get("x/c/1", 100, &mut Vec::new()).unwrap_err().kind(), ErrorKind::Unreadable);
}

#[test]
fn objects_over_the_limit_are_refused() {
    let (_folder, store) = store();
    assert_eq!(store.get("x/c/0", 4, &mut Vec::new()).unwrap_err().kind(), ErrorKind::OverBudget);
}

#[test]
fn a_missing_store_is_absent() {
    let error = LocalStore::open(Path::new("/no/such/store"), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Absent);
}

#[test]
fn what_is_asked_for_ahead_is_read_as_ever_and_nothing_else_is_asked_for() {
    let (folder, store) = store();
    symlink(folder.path().join("secret"), folder.path().join("a.zarr/x/c/1")).unwrap();
    assert_eq!(store.prefetch("x/c/0").map(|found| found.bytes), Some(5));
    for key in ["x/c/1", "x/c/2", "x/c", "../secret"] {
        assert_eq!(store.prefetch(key), None, "{key}");
    }
    let mut buffer = Vec::new();
    assert!(store.get("x/c/0", 100, &mut buffer).unwrap());
    assert_eq!(buffer, b"hello");
}
