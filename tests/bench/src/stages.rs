//! `scripts/bench --stages`: instructions by stage, which show a regression independently of the machine's load.
//!
//! Callgrind counts every instruction of the release binary with symbols. The same input gives the same count, except
//! for the random parts of TLS (keys, signatures), about a thousandth; the median of some runs is compared with
//! `stages.txt`. Valgrind emulates a processor with AVX2 and without ADX, so the counts differ from the real processor's
//! but are the same on every machine with AVX2.

mod figures;
mod profile;

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, Result, ensure};
use evergreen_test_support::netns::Namespace;

pub use self::figures::Figures;
use self::profile::Profile;
use crate::{
    case::Case,
    cases,
    stage::{Program, Stage},
};

/// Each count is the median of this many runs.
const RUNS: usize = 5;
/// Cases that are counted as a whole.
const WHOLE: [&str; 5] = [
    "VERSION",
    "STATUS",
    "DEL, unprogrammed",
    "ADD unmeshed, annotations",
    "CHECK, programmed",
];
/// The case that is counted by stages.
const BY_STAGE: &str = "ADD meshed";

/// A function's share of a stage: its instructions and those of its callees, added (1) or subtracted (-1).
type Part = (i64, &'static str);

const ALL: &str = "";
const RUN: &str = "evergreen_cni::run";
const END: &str = "evergreen_cni::end";
const DECIDE: &str = "evergreen_cni::policy::decision::decide";
const LOAD: &str = "evergreen_kube::client::Origin::load";
const GET: &str = "evergreen_kube::client::Client::get";
const CONNECT: &str = "ureq::pool::ConnectionPool::run_connector";
const BUILD: &str =
    "evergreen_cni::rules::ruleset::build::<impl evergreen_cni::rules::ruleset::Ruleset>::build";
const PROGRAM: &str = "evergreen_cni::rules::apply::program";
/// The namespace thread: the C library's entry point of a thread.
const THREAD: &str = "start_thread";

/// The stages of ADD, in order. Together they are the whole call.
const STAGES: [(&str, &[Part]); 8] = [
    (
        "process start and end",
        &[(1, ALL), (-1, RUN), (-1, END), (-1, THREAD)],
    ),
    (
        "stdin and configuration",
        &[(1, RUN), (-1, DECIDE), (-1, BUILD), (-1, PROGRAM)],
    ),
    ("credentials and TLS set-up", &[(1, LOAD)]),
    ("connection and TLS handshake", &[(1, CONNECT)]),
    ("HTTP and the pod", &[(1, GET), (-1, CONNECT)]),
    (
        "intent and ruleset",
        &[(1, DECIDE), (-1, LOAD), (-1, GET), (1, BUILD)],
    ),
    ("thread and netlink", &[(1, PROGRAM), (1, THREAD)]),
    ("reply", &[(1, END)]),
];

/// Counts all cases. The plugin must have symbols. If a folder is given, callgrind's files are kept there.
pub fn count(stage: &Stage, keep: Option<&Path>) -> Result<Figures> {
    let mut figures = Figures::default();
    for case in cases::all() {
        let by_stage = case.name == BY_STAGE;
        if !by_stage && !WHOLE.contains(&case.name) {
            continue;
        }
        let profiles = (0..RUNS)
            .map(|_| profile(&case, stage, keep))
            .collect::<Result<Vec<_>>>()
            .with_context(|| format!("case {:?}", case.name))?;
        if by_stage {
            for (name, parts) in STAGES {
                let counts = profiles.iter().map(|profile| sum(profile, parts));
                let counts = counts.collect::<Result<Vec<_>>>()?;
                figures.add(format!("{}: {name}", case.name), counts);
            }
        }
        let whole = profiles.iter().map(Profile::total).collect();
        figures.add(case.name.to_owned(), whole);
    }
    Ok(figures)
}

fn profile(case: &Case, stage: &Stage, keep: Option<&Path>) -> Result<Profile> {
    let namespace = [Namespace::new()];
    let calls = case.calls(stage, Program::Plugin, &namespace)?;
    let call = calls.first().context("one call")?;
    let file = keep.map_or_else(
        || stage.file("callgrind"),
        |folder| folder.join(format!("callgrind.{}", case.name.replace([' ', ','], "-"))),
    );
    let valgrind = stage.find("valgrind")?;
    let out = format!("--callgrind-out-file={}", file.display());
    let mut words = stage.bounded();
    words.push(valgrind.as_os_str());
    words.extend(["--tool=callgrind", &out].map(OsStr::new));
    let reply = call.run_under(&words)?;
    ensure!(reply.exit_code == Some(0), "{call}: {reply:?}");
    Profile::read(&file)
}

fn sum(profile: &Profile, parts: &[Part]) -> Result<u64> {
    let mut sum: i64 = 0;
    for (sign, function) in parts {
        let count = match *function {
            ALL => profile.total(),
            function => profile.inclusive(function)?,
        };
        sum += sign * i64::try_from(count)?;
    }
    u64::try_from(sum).with_context(|| format!("{parts:?} is negative: a function has moved"))
}
