//! `check`: what is wrong on this node, and what to do. Looks at what a turn looks at, with the same eyes, and changes
//! nothing; then asks the API server about the credential that lies there.

use std::{fmt, fs};

use evergreen_kube::{Class, Source, claims::Claims, clock, deadline::Deadline};

use crate::{
    cli::config::Config,
    cluster::{api, requests::Requests, rights},
    node::{binary, ca, conflist, credentials, host::HostPath},
};

/// What was found, in order.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Odd,
    Fault,
}

impl Findings {
    /// How many must be mended.
    pub fn faults(&self) -> usize {
        self.0.iter().filter(|f| f.verdict == Verdict::Fault).count()
    }

    fn good(&mut self, text: impl fmt::Display) {
        self.add(Verdict::Good, text);
    }

    fn odd(&mut self, text: impl fmt::Display) {
        self.add(Verdict::Odd, text);
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
                Verdict::Good => "ok   ",
                Verdict::Odd => "note ",
                Verdict::Fault => "FAULT",
            };
            writeln!(f, "{word} {}", finding.text)?;
        }
        Ok(())
    }
}

/// Looks at everything.
pub fn look(config: &Config) -> Findings {
    let mut findings = Findings::default();
    plugin(config, &mut findings);
    networks(config, &mut findings);
    let credential = kubeconfig(config, &mut findings);
    if let Some([token, ca]) = credential {
        files(&token, &ca, &mut findings);
        server(config, &token, &ca, &mut findings);
    }
    findings
}

fn plugin(config: &Config, findings: &mut Findings) {
    let target = config.place.bin_dir.join(&config.place.type_name);
    match binary::wanted(&config.place).and_then(|files| binary::faults(&config.place, &files)) {
        Ok(faults) if faults.is_empty() => {
            findings.good(format_args!("plugin: {target} is the image's, and runs"))
        }
        Ok(faults) => faults
            .into_iter()
            .for_each(|fault| findings.fault(format_args!("plugin: {fault}"))),
        Err(error) => findings.fault(format_args!("plugin: {error:#}")),
    }
}

fn networks(config: &Config, findings: &mut Findings) {
    let found = conflist::preview(config);
    for (file, ours_in) in &found.networks {
        if *ours_in {
            findings.good(format_args!("network: our entry is in {file}, as it shall be"));
        } else {
            findings.fault(format_args!(
                "network: our entry is not in {file}, or not as it shall be: does the installer run (see its log)?"
            ));
        }
    }
    for change in found.changes.lines() {
        findings.odd(format_args!("network: planned: {change}"));
    }
    found
        .problems
        .iter()
        .for_each(|p| findings.fault(format_args!("network: {p}")));
    found
        .notices
        .iter()
        .for_each(|n| findings.odd(format_args!("network: {n}")));
}

/// Says whether the kubeconfig is there, and gives the files that it names, as this process can read them.
fn kubeconfig(config: &Config, findings: &mut Findings) -> Option<[HostPath; 2]> {
    let file = &config.place.kubeconfig;
    match credentials::named_in_kubeconfig(config) {
        Ok(named) => {
            findings.good(format_args!("kubeconfig: {file} is there"));
            Some(named)
        }
        Err(error) => {
            findings.fault(format_args!("kubeconfig: {file}: {error:#}"));
            None
        }
    }
}

fn files(token: &HostPath, bundle: &HostPath, findings: &mut Findings) {
    match fs::read(token.here()) {
        Err(error) => findings.fault(format_args!("token: {token}: read it: {error}")),
        Ok(bytes) => match Claims::read(bytes.trim_ascii()) {
            None => findings.odd(format_args!("token: {token} does not say what it is good for")),
            Some(claims) => {
                let until = claims
                    .exp
                    .map_or_else(|| "it is told otherwise".to_owned(), clock::rfc3339);
                let text = format!("token: {token} is of {}, until {until}", claims.sub);
                if claims.exp.is_some_and(|exp| exp < clock::now()) {
                    findings.fault(format_args!(
                        "{text}: that is over; does the installer run (see its log)?"
                    ));
                } else {
                    findings.good(text);
                }
                if let Some(pod) = claims.kubernetes.pod {
                    findings.odd(format_args!(
                        "token: it dies with pod {}; see EVERGREEN_TOKEN_SOURCE for one that does not",
                        pod.name
                    ));
                }
            }
        },
    }
    match fs::read(bundle.here()) {
        Err(error) => findings.fault(format_args!("ca: {bundle}: read it: {error}")),
        Ok(pem) => match ca::ends(&pem) {
            None => findings.fault(format_args!("ca: {bundle} holds no good certificate")),
            Some(ends) if ends < clock::now() => {
                findings.odd(format_args!(
                    "ca: a certificate of {bundle} ended {}",
                    clock::rfc3339(ends)
                ));
            }
            Some(ends) => findings.good(format_args!("ca: {bundle} holds until {}", clock::rfc3339(ends))),
        },
    }
}

fn server(config: &Config, token: &HostPath, ca: &HostPath, findings: &mut Findings) {
    let deadline = Deadline::after(api::ASKING_TAKES);
    let source = Source::File(token.here().to_path_buf());
    let mut client = match api::with_token(&config.server, source, ca.here(), deadline) {
        Ok(client) => client,
        Err(error) => return findings.fault(format_args!("api server: {error}")),
    };
    match client.self_subject_review() {
        Ok(user) => findings.good(format_args!(
            "api server: {} knows the token as {}",
            config.server.url, user.username
        )),
        Err(e) if e.class == Class::NotFound => {
            findings.odd(format_args!(
                "api server: {} is too old to say whom it takes us for",
                config.server.url
            ));
        }
        Err(error) => return findings.fault(format_args!("api server: {error}")),
    }
    match rights::ask(&mut client) {
        Ok(found) => {
            found
                .missing
                .iter()
                .for_each(|r| findings.fault(format_args!("rights: missing: {r}")));
            found
                .without
                .iter()
                .for_each(|r| findings.odd(format_args!("rights: not there, and not needed by all: {r}")));
            found
                .too_much
                .iter()
                .for_each(|r| findings.odd(format_args!("rights: more than needed: {r}")));
        }
        Err(error) => findings.odd(format_args!("rights: not known: {error}")),
    }
}
