//! The command `check`: what is wrong on this node, and what to do about it. It runs the checks of a reconcile pass without
//! the changes, and asks the API server about the credential on the node.

use std::{fmt, fs};

use evergreen_kube::{Class, Source, claims::Claims, clock, deadline::Deadline};

use crate::{
    cli::config::Config,
    cluster::{
        api,
        permissions::{self, Need},
        requests,
    },
    host::HostPath,
    node::{binary, ca, conflist, credentials},
};

/// The findings, in order.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Note,
    Fault,
}

impl Findings {
    /// Returns how many findings need fixing.
    pub fn faults(&self) -> usize {
        self.0.iter().filter(|f| f.verdict == Verdict::Fault).count()
    }

    fn ok(&mut self, text: impl fmt::Display) {
        self.add(Verdict::Ok, text);
    }

    fn note(&mut self, text: impl fmt::Display) {
        self.add(Verdict::Note, text);
    }

    fn fault(&mut self, text: impl fmt::Display) {
        self.add(Verdict::Fault, text);
    }

    fn add(&mut self, verdict: Verdict, text: impl fmt::Display) {
        self.0.push(Finding {
            verdict,
            text: text.to_string(),
        });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.0 {
            let word = match finding.verdict {
                Verdict::Ok => "ok   ",
                Verdict::Note => "note ",
                Verdict::Fault => "FAULT",
            };
            writeln!(f, "{word} {}", finding.text)?;
        }
        Ok(())
    }
}

/// Runs all checks.
pub fn check(config: &Config) -> Findings {
    let mut findings = Findings::default();
    plugin(config, &mut findings);
    networks(config, &mut findings);
    let credential = kubeconfig(config, &mut findings);
    if let Some([token_file, ca_file]) = credential {
        token(&token_file, &mut findings);
        ca_bundle(&ca_file, &mut findings);
        api_server(config, &token_file, &ca_file, &mut findings);
    }
    findings
}

fn plugin(config: &Config, findings: &mut Findings) {
    let target = config.paths.bin_dir.join(&config.paths.type_name);
    match binary::image_files(&config.paths).and_then(|files| binary::faults(&config.paths, &files)) {
        Ok(faults) if faults.is_empty() => {
            findings.ok(format_args!("plugin: {target} is the one in the image, and runs"))
        }
        Ok(faults) => faults
            .into_iter()
            .for_each(|fault| findings.fault(format_args!("plugin: {fault}"))),
        Err(error) => findings.fault(format_args!("plugin: {error:#}")),
    }
}

fn networks(config: &Config, findings: &mut Findings) {
    let plan = conflist::plan(config);
    for network in &plan.networks {
        let file = &network.file;
        if network.change.is_none() {
            findings.ok(format_args!("network: our entry is in {file}, up to date"));
        } else {
            findings.fault(format_args!(
                "network: our entry is missing from {file}, or outdated: is the installer running (see its log)?"
            ));
        }
    }
    for change in plan.changes() {
        findings.note(format_args!("network: planned: {change}"));
    }
    for problem in plan.findings.problems() {
        findings.fault(format_args!("network: {}", problem.text));
    }
    for notice in plan.findings.notices() {
        findings.note(format_args!("network: {notice}"));
    }
}

/// Checks the kubeconfig, and returns the token and CA files that it names.
fn kubeconfig(config: &Config, findings: &mut Findings) -> Option<[HostPath; 2]> {
    let file = &config.paths.kubeconfig;
    match credentials::named_in_kubeconfig(config) {
        Ok(named) => {
            findings.ok(format_args!("kubeconfig: {file} names a token and a CA bundle"));
            Some(named)
        }
        Err(error) => {
            findings.fault(format_args!("kubeconfig: {file}: {error:#}"));
            None
        }
    }
}

fn token(file: &HostPath, findings: &mut Findings) {
    let bytes = match fs::read(file.here()) {
        Ok(bytes) => bytes,
        Err(error) => return findings.fault(format_args!("token: {file}: read it: {error}")),
    };
    let Some(claims) = Claims::read(bytes.trim_ascii()) else {
        return findings.note(format_args!(
            "token: {file} is not a JWT, so its subject and expiry are unknown"
        ));
    };
    let subject = format!("token: {file} belongs to {}", claims.sub);
    match claims.exp {
        None => findings.ok(format_args!("{subject}, has no expiry")),
        Some(exp) if exp < clock::now() => findings.fault(format_args!(
            "{subject}, expired {}: is the installer running (see its log)?",
            clock::rfc3339(exp)
        )),
        Some(exp) => findings.ok(format_args!("{subject}, expires {}", clock::rfc3339(exp))),
    }
    if let Some(pod) = claims.kubernetes.pod {
        findings.note(format_args!(
            "token: it becomes invalid with pod {}; see EVERGREEN_TOKEN_SOURCE for one that does not",
            pod.name
        ));
    }
}

fn ca_bundle(file: &HostPath, findings: &mut Findings) {
    let pem = match fs::read(file.here()) {
        Ok(pem) => pem,
        Err(error) => return findings.fault(format_args!("ca: {file}: read it: {error}")),
    };
    match ca::ends(&pem) {
        None => findings.fault(format_args!("ca: {file} contains no valid certificate")),
        Some(ends) if ends < clock::now() => findings.note(format_args!(
            "ca: a certificate in {file} expired {}",
            clock::rfc3339(ends)
        )),
        Some(ends) => findings.ok(format_args!("ca: {file} is valid until {}", clock::rfc3339(ends))),
    }
}

fn api_server(config: &Config, token: &HostPath, ca: &HostPath, findings: &mut Findings) {
    let url = &config.server.url;
    let source = Source::File(token.here().to_path_buf());
    let client = api::with_token(&config.server, source, ca.here(), Deadline::after(api::TIMEOUT));
    let mut client = match client {
        Ok(client) => client,
        Err(error) => return findings.fault(format_args!("api server: {error}")),
    };
    match requests::whoami(&mut client) {
        Ok(user) => findings.ok(format_args!("api server: {url} accepts the token as {user}")),
        Err(e) if e.class == Class::NotFound => findings.note(format_args!(
            "api server: {url} accepts the token, but is too old (before Kubernetes 1.28) to say as whom"
        )),
        Err(error) => return findings.fault(format_args!("api server: {error}")),
    }
    let found = match permissions::review(&mut client) {
        Ok(found) => found,
        Err(error) => return findings.note(format_args!("permissions: unknown: {error}")),
    };
    for permission in found {
        let (name, why) = (permission.name(), permission.why);
        match permission.need {
            Need::Required => findings.fault(format_args!("permissions: missing: {name}: {why}")),
            Need::Optional => {
                findings.note(format_args!("permissions: missing, but optional: {name}: {why}"))
            }
            Need::Excessive => findings.note(format_args!("permissions: not needed: {name}: {why}")),
        }
    }
}
