//! `scripts/bench`: what one call takes, beside the least that the same job can take, all in one run.
//!
//! Cases take turns, so that a slow minute of the machine slows them all. Every figure is a median. A promise is a
//! ratio within the same run (to a baseline: of the runs that nothing else held up; to linkerd-cni: the median of the rounds'),
//! or a bound that no clock is needed for. A promise that is missed makes the exit
//! code 1.

mod case;
mod cases;
mod installer;
mod measure;
mod promise;
mod scale;
mod stage;
mod stages;
mod table;
mod trace;

use std::{
    env, fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use case::Case;
use measure::Taken;
use stage::{Program, Stage};
use table::{Measured, Row, Table};

/// When a promise looks missed, so many times as many rounds are added, since a few runs on a busy machine may mislead.
/// None is left out.
const MORE: usize = 3;

/// What the command line and the environment say.
struct Options {
    /// Runs of each case.
    runs: usize,
    /// Only cases whose name begins so, and the baselines.
    only: String,
    /// Print JSON for keeping instead of the table.
    json: bool,
    /// Many pods and many nodes instead of one call.
    scale: bool,
    /// The installer instead of the plugin.
    installer: bool,
    /// For how long it is watched at rest.
    seconds: u64,
    /// Count instructions instead of time.
    stages: bool,
    /// Keep the counts as the ones to compare with.
    write: bool,
    /// A count that is not the kept one makes the exit code 1.
    check: bool,
    /// Where callgrind's files are to stay.
    keep: Option<PathBuf>,
    /// Where `scripts/build` has put the binaries.
    dist: PathBuf,
    /// A linkerd-cni to run on the same inputs.
    peer: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let options = options()?;
    let stage = Stage::new(&options.dist, options.peer.clone())?;
    if options.scale {
        print(&scale::run(&stage)?.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.installer {
        return watch(&options, &stage);
    }
    match options.stages {
        true => count(&options, &stage),
        false => measure(&options, &stage),
    }
}

/// Instructions, beside those that were kept.
fn count(options: &Options, stage: &Stage) -> Result<ExitCode> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("stages.txt");
    let figures = stages::count(stage, options.keep.as_deref())?;
    if options.write {
        figures.write(&kept)?;
    }
    let compared = figures.compare(&kept)?;
    print(&compared.to_string())?;
    if !options.check || compared.are_alike() {
        return Ok(ExitCode::SUCCESS);
    }
    print("CHANGED by more than 3 %: find out why, or keep the new counts with --stages --write\n")?;
    Ok(ExitCode::FAILURE)
}

/// The installer, at rest and when something rotates.
fn watch(options: &Options, stage: &Stage) -> Result<ExitCode> {
    let rest = Duration::from_secs(options.seconds);
    let installer = installer::run(stage, &options.dist.join("evergreen-install"), rest)?;
    print(&installer.to_string())?;
    Ok(code(installer.keeps_its_promises()))
}

/// Time, memory and what else a call takes.
fn measure(options: &Options, stage: &Stage) -> Result<ExitCode> {
    cases::record_batch(stage).context("recording the rules for the minimal baseline program")?;
    let mut cases = cases::all();
    cases.retain(|case| !case.has_peer || case.name.starts_with(&options.only));
    let mut rows: Vec<Row<'_>> = cases
        .iter()
        .map(|case| Row {
            case,
            ours: Measured::default(),
            peer: options
                .peer
                .as_ref()
                .filter(|_| case.has_peer)
                .map(|_| Measured::default()),
        })
        .collect();
    for row in &mut rows {
        follow(row, stage).with_context(|| format!("case {:?}", row.case.name))?;
    }
    let peer_size = options.peer.as_deref().map(size).transpose()?;
    let mut table = Table::new(rows, size(stage.binary(Program::Ours))?, peer_size);
    // The first round warms caches and is not kept.
    rounds(&mut table.rows, stage, 0..=options.runs, options.runs)?;
    for more in 1..=MORE {
        if table.keeps_its_promises() {
            break;
        }
        let from = options.runs * more;
        rounds(
            &mut table.rows,
            stage,
            from + 1..=from + options.runs,
            options.runs,
        )?;
    }
    print(&if options.json {
        table.to_json()
    } else {
        table.to_string()
    })?;
    Ok(code(table.keeps_its_promises()))
}

/// Runs every case in each of these rounds, or in its share of so many.
fn rounds(rows: &mut [Row<'_>], stage: &Stage, numbers: RangeInclusive<usize>, of: usize) -> Result<()> {
    for round in numbers {
        for row in &mut *rows {
            take_turns(row, stage, round, of).with_context(|| format!("case {:?}", row.case.name))?;
        }
    }
    Ok(())
}

/// One run of each program under strace.
fn follow(row: &mut Row<'_>, stage: &Stage) -> Result<()> {
    row.ours.traced = row.case.trace(stage, Program::Ours)?;
    if let Some(peer) = &mut row.peer {
        peer.traced = row.case.trace(stage, Program::Peer)?;
    }
    Ok(())
}

/// One timed run of each program, when it is the case's turn, which it is once at least.
fn take_turns(row: &mut Row<'_>, stage: &Stage, round: usize, rounds: usize) -> Result<()> {
    let run = |case: &Case, program| -> Result<Option<Taken>> {
        match round % case.every.min(rounds).max(1) {
            0 => case.run(stage, program).map(Some),
            _ => Ok(None),
        }
    };
    let ours = run(row.case, Program::Ours)?;
    let peers = row
        .peer
        .is_some()
        .then(|| run(row.case, Program::Peer))
        .transpose()?;
    if round > 0 {
        row.ours.series.add(ours);
        if let (Some(peer), Some(taken)) = (&mut row.peer, peers) {
            peer.series.add(taken);
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "options of scripts/bench")]
fn options() -> Result<Options> {
    use lexopt::prelude::{Long, ValueExt};
    let dist = env::var_os("EVERGREEN_DIST").context("EVERGREEN_DIST is not set: start scripts/bench")?;
    let mut options = Options {
        runs: 50,
        only: String::new(),
        json: false,
        scale: false,
        installer: false,
        seconds: 60,
        stages: false,
        write: false,
        check: false,
        keep: None,
        dist: dist.into(),
        peer: env::var_os("PEER").map(PathBuf::from),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("runs") => options.runs = parser.value()?.parse()?,
            Long("only") => options.only = parser.value()?.string()?,
            Long("json") => options.json = true,
            Long("scale") => options.scale = true,
            Long("installer") => options.installer = true,
            Long("seconds") => options.seconds = parser.value()?.parse()?,
            Long("stages") => options.stages = true,
            Long("write") => options.write = true,
            Long("check") => options.check = true,
            Long("keep") => options.keep = Some(parser.value()?.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    Ok(options)
}

fn code(kept: bool) -> ExitCode {
    match kept {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The size of a file in bytes.
fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(metadata.len())
}

fn print(text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
