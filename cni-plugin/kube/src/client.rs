//! Questions to the API server, within one deadline.
//!
//! Every question goes through one function, `ask`: it asks, and on a failure either reads the files again (the token was
//! replaced, or the authority, after we had read it), pauses and asks again, or gives up, as `retry.rs` says.

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
        request::{Answer, Request},
        session::Session,
        status,
    },
    kubeconfig::Kubeconfig,
    log::Log,
    objects::pod::{self, Namespace, Pod},
};

/// The timeout that a request names, in parts of the time that is left. A busy API server keeps a request in its queue for
/// a quarter of that timeout (`getRequestWaitContext` of its priority and fairness) and then answers 429: by naming four
/// times as much we keep our place in the queue to our own end. It stops working for us when we close the connection.
const TIMEOUT: u32 = 4;

/// A door to the API server, open for one call.
pub struct Client {
    from: Origin,
    session: Session,
    settled: bool,
    began: Instant,
    wait: Wait,
    log: Log,
}

/// How long the client waits for answers.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    deadline: Deadline,
    has_fallback: bool,
}

impl Wait {
    /// Waits until the deadline, and gives up earlier where waiting is unlikely to help, since the caller can do
    /// without an answer.
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

/// Where the client's configuration is from.
enum Origin {
    /// A kubeconfig's path.
    File(PathBuf),
    /// A configuration made by the caller; files that it names are still read fresh.
    Made(Box<Kubeconfig>),
}

impl Client {
    /// Reads the kubeconfig at this path and every file it names. Nothing is sent yet.
    pub fn open(kubeconfig: &Path, wait: impl Into<Wait>, log: Log) -> Result<Self, Error> {
        Self::read(Origin::File(kubeconfig.to_owned()), wait.into(), log)
    }

    /// The same for a configuration that is not in a file, such as the installer's own.
    pub fn with(kubeconfig: Kubeconfig, wait: impl Into<Wait>, log: Log) -> Result<Self, Error> {
        Self::read(Origin::Made(Box::new(kubeconfig)), wait.into(), log)
    }

    fn read(from: Origin, wait: Wait, log: Log) -> Result<Self, Error> {
        let session = from.load(wait.deadline, log)?;
        Ok(Self {
            from,
            session,
            settled: false,
            began: Instant::now(),
            wait,
            log,
        })
    }

    /// The pod of this name. With a uid, the pod of this uid or [`Class::WrongUid`].
    ///
    /// Asked of the server's watch cache first (`resourceVersion=0`), which costs etcd nothing when a node starts all
    /// its pods at once. The cache may be behind: what it does not know, or knows under another uid, is asked of the
    /// store.
    pub fn pod(&mut self, namespace: &str, name: &str, uid: Option<&str>) -> Result<Pod, Error> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", segment(namespace), segment(name));
        let purpose = format!("get pod {namespace}/{name}");
        let cached = self.get(&path, "resourceVersion=0&", &purpose, pod::read_pod);
        match (&cached, uid) {
            (Ok(pod), None) => {
                self.log
                    .debug(format_args!("pod={namespace}/{name} uid={} from=cache", pod.uid));
                return cached;
            }
            (Ok(pod), Some(uid)) if pod.is(uid) => return cached,
            (Ok(_), Some(_)) => {}
            (Err(error), _) if error.class == Class::NotFound => {}
            (Err(_), _) => return cached,
        }
        self.log.debug(format_args!(
            "pod={namespace}/{name} ask=store because=cache-differs"
        ));
        let pod = self.get(&path, "", &purpose, pod::read_pod)?;
        match uid {
            Some(uid) if !pod.is(uid) => Err(Error::new(
                Class::WrongUid,
                format!(
                    "{purpose}: the runtime asks for the pod of uid {uid}, and the one of this name is {}: it was made \
                     anew; the runtime will come back for the new one",
                    pod.uid
                ),
            )),
            _ => Ok(pod),
        }
    }

    /// The namespace of this name.
    pub fn namespace(&mut self, name: &str) -> Result<Namespace, Error> {
        let path = format!("/api/v1/namespaces/{}", segment(name));
        self.get(
            &path,
            "resourceVersion=0&",
            &format!("get namespace {name}"),
            pod::read_namespace,
        )
    }

    /// The ports of Service `default/kubernetes`, with their integer target ports: where the API server is reached
    /// from a pod.
    pub fn api_service_ports(&mut self) -> Result<Vec<u16>, Error> {
        let path = "/api/v1/namespaces/default/services/kubernetes";
        self.get(
            path,
            "resourceVersion=0&",
            "get service default/kubernetes",
            pod::read_service_ports,
        )
    }

    fn get<T>(
        &mut self,
        path: &str,
        query: &str,
        purpose: &str,
        read: fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, Error> {
        let timeout = self.wait.deadline.left().saturating_mul(TIMEOUT).as_millis();
        let request = Request::get(format!("{path}?{query}timeout={timeout}ms"), purpose);
        self.request(&request, read)
    }

    /// Sends a request and reads the object in the answer with `read`, which says what the bytes are instead if they are
    /// not that object ([`Class::NotKubernetes`]).
    pub fn request<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, Error> {
        let answer = self.ask(request)?;
        read(&answer.body).map_err(|cause| {
            let message = format!("the answer is not the object ({cause}); is the server's URL right?");
            Error::new(Class::NotKubernetes, message).context(&self.said(request))
        })
    }

    /// Asks until there is an answer that says yes, or a failure that more asking does not change.
    fn ask(&mut self, request: &Request<'_>) -> Result<Answer, Error> {
        let mut retry = Retry::new(self.settled, self.wait.has_fallback);
        let mut asked = 0;
        let mut told: Option<Error> = None;
        let (spent, given) = (self.began.elapsed(), self.wait.deadline.left());
        loop {
            asked += 1;
            let answer = self.session.ask(request, self.wait.deadline);
            let answer = answer.and_then(|a| status::check(&a, &self.session.material).map(|()| a));
            let error = match answer {
                Ok(answer) => {
                    self.settled = true;
                    return Ok(answer);
                }
                Err(error) => error,
            };
            match retry.next(&error, self.began.elapsed(), self.wait.deadline.left(), chance()) {
                Next::ReadAgain if self.read_again() => {
                    self.log.info(format_args!(
                        "retry=at-once because=files-changed after={:?}",
                        error.class
                    ));
                }
                Next::Pause(pause) => {
                    self.log.debug(format_args!(
                        "retry-in={}ms because={:?}",
                        pause.as_millis(),
                        error.class
                    ));
                    thread::sleep(pause);
                    // The first wait is the one that was long enough to say something.
                    if error.class != Class::Timeout || told.is_none() {
                        told = Some(error);
                    }
                }
                Next::ReadAgain | Next::GiveUp => {
                    let error = self.explain(error, told);
                    let error = match asked {
                        1 if error.class == Class::Timeout && spent > given => {
                            error.and(format_args!("what was asked before had taken {spent:.1?}"))
                        }
                        1 => error,
                        _ => error.and(format_args!(
                            "asked {asked} times in {:.1?}",
                            self.began.elapsed()
                        )),
                    };
                    return Err(error.context(&self.said(request)));
                }
            }
        }
    }

    /// Reads every file once more; true when they hold something else now. A file that cannot be read now changes
    /// nothing: the failure at hand says more.
    fn read_again(&mut self) -> bool {
        match self.from.load(self.wait.deadline, self.log) {
            Ok(session) if session.material != self.session.material => {
                self.session = session;
                true
            }
            _ => false,
        }
    }

    /// The failure to report: with an earlier cause, where all the last one says is that the time ran out; and a 401
    /// with what our credential says of itself, since the server never says why.
    fn explain(&self, last: Error, earlier: Option<Error>) -> Error {
        match (last.class, earlier) {
            (Class::Timeout, Some(earlier)) => earlier,
            (Class::Unauthorized, _) => {
                let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                last.and(self.session.material.why_refused(clock::now(), host.trim()))
            }
            _ => last,
        }
    }

    fn said(&self, request: &Request<'_>) -> String {
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
            Self::Made(kubeconfig) => load(kubeconfig),
        }
    }
}

/// A name as one segment of a path. Kubernetes names need no escape; what is not such a name must not become another
/// path.
pub fn segment(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b':');
    let dots = name.bytes().all(|b| b == b'.');
    name.bytes()
        .map(|b| {
            if plain(b) && !dots {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

/// A number from 0 to 1, another one each time: it spreads what many nodes would do at once.
pub fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}
