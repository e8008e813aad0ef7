//! A case: the call to run, what it is compared with, and its limits.

use std::fs;

use anyhow::{Context, Result, ensure};
use evergreen_test_support::{netns::Namespace, run::CniCall};

use crate::{
    measure::{self, Taken},
    stage::{Program, Stage},
    trace::{self, Traced},
};

/// One line of the table.
pub struct Case {
    /// The name in the table.
    pub name: &'static str,
    /// The baseline, and the highest allowed ratio to it.
    pub baseline: Option<(&'static str, f64)>,
    /// The highest allowed shares of linkerd-cni's time on the same input.
    pub peer: Option<Shares>,
    /// linkerd-cni's figures from the last run with both: CPU ms, peak MiB.
    pub quoted: Option<[f64; 2]>,
    /// True if linkerd-cni can do the same.
    pub has_peer: bool,
    /// The number of concurrent calls.
    pub at_once: usize,
    /// The case runs in every n-th round.
    pub every: usize,
    exit_code: i32,
    requests: usize,
    programmed: bool,
    call: Call,
}

/// Shares of linkerd-cni's time.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// None where the kernel or an intended pause decides the wall time.
    pub wall: Option<f64>,
    /// User and system time.
    pub cpu: f64,
}

/// Builds the call of this program in this namespace.
pub type Call = fn(&Stage, Program, &Namespace) -> CniCall;

impl Case {
    /// A call that succeeds, sends no request and has no limits.
    pub fn new(name: &'static str, call: Call) -> Self {
        Self {
            name,
            baseline: None,
            peer: None,
            quoted: None,
            has_peer: true,
            at_once: 1,
            every: 1,
            exit_code: 0,
            requests: 0,
            programmed: false,
            call,
        }
    }

    /// A baseline that other cases are compared with.
    pub fn baseline(name: &'static str, requests: usize, call: Call) -> Self {
        Self {
            has_peer: false,
            requests,
            ..Self::new(name, call)
        }
    }

    /// Limits the wall time to a multiple of this baseline.
    pub fn at_most(mut self, times: f64, baseline: &'static str) -> Self {
        self.baseline = Some((baseline, times));
        self
    }

    /// Limits wall and CPU time to this share of linkerd-cni's.
    pub fn of_peer(mut self, share: f64) -> Self {
        self.peer = Some(Shares {
            wall: Some(share),
            cpu: share,
        });
        self
    }

    /// Limits CPU time, and optionally wall time, to shares of linkerd-cni's.
    pub fn of_peers_cpu(mut self, cpu: f64, wall: Option<f64>) -> Self {
        self.peer = Some(Shares { wall, cpu });
        self
    }

    /// Sets linkerd-cni's figures from the last run with both.
    pub fn quoted(mut self, cpu: f64, peak: f64) -> Self {
        self.quoted = Some([cpu, peak]);
        self
    }

    /// Sets the exact number of API requests.
    pub fn asks(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// Expects exit code 1.
    pub fn fails(mut self) -> Self {
        self.exit_code = 1;
        self
    }

    /// Programs the rules before the call.
    pub fn programmed(mut self) -> Self {
        self.programmed = true;
        self
    }

    /// Runs this many pods at once, in every `every`-th round.
    pub fn at_once(mut self, times: usize, every: usize) -> Self {
        (self.at_once, self.every) = (times, every);
        self
    }

    /// Runs once in new namespaces. Creating them is not measured.
    pub fn run(&self, stage: &Stage, program: Program) -> Result<Taken> {
        let namespaces: Vec<Namespace> = (0..self.at_once).map(|_| Namespace::new()).collect();
        let calls = self.calls(stage, program, &namespaces)?;
        stage.api.clear_requests();
        let mut taken = match &calls[..] {
            [call] => measure::time(call, &stage.clock(), self.exit_code)?,
            calls => measure::time_at_once(calls, stage.binary(program), stage)?,
        };
        let (requests, connections) = (stage.api.requests().len(), stage.api.connections());
        let (received, sent) = stage.api.bytes();
        (taken.requests, taken.sent, taken.received) = (requests, received, sent);
        let wanted = (self.requests, self.requests.min(self.at_once));
        ensure!(
            program == Program::Peer || (requests, connections) == wanted,
            "{requests} requests on {connections} connections, expected {wanted:?}"
        );
        Ok(taken)
    }

    /// Runs once under strace, untimed, and counts system calls and processes.
    pub fn trace(&self, stage: &Stage, program: Program) -> Result<Option<Traced>> {
        if self.at_once > 1 {
            return Ok(None);
        }
        let namespace = [Namespace::new()];
        let calls = self.calls(stage, program, &namespace)?;
        let call = calls.first().context("one call")?;
        trace::count(call, stage).map(Some)
    }

    /// Prepares the namespaces and returns a call for each.
    pub fn calls(&self, stage: &Stage, program: Program, namespaces: &[Namespace]) -> Result<Vec<CniCall>> {
        if self.programmed {
            for namespace in namespaces {
                stage
                    .call(program, "ADD", namespace)
                    .pod("shop", "meshed")
                    .succeed()?;
            }
        }
        Ok(namespaces
            .iter()
            .map(|namespace| (self.call)(stage, program, namespace))
            .collect())
    }
}

/// Writes calls in the form the minimal baseline program reads.
pub fn write(calls: &[CniCall], stage: &Stage) -> Result<()> {
    for (n, call) in calls.iter().enumerate() {
        fs::write(stage.file(&format!("{n}.environment")), call.environment_lines())?;
        fs::write(stage.file(&format!("{n}.stdin")), call.input())?;
    }
    Ok(())
}
