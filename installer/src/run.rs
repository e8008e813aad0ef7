//! The commands, each on one page: `once`, `run`, `uninstall`, `check`.

use std::{
    ffi::OsString,
    io::{self, Write},
    net::{Ipv6Addr, SocketAddr},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use evergreen_kube::log::Log;

use crate::{
    cli::{
        command::{self, Command, PROGRAM, Request},
        config::{self, Config, Paths},
        settings::RawSettings,
    },
    cluster::{
        credential_thread::{self, CredentialState},
        uninstall::{self, Decision},
    },
    health::{check, serve, status::Status},
    node::{
        reconcile::{self, Outcome, Reconciler},
        report::{Report, ReportLog},
    },
    sys::Signals,
    watch::{Event, Watch},
};

/// How long `once` waits at most for a half-written conflist after its time is over.
const HALF_WRITTEN: Duration = Duration::from_secs(2);

/// Does what the command line and the environment ask for, including the settings of the log.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    lookup: impl Fn(&str) -> Option<OsString>,
    log: &mut Log,
) -> Result<()> {
    match command::parse(arguments)? {
        Request::Help(command) => print(&command::help(command)),
        Request::Version => print(&format!("{PROGRAM} {}\n", env!("CARGO_PKG_VERSION"))),
        Request::Run(command, settings) => {
            let settings = settings.with_variables(lookup)?;
            *log = config::log(&settings)?;
            start(command, &settings, *log)
        }
    }
}

fn start(command: Option<Command>, settings: &RawSettings, log: Log) -> Result<()> {
    let command = match command {
        Some(command) => command,
        None if config::sleep(settings)? => Command::Run,
        None => Command::Once,
    };
    match command {
        Command::Uninstall => finish(&reconcile::uninstall(&Paths::for_removal(settings)?), log),
        Command::Check => check(&Config::from_settings(settings)?),
        Command::Once | Command::Run => install(command, settings, log),
    }
}

fn install(command: Command, settings: &RawSettings, log: Log) -> Result<()> {
    // Before any file is touched: from here on a signal waits until a reconcile pass has ended.
    let signals = Signals::block().context("block SIGTERM and SIGINT")?;
    let config = Config::from_settings(settings)?;
    if config::has_two_templates(settings) {
        log.with(&[("reason", &"CNI_NETWORK_CONFIG is set")])
            .warn("CNI_NETWORK_CONFIG_FILE ignored");
    }
    let reconciler = Reconciler::new(config, command == Command::Run)?;
    let (watch, waker) = Watch::new(signals)?;
    match command {
        Command::Once => once(reconciler, watch, log),
        _ => keep_installed(reconciler, watch, waker, log),
    }
}

/// `once`: installs, waits for a network if there is none yet, and ends.
fn once(mut reconciler: Reconciler, mut watch: Watch, log: Log) -> Result<()> {
    let token = credential_thread::decide_once(reconciler.config(), log);
    let mut report_log = ReportLog::default();
    let until = Instant::now() + reconciler.config().wait;
    loop {
        watch.follow(directories(reconciler.config()));
        let Outcome { report, installed } = reconciler.reconcile(&token);
        report_log.write(log, &report);
        if installed {
            return Ok(());
        }
        let left = until.saturating_duration_since(Instant::now());
        // A conflist that is being written right now is worth a little more time.
        if left.is_zero() && (report.again_in().is_none() || until.elapsed() > HALF_WRITTEN) {
            bail!("not installed: {}", problems(&report));
        }
        if watch.next(Some(report.again_in().unwrap_or(left)))? == Event::Shutdown {
            bail!("stopped before everything was installed: {}", problems(&report));
        }
    }
}

/// `run`: installs, keeps the node right until SIGTERM, and then removes or keeps everything.
fn keep_installed(mut reconciler: Reconciler, mut watch: Watch, waker: UnixStream, log: Log) -> Result<()> {
    let credentials = Arc::new(CredentialState::new(reconciler.config()));
    let status = Arc::new(Status::default());
    if let Some(port) = reconciler.config().port {
        let (status, credentials) = (Arc::clone(&status), Arc::clone(&credentials));
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let answer = move |path: &str| status.answer(path, &credentials.review());
        // The node does not depend on it.
        serve::start(address, Arc::new(answer), log).unwrap_or_else(|e| {
            log.with(&[("error", &format_args!("{e:#}"))])
                .warn("probes and metrics not served");
        });
    }
    credential_thread::start(&credentials, reconciler.config(), waker, log)?;
    let mut report_log = ReportLog::default();
    loop {
        watch.follow(directories(reconciler.config()));
        let Outcome { report, installed } = reconciler.reconcile(&credentials.token());
        report_log.write(log, &report);
        status.record_pass(&report, installed);
        credentials.wake();
        if watch.next(report.again_in())? == Event::Shutdown {
            break;
        }
    }
    let decision = if reconciler.is_succeeded() {
        Decision::keep("another installer works on this node")
    } else {
        uninstall::decide(reconciler.config(), &credentials.baseline(), log)
    };
    log.with(&[("action", &decision.action()), ("evidence", &decision.evidence)])
        .info("shutdown");
    if decision.remove {
        return finish(&reconciler.remove(), log);
    }
    reconciler.keep();
    Ok(())
}

/// `check`: prints what is found.
fn check(config: &Config) -> Result<()> {
    let findings = check::check(config);
    print(&findings.to_string())?;
    match findings.faults() {
        0 => Ok(()),
        1 => bail!("1 problem needs fixing"),
        n => bail!("{n} problems need fixing"),
    }
}

/// Logs a removal, and fails if something is left.
fn finish(report: &Report, log: Log) -> Result<()> {
    ReportLog::default().write(log, report);
    if !report.is_clean() {
        bail!("not everything could be removed: {}", problems(report));
    }
    Ok(())
}

/// Returns the directories whose changes matter: the node's, and those with the pod's credentials.
fn directories(config: &Config) -> impl Iterator<Item = &Path> {
    let paths = &config.paths;
    let node = [paths.bin_dir.here(), paths.net_dir.here(), paths.own_dir.here()];
    node.into_iter()
        .chain(config.server.token_file.parent())
        .chain(config.server.ca_file.parent())
        .chain(config.extra_ca_file.as_deref().and_then(Path::parent))
}

fn problems(report: &Report) -> String {
    let problems: Vec<String> = report.problems().map(ToString::to_string).collect();
    if problems.is_empty() {
        "a conflist is only half written".to_owned()
    } else {
        problems.join("; ")
    }
}

fn print(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("write to stdout")
}
