//! Puts the mesh CNI plugin on a node, keeps its credentials valid, and removes it again.
//!
//! Imports go down this list only, so that no two folders need each other:
//!
//! - `run`: one function per command, the page to start with; `repair`: the repair controller
//! - `health`: what the installer tells people and probes; `watch`: what wakes it up
//! - `node`: the files on the node
//! - `cluster`: the API server
//! - `cli`: the command line and the environment, checked
//! - `host` (paths on the node), `sys` (signals, polling): needed everywhere
#![forbid(unsafe_code)]

mod cli;
mod cluster;
mod health;
mod host;
mod node;
mod repair;
mod run;
#[cfg(test)]
mod scratch;
mod sys;
mod watch;

use std::{env, path::Path, process::ExitCode};

use evergreen_kube::log::{Component, Level, Log};

#[expect(
    clippy::disallowed_methods,
    reason = "`main` reads the environment and passes a lookup function on"
)]
fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let lookup = |name: &str| env::var_os(name);
    // Replaced as soon as the settings of the log are known.
    let mut log = Log::new(Component::Installer, Level::Info);
    let result = if Path::new(&program).file_name() == Some(repair::PROGRAM.as_ref()) {
        repair::run(arguments.collect(), lookup, &mut log)
    } else {
        run::run(arguments, lookup, &mut log)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.with(&[("error", &format_args!("{error:#}"))]).error("failed");
            ExitCode::FAILURE
        }
    }
}
