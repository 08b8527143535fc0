//! The README's transcripts: every `console` block is run, and must say what zkit says.

use std::path::Path;

use crate::fixtures::root;

/// Runs the blocks in order, in a folder that holds `fixtures` and nothing else: paths in them are those of a clone.
#[test]
fn transcripts_of_the_readme_are_what_zkit_says() {
    let folder = root().join("target").join("readme");
    let clone = folder.join("README.in");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("target can be written");
    }
    std::fs::create_dir_all(&clone).expect("target can be written");
    std::os::unix::fs::symlink(root().join("fixtures"), clone.join("fixtures"))
        .expect("target can hold a link");
    let readme = folder.join("README.md");
    std::fs::copy(root().join("README.md"), &readme).expect("the README can be copied");
    let cases = trycmd::TestCases::new();
    cases.register_bin("zkit", Path::new(env!("CARGO_BIN_EXE_zkit")));
    cases.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").case(readme);
    cases.run();
}
