//! The one program in the pods of the end-to-end tests: servers that say which end a connection reached, a client
//! that asks, the dance of Linkerd's network validator, and a process that does nothing.
//!
//! It touches sockets and stdout, nothing else. Linked statically it is the only file of its image.

mod ask;
mod serve;
mod validate;

use anyhow::{Result, bail};
use std::{env, process::ExitCode};

const USAGE: &str = "\
usage: probe serve --name NAME ADDRESS [--name NAME ADDRESS]...   answer each connection with NAME and where it was going
       probe ask ADDRESS                                          connect, print the answer
       probe validate LISTEN CONNECT                              does a connection to CONNECT come back to LISTEN? (95: no)
       probe pause                                                wait for a signal";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let words = match words.split_first() {
        // A pod's first container, which the runtime starts without arguments.
        Some((name, _)) if name.ends_with("/pause") => &["pause"],
        Some((_, rest)) => rest,
        None => &[],
    };
    match run(words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("probe: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<ExitCode> {
    match words {
        ["serve", listeners @ ..] => serve::serve(&serve::parse(listeners)?),
        ["ask", address] => ask::ask(address.parse()?),
        ["validate", listen, connect] => validate::validate(listen.parse()?, connect.parse()?),
        ["pause"] => loop {
            std::thread::park();
        },
        _ => bail!("{USAGE}"),
    }
}
