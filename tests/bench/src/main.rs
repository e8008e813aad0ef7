//! `scripts/bench`: the cost of one call compared with a minimal baseline program, all in one run.
//!
//! Cases are interleaved, so that a slow minute of the machine slows them all. Every figure is a median. A limit is a
//! ratio within the same run (to a baseline: of the fastest tenth of the runs; to linkerd-cni: the median over the
//! rounds), or an absolute bound on something other than time. The exit code is 1 if a limit is exceeded.

mod case;
mod cases;
mod installer;
mod limit;
mod measure;
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

/// If a limit is exceeded, the rounds are repeated up to this many times, because a few runs on a busy machine mislead.
/// All rounds count.
const REPEATS: usize = 3;

/// The options from the command line and the environment.
struct Options {
    /// Runs of each case.
    runs: usize,
    /// Run only the baselines and the cases whose name starts with this.
    only: String,
    /// Print JSON with every run instead of the table.
    json: bool,
    /// Measure many pods and many nodes instead of one call.
    scale: bool,
    /// Measure the installer instead of the plugin.
    installer: bool,
    /// How many seconds the idle installer is measured.
    seconds: u64,
    /// Count instructions instead of time.
    stages: bool,
    /// Store the counts as the reference.
    write: bool,
    /// Exit with 1 if a count differs from the reference.
    check: bool,
    /// The folder in which callgrind's files are kept.
    keep: Option<PathBuf>,
    /// The folder with the binaries from `scripts/build`.
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
        return measure_installer(&options, &stage);
    }
    match options.stages {
        true => count(&options, &stage),
        false => measure(&options, &stage),
    }
}

/// Counts instructions and compares them with the reference.
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
    print("CHANGED by more than 3 %: find the reason, or store the new counts with --stages --write\n")?;
    Ok(ExitCode::FAILURE)
}

/// Measures the idle installer and its reaction to rotations.
fn measure_installer(options: &Options, stage: &Stage) -> Result<ExitCode> {
    let rest = Duration::from_secs(options.seconds);
    let installer = installer::run(stage, &options.dist.join("evergreen-install"), rest)?;
    print(&installer.to_string())?;
    Ok(code(installer.is_within_limits()))
}

/// Measures the time, memory and other costs of a call.
fn measure(options: &Options, stage: &Stage) -> Result<ExitCode> {
    cases::record_batch(stage).context("record the rules for the minimal baseline program")?;
    let mut cases = cases::all();
    cases.retain(|case| !case.has_peer || case.name.starts_with(&options.only));
    let mut rows: Vec<Row<'_>> = cases
        .iter()
        .map(|case| Row {
            case,
            plugin: Measured::default(),
            peer: options
                .peer
                .as_ref()
                .filter(|_| case.has_peer)
                .map(|_| Measured::default()),
        })
        .collect();
    for row in &mut rows {
        trace(row, stage).with_context(|| format!("case {:?}", row.case.name))?;
    }
    let peer_size = options.peer.as_deref().map(size).transpose()?;
    let mut table = Table::new(rows, size(stage.binary(Program::Plugin))?, peer_size);
    // The first round warms the caches and is discarded.
    rounds(&mut table.rows, stage, 0..=options.runs, options.runs)?;
    for repeat in 1..=REPEATS {
        if table.is_within_limits() {
            break;
        }
        let from = options.runs * repeat;
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
    Ok(code(table.is_within_limits()))
}

/// Runs every case in these rounds; `of` is the number of rounds per repetition.
fn rounds(rows: &mut [Row<'_>], stage: &Stage, numbers: RangeInclusive<usize>, of: usize) -> Result<()> {
    for round in numbers {
        for row in &mut *rows {
            run_round(row, stage, round, of).with_context(|| format!("case {:?}", row.case.name))?;
        }
    }
    Ok(())
}

/// Runs each program once under strace.
fn trace(row: &mut Row<'_>, stage: &Stage) -> Result<()> {
    row.plugin.traced = row.case.trace(stage, Program::Plugin)?;
    if let Some(peer) = &mut row.peer {
        peer.traced = row.case.trace(stage, Program::Peer)?;
    }
    Ok(())
}

/// Runs each program once, timed, if the case is due in this round. Every case is due at least once.
fn run_round(row: &mut Row<'_>, stage: &Stage, round: usize, rounds: usize) -> Result<()> {
    let run = |case: &Case, program| -> Result<Option<Taken>> {
        match round % case.every.min(rounds).max(1) {
            0 => case.run(stage, program).map(Some),
            _ => Ok(None),
        }
    };
    let plugin = run(row.case, Program::Plugin)?;
    let peers = row
        .peer
        .is_some()
        .then(|| run(row.case, Program::Peer))
        .transpose()?;
    if round > 0 {
        row.plugin.series.add(plugin);
        if let (Some(peer), Some(taken)) = (&mut row.peer, peers) {
            peer.series.add(taken);
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "options of scripts/bench")]
fn options() -> Result<Options> {
    use lexopt::prelude::{Long, ValueExt};
    let dist =
        env::var_os("EVERGREEN_DIST").context("EVERGREEN_DIST is not set; run scripts/bench instead")?;
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

fn code(within_limits: bool) -> ExitCode {
    match within_limits {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The size of a file in bytes.
fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| format!("read the size of {}", path.display()))?;
    Ok(metadata.len())
}

fn print(text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
