//! The system calls and processes of a run, counted by strace. Never used in a timed run.

use std::{collections::BTreeSet, ffi::OsString, fs};

use anyhow::{Context, Result, ensure};
use evergreen_test_support::run::CniCall;

use crate::stage::Stage;

/// `NFNL_MSG_BATCH_BEGIN` of linux/netfilter/nfnetlink.h.
const BATCH_BEGIN: [u8; 2] = 0x10_u16.to_ne_bytes();

/// The counts of one run.
#[derive(Debug, Clone, Copy)]
pub struct Traced {
    /// System calls of all threads and processes.
    pub calls: usize,
    /// Programs started, including the first.
    pub programs: usize,
    /// Processes and threads started, including the first.
    pub tasks: usize,
}

/// Runs a call under strace.
pub fn count(call: &CniCall, stage: &Stage) -> Result<Traced> {
    let text = strace(call, stage, &[])?;
    let entered = text.lines().filter(|line| is_entry(line));
    let tasks: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    Ok(Traced {
        calls: entered.count(),
        programs: text
            .lines()
            .filter(|line| line.contains("execve") && line.ends_with("= 0"))
            .count(),
        tasks: tasks.len(),
    })
}

/// Writes the batch that an ADD sends to nf_tables to the file `batch`.
pub fn record_batch(call: &CniCall, stage: &Stage) -> Result<()> {
    let text = strace(call, stage, &["-e", "trace=sendto", "-e", "write=all"])?;
    let batch = datagrams(&text)
        .into_iter()
        .find(|bytes| bytes.get(4..6) == Some(&BATCH_BEGIN))
        .context("ADD sent no batch to nf_tables")?;
    Ok(fs::write(stage.file("batch"), batch)?)
}

fn strace(call: &CniCall, stage: &Stage, options: &[&str]) -> Result<String> {
    let file = stage.file("strace");
    let strace = evergreen_test_support::strace::strace(&file, options);
    let mut words = stage.bounded();
    words.extend(strace.iter().map(OsString::as_os_str));
    let reply = call.run_under(&words)?;
    ensure!(reply.exit_code.is_some_and(|code| code < 2), "{call}: {reply:?}");
    Ok(String::from_utf8_lossy(&fs::read(&file)?).into_owned())
}

/// Returns whether a line is the start of a call, `PID name(...`; not a resumed call, a signal or an exit.
fn is_entry(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Parses the bytes of each call, dumped in lines of sixteen after it: ` | 00010  00 00 00 0a ...  .... |`.
fn datagrams(text: &str) -> Vec<Vec<u8>> {
    let mut found = vec![Vec::new()];
    for line in text.lines() {
        match (line.strip_prefix(" | "), found.last_mut()) {
            (Some(dump), Some(bytes)) => {
                let columns = dump.get(7..56).unwrap_or_default().split_whitespace();
                bytes.extend(columns.filter_map(|hex| u8::from_str_radix(hex, 16).ok()));
            }
            _ => found.push(Vec::new()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_counted_once() {
        let lines = [
            ("12 read(0, \"\", 32) = 0", true),
            ("12 futex(0x1 <unfinished ...>", true),
            ("12 <... futex resumed>) = 0", false),
            ("12 +++ exited with 0 +++", false),
            ("12 --- SIGCHLD {} ---", false),
        ];
        for (line, counts) in lines {
            assert_eq!(is_entry(line), counts, "{line}");
        }
    }

    #[test]
    fn dump_belongs_to_the_call_before_it() {
        let text = [
            "12 sendto(3, [{...}]) = 20",
            " | 00000  14 00 00 00 10 00 01 00  00 00 00 00 00 00 00 ff  ................ |",
            " | 00010  61 62                                             ab               |",
            "12 sendto(4, \"a\") = 1",
            " | 00000  61                                                a                |",
        ]
        .join("\n");
        let found = datagrams(&text);
        let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(lengths, [0, 18, 1]);
        assert_eq!(found[1][15..], [0xff, 0x61, 0x62]);
    }
}
