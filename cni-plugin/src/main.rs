//! The process: environment and stdin in, one JSON document and an exit code out.
//!
//! Started by the C library alone (`no_main`). What the standard library does before a `main` of its own serves to name a
//! stack that overflows: it reads `/proc/self/maps` and gives each thread a second stack, which is half of the system calls
//! of a DEL, 3 % of the CPU of an ADD, and 110 KB. What else it does there is done by `evergreen_cni::begin`.
#![no_main]
#![allow(unsafe_code, reason = "the C library looks for `main` by its name")]

use std::{
    env,
    ffi::c_int,
    io::{self, Write},
    panic, process,
};

use evergreen_cni::protocol::{
    failure::{Code, Failure},
    reply::Reply,
};

/// What the C library calls. It never returns: the exit code is given to `exit`.
// SAFETY: the name is the C library's for this function, and nothing else in the program has it.
#[expect(
    clippy::disallowed_methods,
    reason = "`main` reads the environment and passes a lookup function on"
)]
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    evergreen_cni::begin();
    panic::set_hook(Box::new(|fault| {
        end(&Reply::failure(&fault_of_ours(fault), None))
    }));
    end(&evergreen_cni::run(
        &|variable| env::var_os(variable),
        &mut io::stdin().lock(),
    ))
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
