//! The process: environment and stdin in, one JSON document and an exit code out.
//!
//! Skips Rust's runtime start-up (`no_main`): its stack-overflow handler reads `/proc/self/maps` and gives each thread a
//! second stack, which costs half of DEL's system calls, 3 % of ADD's CPU time and 110 KB. `evergreen_cni::begin` does
//! the rest of the start-up.
#![no_main]
#![allow(unsafe_code, reason = "the C library calls `main` by its name")]

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
use evergreen_kube::log::{Component, Level, Log};

/// The entry point for the C library. It ends in `exit` and never returns.
// SAFETY: the C library expects this name and signature, and no other function of the program has the name.
#[expect(
    clippy::disallowed_methods,
    reason = "`main` reads the environment and passes a lookup function on"
)]
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    evergreen_cni::begin();
    panic::set_hook(Box::new(|panic| {
        end(&Reply::failure(&internal_error(panic), None))
    }));
    end(&evergreen_cni::run(
        &|variable| env::var_os(variable),
        &mut io::stdin().lock(),
    ))
}

/// Returns a panic as a CNI error, because the runtime shows users nothing else.
fn internal_error(panic: &panic::PanicHookInfo<'_>) -> Failure {
    let place = panic
        .location()
        .map(|at| format!(" at {}:{}", at.file(), at.line()))
        .unwrap_or_default();
    Failure::new(
        Code::Internal,
        format!("evergreen-cni panicked{place}; this is a bug, please report it"),
    )
}

fn end(reply: &Reply) -> ! {
    // A runtime that has closed stderr no longer reads the log.
    let _ = io::stderr().write_all(reply.stderr.as_bytes());
    let mut stdout = io::stdout();
    let written = stdout
        .write_all(reply.stdout.as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = written {
        // The runtime has no reply, so the call must not end as a success.
        Log::new(Component::Plugin, Level::Error)
            .with(&[("error", &error)])
            .error("cannot write the reply to stdout");
        process::exit(1);
    }
    process::exit(reply.exit_code.into())
}
