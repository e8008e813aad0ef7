//! What goes back: a status, headers, a body, and how it is paced. The bodies are Kubernetes' own.

use std::time::Duration;

use serde_json::Value;

/// One HTTP answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// Headers besides those every answer has (`Date`, the length).
    pub headers: Vec<(String, String)>,
    /// The body as it is sent.
    pub body: Vec<u8>,
    /// How the client is told where the body ends.
    pub framing: Framing,
    /// When the bytes are sent.
    pub pace: Pace,
    /// Ends the connection after it.
    pub close: bool,
}

/// How the client is told where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// As Go's server does: `Content-Length` up to 2048 bytes, chunks above.
    Go,
    /// `Content-Length`
    Length,
    /// Chunks of 4096 bytes.
    Chunked,
    /// Chunks, without the last one: the connection just ends.
    CutChunks,
    /// Nothing: the body ends where the connection does, and TLS says no goodbye.
    UntilClose,
}

/// When the bytes of an answer are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    AtOnce,
    /// At once, after a pause.
    After(Duration),
    /// Not at all: the client waits.
    Never,
    /// Head and this many bytes of the body, then nothing more.
    StallAfter(usize),
    /// Head and this many bytes of the body, then the connection is reset.
    ResetAfter(usize),
    /// Reset before any byte of the answer.
    Reset,
    /// One byte of the body at a time, with this pause after each.
    Trickle(Duration),
}

/// A scripted answer: to what, and how often still.
#[derive(Debug)]
pub(crate) struct Script {
    method: String,
    path: String,
    answer: Answer,
    left: Option<usize>,
}

impl Answer {
    /// A JSON answer, with the newline Kubernetes ends each with.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::encoded(status, body.to_string() + "\n")
    }

    /// JSON text as it is.
    pub fn encoded(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, body)
            .with_header("Cache-Control", "no-cache, private")
            .with_header("Content-Type", "application/json")
    }

    /// Plain text, as Go's `http.Error` sends it.
    pub fn text(status: u16, body: &str) -> Self {
        Self::new(status, body)
            .with_header("Content-Type", "text/plain; charset=utf-8")
            .with_header("X-Content-Type-Options", "nosniff")
    }

    /// A page, as a load balancer or proxy on the way sends it.
    pub fn html(status: u16, body: &str) -> Self {
        Self::new(status, body).with_header("Content-Type", "text/html")
    }

    /// A status and a body with no header of its own.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            framing: Framing::Go,
            pace: Pace::AtOnce,
            close: false,
        }
    }

    /// A `Status` object as the API server writes it: keys in its order, `<>&` escaped. `details` is JSON or empty.
    pub fn status(code: u16, message: &str, reason: &str, details: &str) -> Self {
        let quoted = |s: &str| {
            let json = Value::from(s).to_string();
            json.replace('<', "\\u003c")
                .replace('>', "\\u003e")
                .replace('&', "\\u0026")
        };
        let mut body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{}"#,
            quoted(message)
        );
        if !reason.is_empty() {
            body += &format!(r#","reason":{}"#, quoted(reason));
        }
        if !details.is_empty() {
            body += &format!(r#","details":{details}"#);
        }
        body += &format!(r#","code":{code}}}"#);
        Self::encoded(code, body + "\n")
    }

    /// What every refused credential gets: expired, revoked, of another audience, or plain garbage.
    pub fn unauthorized() -> Self {
        Self::status(401, "Unauthorized", "Unauthorized", "")
    }

    /// 404 for an object.
    pub fn not_found(resource: &str, name: &str) -> Self {
        let details = serde_json::json!({"name": name, "kind": resource}).to_string();
        Self::status(
            404,
            &format!("{resource} \"{name}\" not found"),
            "NotFound",
            &details,
        )
    }

    /// 429 of API priority and fairness or of the in-flight limit: plain text.
    pub fn too_many_requests(retry_after: u32) -> Self {
        Self::text(429, "Too many requests, please try again later.\n")
            .with_header("Retry-After", &retry_after.to_string())
    }

    /// 503 of a server that is going down.
    pub fn shutting_down() -> Self {
        let mut answer = Self::status(503, "apiserver is shutting down", "ServiceUnavailable", "");
        answer.body.push(b'\n');
        answer.with_header("Retry-After", "1")
    }

    /// 504 of the server's own request deadline, which has no kind and no content type.
    pub fn timed_out() -> Self {
        let body = concat!(
            r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted "#,
            r#"timeout","reason":"Timeout","details":{},"code":504}"#
        );
        Self::new(504, body)
    }

    /// The same answer with one header more.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same answer at another pace.
    #[must_use]
    pub fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The same answer in another framing.
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// The same answer, the last on its connection.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.close = true;
        self
    }
}

impl Script {
    pub(crate) fn new(method: &str, path: &str, answer: Answer, left: Option<usize>) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            answer,
            left,
        }
    }
}

/// The answer of the first script that matches; one that was used up is gone.
pub(crate) fn next(scripts: &mut Vec<Script>, method: &str, path: &str) -> Option<Answer> {
    scripts.retain(|s| s.left != Some(0));
    let script = scripts
        .iter_mut()
        .find(|s| s.method == method && (s.path == "*" || s.path == path))?;
    if let Some(left) = &mut script.left {
        *left -= 1;
    }
    Some(script.answer.clone())
}
