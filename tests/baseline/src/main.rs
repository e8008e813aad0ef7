//! The minimal baseline for `scripts/bench`: the least a static program can do for the same job.
//!
//! - `nothing` starts and exits.
//! - `get ADDRESS CA-FILE TOKEN-FILE PATH` sends one HTTPS request and reads the answer.
//! - `get+rules ADDRESS CA-FILE TOKEN-FILE PATH NAMESPACE BATCH-FILE` then sends a batch of rules to the kernel.
//! - `time PROGRAM ARGUMENTS...` runs a program and prints its resource use. A small process must do this, because the
//!   kernel counts the parent's memory in the child's peak.
//! - `time-at-once PROGRAM FOLDER TIMES` runs a program many times at once and prints the total.
//! - `used PID` prints the CPU time of a running process in nanoseconds, including threads that have ended. The ticks of
//!   /proc, a hundredth of a second, are too coarse for an idle process.

mod child;
mod job;
mod sys;

use std::{
    env,
    error::Error,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

const USAGE: &str = "usage: evergreen-baseline nothing | get ADDRESS CA TOKEN PATH | get+rules ADDRESS CA TOKEN PATH \
                     NAMESPACE BATCH | time PROGRAM ARGUMENTS... | time-at-once PROGRAM FOLDER TIMES | used PID";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "evergreen-baseline: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match *arguments {
        ["nothing"] => Ok(()),
        ["get", address, ca, token, path] => job::get(address, ca, token, path),
        ["get+rules", address, ca, token, path, namespace, batch] => {
            job::get(address, ca, token, path)?;
            job::rules(namespace, batch)
        }
        ["time", program, ref arguments @ ..] => print(&child::run(program, arguments)?),
        ["time-at-once", program, folder, times] => {
            print(&child::run_at_once(program, Path::new(folder), times.parse()?)?)
        }
        ["used", pid] => {
            let line = format!("{}\n", sys::cpu_time(pid.parse()?)?.as_nanos());
            Ok(io::stdout().write_all(line.as_bytes())?)
        }
        _ => Err(USAGE.into()),
    }
}

/// Prints one line: wall ns, user+system µs, peak resident KiB, exit code. The programs' own stdout goes to stderr.
fn print(taken: &child::Taken) -> Result<(), Box<dyn Error>> {
    let line = format!(
        "{} {} {} {}\n",
        taken.wall.as_nanos(),
        taken.cpu.as_micros(),
        taken.peak_kib,
        taken.exit_code
    );
    Ok(io::stdout().write_all(line.as_bytes())?)
}
