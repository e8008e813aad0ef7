//! Puts the mesh CNI plugin on a node, with credentials that follow every rotation, and takes it away again.
//!
//! `command` and `settings` (what was given) -> `config` (checked) -> `reconcile` (binary, credentials, conflist made
//! right), again on each event of `watch`.

mod cli;
mod cluster;
mod health;
mod host;
mod node;
mod repair;
#[cfg(test)]
mod scratch;
mod sys;
mod watch;

use std::{
    env,
    io::{self, Write},
    net::{Ipv6Addr, SocketAddr},
    os::unix::net::UnixStream,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use evergreen_kube::log::{Component, Level, Log};

use cli::{
    command::{self, Asked, PROGRAM, Verb},
    config::{self, Config, Paths},
    settings::RawSettings,
};
use cluster::{
    credential_thread::{self, CredentialThread},
    uninstall::{self, Decision},
};
use health::{
    check,
    report::{Report, ReportLog},
    serve,
    status::Status,
};
use node::reconcile::{self, Outcome, Reconciler};
use sys::Signals;
use watch::{Event, Watch};

/// How long `once` waits at most for a half-written file after its time is over.
const HALF_WRITTEN: Duration = Duration::from_secs(2);

#[expect(
    clippy::disallowed_methods,
    reason = "`main` reads the environment and passes a lookup function on"
)]
fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(repair::PROGRAM.as_ref()) {
        return ended(
            Component::Repair,
            repair::run(arguments.collect(), |name| env::var_os(name)),
        );
    }
    let outcome = command::ask(arguments).and_then(|asked| match asked {
        Asked::Help(verb) => print(&command::help(verb)),
        Asked::Version => print(&format!("{PROGRAM} {}\n", env!("CARGO_PKG_VERSION"))),
        Asked::Do(verb, given) => start(verb, given.variables(|name| env::var_os(name))?),
    });
    ended(Component::Installer, outcome)
}

fn ended(component: Component, outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Log::new(component, Level::Error).error(format_args!("failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(verb: Option<Verb>, given: RawSettings) -> Result<()> {
    let log = Log::new(Component::Installer, config::level(&given)?);
    let verb = match verb {
        Some(verb) => verb,
        None if config::stays(&given)? => Verb::Run,
        None => Verb::Once,
    };
    match verb {
        Verb::Uninstall => return uninstall(&Paths::for_removal(&given)?, log),
        Verb::Check => return check(&Config::from_given(&given)?),
        Verb::Once | Verb::Run => {}
    }
    // Before anything is touched: from here on a signal waits until a turn is over.
    let signals = Signals::take_over().context("take the signals over")?;
    let config = Config::from_given(&given)?;
    if config::has_two_templates(&given) {
        log.warn(format_args!(
            "CNI_NETWORK_CONFIG is set, so CNI_NETWORK_CONFIG_FILE is not read"
        ));
    }
    let reconciler = Reconciler::new(config, verb == Verb::Run)?;
    let (watch, button) = Watch::new(signals)?;
    match verb {
        Verb::Once => once(reconciler, watch, log),
        _ => run(reconciler, watch, button, log),
    }
}

/// Installs, waits for a network if there is none yet, and ends.
fn once(mut reconciler: Reconciler, mut watch: Watch, log: Log) -> Result<()> {
    let token = credential_thread::decide_once(reconciler.config(), log);
    let mut voice = ReportLog::default();
    let until = Instant::now() + reconciler.config().wait;
    loop {
        watch.follow(directories(reconciler.config()));
        let Outcome { report, installed } = reconciler.turn(&token);
        voice.say(log, &report);
        if installed {
            return Ok(());
        }
        let left = until.saturating_duration_since(Instant::now());
        // A network that somebody is writing this moment is worth a moment more.
        if left.is_zero() && (report.look_again().is_none() || until.elapsed() > HALF_WRITTEN) {
            bail!("not installed: {}", problems(&report));
        }
        if watch.next(Some(report.look_again().unwrap_or(left)))? == Event::Leave {
            bail!("asked to end before all was installed: {}", problems(&report));
        }
    }
}

/// Installs, keeps it right, and removes it on the way out if that is asked for.
fn run(mut reconciler: Reconciler, mut watch: Watch, button: UnixStream, log: Log) -> Result<()> {
    let status = Arc::new(Status::default());
    if let Some(port) = reconciler.config().port {
        let asked = Arc::clone(&status);
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        // Without it the node is as well off; only nobody can ask how it is.
        serve::start(address, Arc::new(move |path| asked.answer(path)), log)
            .unwrap_or_else(|e| log.warn(format_args!("not serving: {e:#}")));
    }
    let credential_thread = CredentialThread::start(reconciler.config(), &status, button, log)?;
    let mut voice = ReportLog::default();
    loop {
        watch.follow(directories(reconciler.config()));
        let Outcome { report, installed } = reconciler.turn(&credential_thread.token());
        voice.say(log, &report);
        status.after_turn(&report, installed);
        credential_thread.wake();
        if watch.next(report.look_again())? == Event::Leave {
            break;
        }
    }
    let seen = status.facts().seen;
    let decision = if reconciler.is_succeeded() {
        Decision::keep("another installer works on this node")
    } else {
        uninstall::decide(reconciler.config(), &seen, log)
    };
    let word = if decision.remove { "removes" } else { "keeps" };
    log.info(format_args!("leaving={word} because={:?}", decision.because));
    if decision.remove {
        return removed(&reconciler.remove(), log);
    }
    reconciler.keep();
    Ok(())
}

/// Says what is found, to be read in a terminal.
fn check(config: &Config) -> Result<()> {
    let findings = check::look(config);
    print(&findings.to_string())?;
    match findings.faults() {
        0 => Ok(()),
        n => bail!("{n} of these must be mended"),
    }
}

fn uninstall(place: &Paths, log: Log) -> Result<()> {
    removed(&reconcile::uninstall(place), log)
}

fn removed(report: &Report, log: Log) -> Result<()> {
    ReportLog::default().say(log, report);
    if !report.all_well() {
        bail!("not everything could be removed: {}", problems(report));
    }
    Ok(())
}

/// Where changes matter: the node's directories and the pod's credentials.
fn directories(config: &Config) -> impl Iterator<Item = &Path> {
    let place = &config.place;
    let node = [place.bin_dir.here(), place.net_dir.here(), place.own_dir.here()];
    node.into_iter()
        .chain(config.server.token_file.parent())
        .chain(config.server.ca_file.parent())
        .chain(config.extra_ca_file.as_deref().and_then(Path::parent))
}

fn problems(report: &Report) -> String {
    let said = report
        .problems()
        .map(|p| format!("{}: {}", p.operation, p.text))
        .collect::<Vec<_>>()
        .join("; ");
    if said.is_empty() {
        "a network is only half written".to_owned()
    } else {
        said
    }
}

fn print(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("write to stdout")
}
