//! `scripts/bench`: what one call takes, beside the least that the same job can take, all in one run.
//!
//! Cases take turns, so that a slow minute of the machine slows them all. Every figure is a median; a promise is a
//! ratio of two medians of the same run, or a bound that no clock is needed for. A promise that is missed makes the
//! exit code 1.

mod case;
mod measure;
mod stage;
mod table;

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use case::Case;
use measure::Series;
use stage::Stage;

/// What the command line says.
struct Options {
    /// Runs of each case.
    runs: usize,
    /// Print JSON for keeping instead of the table.
    json: bool,
    /// Where `scripts/build` has put the binaries.
    dist: PathBuf,
}

fn main() -> Result<ExitCode> {
    let options = options()?;
    let stage = Stage::new(&options.dist)?;
    let cases = Case::all();
    let mut measured: Vec<Series> = cases.iter().map(|case| Series::new(case.name)).collect();
    // The first round warms caches and is not kept.
    for round in 0..=options.runs {
        for (case, series) in cases.iter().zip(&mut measured) {
            let taken = case
                .run(&stage)
                .with_context(|| format!("case {:?}", case.name))?;
            if round > 0 {
                series.add(taken);
            }
        }
    }
    let table = table::Table::new(&cases, &measured, stage.binary_size()?);
    print(&if options.json {
        table.to_json()
    } else {
        table.to_string()
    })?;
    Ok(if table.keeps_its_promises() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn options() -> Result<Options> {
    use lexopt::prelude::{Long, ValueExt};
    let dist = env::var_os("EVERGREEN_DIST").context("EVERGREEN_DIST is not set: start scripts/bench")?;
    let mut options = Options {
        runs: 50,
        json: false,
        dist: dist.into(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("runs") => options.runs = parser.value()?.parse()?,
            Long("json") => options.json = true,
            _ => return Err(argument.unexpected().into()),
        }
    }
    Ok(options)
}

fn print(text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
