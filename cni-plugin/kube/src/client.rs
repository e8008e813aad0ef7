//! Requests to the API server within one deadline.
//!
//! Every request goes through [`Client::send`]. After a failure it reads the credential files again (token or CA may have
//! been replaced since), retries after a pause, or gives up, as `client/retry.rs` decides.

mod retry;

use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use self::retry::{Next, Retry};
use crate::{
    clock,
    credentials::material::Material,
    deadline::Deadline,
    error::{Class, Error},
    http::{
        request::{Request, Response, segment},
        session::Session,
        status,
    },
    kubeconfig::Kubeconfig,
    log::Log,
    objects::pod::{self, Namespace, Pod},
};

/// The `timeout` parameter of a request, as a multiple of the time that is left. A busy API server queues a request for a
/// quarter of its timeout (`getRequestWaitContext` of priority and fairness) and then answers 429: four times the time
/// keeps our place in the queue to the end. The server drops the request when we close the connection.
const TIMEOUT_FACTOR: u32 = 4;

/// A client of the API server, for one call.
pub struct Client {
    origin: Origin,
    session: Session,
    /// The server has allowed us something.
    authorized: bool,
    began: Instant,
    wait: Wait,
    log: Log,
}

/// How long the client waits for responses.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    deadline: Deadline,
    has_fallback: bool,
}

/// Where the client's configuration comes from.
enum Origin {
    /// A kubeconfig file.
    File(PathBuf),
    /// A configuration of the caller; files that it names are still read again.
    Value(Box<Kubeconfig>),
}

impl Wait {
    /// Waits until the deadline, and gives up earlier where waiting is unlikely to help: the caller can do without an
    /// response.
    pub fn with_fallback(deadline: Deadline) -> Self {
        Self {
            deadline,
            has_fallback: true,
        }
    }
}

impl From<Deadline> for Wait {
    fn from(deadline: Deadline) -> Self {
        Self {
            deadline,
            has_fallback: false,
        }
    }
}

impl Client {
    /// Reads the kubeconfig at this path and every file it names. Sends nothing yet.
    pub fn open(kubeconfig: &Path, wait: impl Into<Wait>, log: Log) -> Result<Self, Error> {
        Self::load(Origin::File(kubeconfig.to_owned()), wait.into(), log)
    }

    /// The same for a configuration that is not in a file, such as the installer's own.
    pub fn with(kubeconfig: Kubeconfig, wait: impl Into<Wait>, log: Log) -> Result<Self, Error> {
        Self::load(Origin::Value(Box::new(kubeconfig)), wait.into(), log)
    }

    fn load(origin: Origin, wait: Wait, log: Log) -> Result<Self, Error> {
        Ok(Self {
            session: origin.load(wait.deadline, log)?,
            origin,
            authorized: false,
            began: Instant::now(),
            wait,
            log,
        })
    }

    /// Reads the pod of this name; with a UID, that very pod or [`Class::WrongUid`].
    ///
    /// Asks the API server's watch cache first (`resourceVersion=0`), which costs etcd nothing when a node starts all its
    /// pods at once. The cache may be behind: if it has no such pod, or one of another UID, the store is asked.
    pub fn pod(&mut self, namespace: &str, name: &str, uid: Option<&str>) -> Result<Pod, Error> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", segment(namespace), segment(name));
        let purpose = format!("get pod {namespace}/{name}");
        let full_name = format!("{namespace}/{name}");
        let cached = self.get(&path, "resourceVersion=0&", &purpose, pod::read_pod);
        match (&cached, uid) {
            (Ok(pod), None) => {
                self.log
                    .with(&[("pod", &full_name), ("uid", &pod.uid)])
                    .debug("pod read from the watch cache");
                return cached;
            }
            (Ok(pod), Some(uid)) if pod.is(uid) => return cached,
            (Ok(_), Some(_)) => {}
            (Err(error), _) if error.class == Class::NotFound => {}
            (Err(_), _) => return cached,
        }
        self.log
            .with(&[("pod", &full_name)])
            .debug("pod not in the watch cache, asking the store");
        let pod = self.get(&path, "", &purpose, pod::read_pod)?;
        match uid {
            Some(uid) if !pod.is(uid) => Err(Error::new(
                Class::WrongUid,
                format!(
                    "{purpose}: the runtime asks for UID {uid}, but the pod of this name has UID {}: it was recreated; \
                     the runtime will call again for the new pod",
                    pod.uid
                ),
            )),
            _ => Ok(pod),
        }
    }

    /// Reads the namespace of this name.
    pub fn namespace(&mut self, name: &str) -> Result<Namespace, Error> {
        let path = format!("/api/v1/namespaces/{}", segment(name));
        let purpose = format!("get namespace {name}");
        self.get(&path, "resourceVersion=0&", &purpose, pod::read_namespace)
    }

    /// Reads the ports of Service `default/kubernetes` and their numeric target ports: where pods reach the API server.
    pub fn api_service_ports(&mut self) -> Result<Vec<u16>, Error> {
        let path = "/api/v1/namespaces/default/services/kubernetes";
        let purpose = "get service default/kubernetes";
        self.get(path, "resourceVersion=0&", purpose, pod::read_service_ports)
    }

    fn get<T>(
        &mut self,
        path: &str,
        query: &str,
        purpose: &str,
        read: fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, Error> {
        let left = self.wait.deadline.left();
        let timeout = left.saturating_mul(TIMEOUT_FACTOR).as_millis();
        let request = Request::get(format!("{path}?{query}timeout={timeout}ms"), purpose);
        self.request(&request, read)
    }

    /// Sends a request and reads the object in the response with `read`, whose error says what the bytes are instead
    /// ([`Class::NotKubernetes`]).
    pub fn request<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, Error> {
        let response = self.send(request)?;
        read(&response.body).map_err(|cause| {
            let message = format!("the response is not the requested object ({cause}); check the server URL");
            Error::new(Class::NotKubernetes, message).context(&self.context(request))
        })
    }

    /// Sends the request until it succeeds, or fails in a way that a retry does not change.
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Error> {
        let mut retry = Retry::new(self.authorized, self.wait.has_fallback);
        let mut attempts = 0;
        let mut earlier: Option<Error> = None;
        let (spent, left) = (self.began.elapsed(), self.wait.deadline.left());
        loop {
            attempts += 1;
            let response = self.session.send(request, self.wait.deadline);
            let response = response.and_then(|a| status::check(&a, &self.session.material).map(|()| a));
            let error = match response {
                Ok(response) => {
                    self.authorized = true;
                    return Ok(response);
                }
                Err(error) => error,
            };
            let class = error.class;
            match retry.next(&error, self.began.elapsed(), self.wait.deadline.left(), chance()) {
                Next::ReadAgain if self.read_again() => {
                    self.log
                        .with(&[("class", &class)])
                        .info("credential files changed, retrying at once");
                }
                Next::Pause(pause) => {
                    self.log
                        .with(&[
                            ("class", &class),
                            ("delay", &format_args!("{}ms", pause.as_millis())),
                        ])
                        .debug("retrying after a pause");
                    thread::sleep(pause);
                    // Of several timeouts the first says most: it waited longest.
                    if class != Class::Timeout || earlier.is_none() {
                        earlier = Some(error);
                    }
                }
                Next::ReadAgain | Next::GiveUp => {
                    let error = self.explain(error, earlier);
                    let error = match attempts {
                        1 if error.class == Class::Timeout && spent > left => {
                            error.hint(format_args!("earlier requests took {spent:.1?}"))
                        }
                        1 => error,
                        _ => error.hint(format_args!(
                            "{attempts} attempts in {:.1?}",
                            self.began.elapsed()
                        )),
                    };
                    return Err(error.context(&self.context(request)));
                }
            }
        }
    }

    /// Reads every file again; returns true if they have changed. A file that cannot be read now changes nothing: the
    /// failure at hand says more.
    fn read_again(&mut self) -> bool {
        match self.origin.load(self.wait.deadline, self.log) {
            Ok(session) if session.material != self.session.material => {
                self.session = session;
                true
            }
            _ => false,
        }
    }

    /// Returns the failure to report: an earlier one if the last one is only a timeout; a 401 with what the credential
    /// says about itself, since the server never gives a reason.
    fn explain(&self, last: Error, earlier: Option<Error>) -> Error {
        match (last.class, earlier) {
            (Class::Timeout, Some(earlier)) => earlier,
            (Class::Unauthorized, _) => {
                let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                last.hint(self.session.material.explain_rejection(clock::now(), host.trim()))
            }
            _ => last,
        }
    }

    fn context(&self, request: &Request<'_>) -> String {
        format!("{} ({})", request.purpose, self.session.url(request))
    }
}

impl Origin {
    fn load(&self, deadline: Deadline, log: Log) -> Result<Session, Error> {
        let load = |kubeconfig: &Kubeconfig| {
            let material = Material::read(kubeconfig, deadline, log)?;
            Session::new(kubeconfig, material, log)
        };
        match self {
            Self::File(path) => {
                let kubeconfig = Kubeconfig::read(path)?;
                load(&kubeconfig).map_err(|e| e.context(&format!("kubeconfig {}", path.display())))
            }
            Self::Value(kubeconfig) => load(kubeconfig),
        }
    }
}

/// Returns a random number from 0 to 1: it spreads what many nodes would do at once.
pub fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}
