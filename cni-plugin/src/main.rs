//! The process: environment and stdin in, one JSON document and an exit code out.

use std::{
    env,
    io::{self, Write},
    panic, process,
};

use evergreen_cni::{
    error::{Code, Failure},
    reply::Reply,
};

fn main() {
    panic::set_hook(Box::new(|fault| {
        end(&Reply::failure(&fault_of_ours(fault), None))
    }));
    end(&evergreen_cni::run(
        &|variable| env::var_os(variable),
        &mut io::stdin().lock(),
    ));
}

/// Even a fault of ours ends as a CNI error object: the runtime shows nothing else to anybody.
fn fault_of_ours(fault: &panic::PanicHookInfo<'_>) -> Failure {
    let place = fault
        .location()
        .map(|at| format!(" at {}:{}", at.file(), at.line()))
        .unwrap_or_default();
    Failure::new(
        Code::Internal,
        format!("evergreen-cni has a fault{place}; please report it"),
    )
}

fn end(reply: &Reply) -> ! {
    // A runtime that closed stderr has given up on this call; there is nobody left to tell.
    let _ = io::stderr().write_all(reply.stderr.as_bytes());
    let mut stdout = io::stdout();
    let written = stdout
        .write_all(reply.stdout.as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = written {
        // A reply that nobody got is no success, whatever it says.
        let _ = writeln!(
            io::stderr(),
            "evergreen-cni: the reply could not be written to stdout: {error}"
        );
        process::exit(1);
    }
    process::exit(reply.exit_code.into())
}
