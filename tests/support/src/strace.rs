//! strace in front of a program under test.

use std::{ffi::OsString, path::Path};

/// Returns the command words that run a program under strace: all its threads and children, the trace in `output`.
pub fn strace(output: &Path, options: &[&str]) -> Vec<OsString> {
    ["strace", "-f", "-qq", "-o"]
        .map(OsString::from)
        .into_iter()
        .chain([output.into()])
        .chain(options.iter().map(OsString::from))
        .collect()
}
