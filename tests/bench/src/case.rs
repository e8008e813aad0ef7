//! A case: what is run, what it is held against, and what was promised of it.

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
    /// What it is called there.
    pub name: &'static str,
    /// The baseline it is divided by, and the most that may come of it.
    pub baseline: Option<(&'static str, f64)>,
    /// The most that its wall time and its CPU time may be of linkerd-cni's on the same input.
    pub peer: Option<Shares>,
    /// linkerd-cni when it was last run beside ours: CPU ms, peak MiB.
    pub quoted: Option<[f64; 2]>,
    /// True when linkerd-cni knows this job too.
    pub has_peer: bool,
    /// How many calls run at once.
    pub at_once: usize,
    /// It is run in one round of so many.
    pub every: usize,
    exit_code: i32,
    requests: usize,
    programmed: bool,
    call: Call,
}

/// Parts of linkerd-cni's time.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// None where the wall time is not ours: the kernel's, or a pause we mean to make.
    pub wall: Option<f64>,
    /// User and system time.
    pub cpu: f64,
}

/// Makes the call of this program in this namespace.
pub type Call = fn(&Stage, Program, &Namespace) -> CniCall;

impl Case {
    /// A call that ends well, asks nothing and is held against nothing.
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

    /// A program that is a measure and not measured.
    pub fn baseline(name: &'static str, requests: usize, call: Call) -> Self {
        Self {
            has_peer: false,
            requests,
            ..Self::new(name, call)
        }
    }

    /// Promised: at most so many times this baseline.
    pub fn at_most(mut self, times: f64, baseline: &'static str) -> Self {
        self.baseline = Some((baseline, times));
        self
    }

    /// Promised: at most this part of linkerd-cni's wall and CPU time.
    pub fn of_peer(mut self, share: f64) -> Self {
        self.peer = Some(Shares {
            wall: Some(share),
            cpu: share,
        });
        self
    }

    /// Promised: at most this part of linkerd-cni's CPU time, and this one, if any, of its wall time.
    pub fn of_peers_cpu(mut self, cpu: f64, wall: Option<f64>) -> Self {
        self.peer = Some(Shares { wall, cpu });
        self
    }

    /// linkerd-cni's figures when it was last run beside ours.
    pub fn quoted(mut self, cpu: f64, peak: f64) -> Self {
        self.quoted = Some([cpu, peak]);
        self
    }

    /// The API server must see exactly so many requests.
    pub fn asks(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// It must end with exit code 1.
    pub fn fails(mut self) -> Self {
        self.exit_code = 1;
        self
    }

    /// The rules are there already.
    pub fn programmed(mut self) -> Self {
        self.programmed = true;
        self
    }

    /// So many pods at once, in one round of `every`.
    pub fn at_once(mut self, times: usize, every: usize) -> Self {
        (self.at_once, self.every) = (times, every);
        self
    }

    /// One run in namespaces that nobody has touched. Making them is not measured.
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
            "{requests} requests on {connections} connections, not {wanted:?}"
        );
        Ok(taken)
    }

    /// One run that is followed and not timed: its system calls and processes.
    pub fn trace(&self, stage: &Stage, program: Program) -> Result<Option<Traced>> {
        if self.at_once > 1 {
            return Ok(None);
        }
        let namespace = [Namespace::new()];
        let calls = self.calls(stage, program, &namespace)?;
        let call = calls.first().context("one call")?;
        trace::count(call, stage).map(Some)
    }

    /// The calls, one for each namespace, which is made ready for it.
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

/// Writes calls as the minimal baseline program reads them, one after the other.
pub fn write(calls: &[CniCall], stage: &Stage) -> Result<()> {
    for (n, call) in calls.iter().enumerate() {
        fs::write(stage.file(&format!("{n}.environment")), call.environment_lines())?;
        fs::write(stage.file(&format!("{n}.stdin")), call.input())?;
    }
    Ok(())
}
