//! The cases: what is run, what it is held against, and what was promised.

use anyhow::{Result, ensure};
use evergreen_test_support::{netns::Namespace, run::CniCall};
use serde_json::{Value, json};

use crate::{
    measure::{self, Taken},
    stage::Stage,
};

/// The floor of a call that needs no network: a process that does nothing.
pub const NOTHING: &str = "floor: nothing";
/// The floor of a call that asks the API server: one HTTPS GET.
pub const GET: &str = "floor: one HTTPS GET";

/// One line of the table.
pub struct Case {
    /// What it is called there.
    pub name: &'static str,
    /// The case it is divided by, and the most that may come of it.
    pub against: Option<(&'static str, f64)>,
    /// Requests that the API server must see for one run.
    requests: usize,
    call: fn(&Stage, &Namespace) -> CniCall,
}

impl Case {
    /// All of them, the floors first.
    pub fn all() -> Vec<Self> {
        vec![
            Self {
                name: NOTHING,
                against: None,
                requests: 0,
                call: nothing,
            },
            Self {
                name: GET,
                against: None,
                requests: 1,
                call: get,
            },
            Self {
                name: "VERSION",
                against: Some((NOTHING, 2.0)),
                requests: 0,
                call: |s, n| s.call("VERSION", n.path()),
            },
            Self {
                name: "STATUS",
                against: Some((NOTHING, 2.0)),
                requests: 0,
                call: |s, n| s.call("STATUS", n.path()),
            },
            Self {
                name: "DEL, unprogrammed",
                against: Some((NOTHING, 2.0)),
                requests: 0,
                call: |s, n| s.call("DEL", n.path()),
            },
            Self {
                name: "ADD unmeshed, asked",
                against: Some((GET, 1.5)),
                requests: 1,
                call: |s, n| pod(s, n, "plain", Value::Null),
            },
            Self {
                name: "ADD unmeshed, annotations",
                against: Some((NOTHING, 2.0)),
                requests: 0,
                call: |s, n| pod(s, n, "plain", json!({"kubernetes.io/config.source": "api"})),
            },
            Self {
                name: "ADD meshed",
                against: Some((GET, 2.5)),
                requests: 1,
                call: |s, n| pod(s, n, "meshed", Value::Null),
            },
        ]
    }

    /// One run in a namespace that nobody has touched. Making it is not measured.
    pub fn run(&self, stage: &Stage) -> Result<Taken> {
        let namespace = Namespace::new();
        stage.api.clear_requests();
        let taken = measure::time(&(self.call)(stage, &namespace), &stage.floor, 0)?;
        let (requests, connections) = (stage.api.requests().len(), stage.api.connections());
        let wanted = (self.requests, self.requests.min(1));
        ensure!(
            (requests, connections) == wanted,
            "{requests} requests on {connections} connections, not {wanted:?}"
        );
        Ok(taken)
    }
}

fn nothing(stage: &Stage, _: &Namespace) -> CniCall {
    CniCall::bare(&stage.floor).argument("nothing")
}

fn get(stage: &Stage, _: &Namespace) -> CniCall {
    CniCall::bare(&stage.floor)
        .argument("get")
        .argument(stage.api.address().to_string())
        .argument(stage.file("ca.crt"))
        .argument(stage.file("token"))
        .argument("/api/v1/namespaces/shop/pods/meshed?resourceVersion=0")
}

fn pod(stage: &Stage, namespace: &Namespace, name: &str, annotations: Value) -> CniCall {
    stage
        .call("ADD", namespace.path())
        .pod("shop", name)
        .netconf(&stage.netconf(annotations))
}
