//! What an answer means: by its HTTP status first, by its body second, since not every failure of an API server is a
//! `Status` object (a 429 is plain text, a 504 has no kind), and what answers may be a proxy on the way.

use std::time::Duration;

use serde::Deserialize;

use super::request::Answer;
use crate::{
    credentials::material::Material,
    error::{Class, Error},
    quote::one_line,
};

/// `kind: Status`, the API's own way to say no.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    kind: Option<String>,
    status: Option<String>,
    message: Option<String>,
    reason: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    name: Option<String>,
    retry_after_seconds: Option<u64>,
}

/// Fails unless the answer is the object that was asked for.
pub(crate) fn check(answer: &Answer, material: &Material) -> Result<(), Error> {
    if matches!(answer.status, 200..=202) {
        return Ok(());
    }
    let status: Status = serde_json::from_slice(&answer.body).unwrap_or_default();
    let asked = status.details.as_ref().and_then(|d| d.retry_after_seconds);
    let retry_after = answer.retry_after.or(asked.map(Duration::from_secs));
    let said = said(answer, &status, material);
    let (class, cause) = meaning(answer.status, &status, &said);
    Err(Error::new(class, cause).after(retry_after))
}

/// What kind of failure it is, and the line for a person.
fn meaning(code: u16, status: &Status, said: &str) -> (Class, String) {
    let is_status = status.kind.as_deref() == Some("Status");
    match code {
        300..=399 => (
            Class::NotKubernetes,
            format!("answered with a redirect ({code}), as no API server does; is the server's URL right?"),
        ),
        400 if said.contains("HTTP request to an HTTPS server") => (
            Class::BadRequest,
            "the server speaks TLS (400); write https:// in the kubeconfig".to_owned(),
        ),
        401 => (
            Class::Unauthorized,
            format!("the API server does not take our credential (401 {said})"),
        ),
        403 => forbidden(is_status, said),
        // An unknown path is answered in plain text; an object that does not exist, by a Status with its name.
        404 if is_status && status.reason.as_deref() == Some("NotFound") => (
            Class::NotFound,
            format!("it does not exist, or no longer (404: {said})"),
        ),
        404 => (
            Class::NotKubernetes,
            format!("no API server is under this URL (404: {said}); is the server's URL right?"),
        ),
        407 => (
            Class::Unreachable,
            format!("the proxy wants to know who we are (407: {said})"),
        ),
        408 => (
            Class::Server,
            format!("the request took the server too long (408: {said})"),
        ),
        409 => (
            Class::Conflict,
            format!("something was changed meanwhile (409: {said})"),
        ),
        429 => (
            Class::TooManyRequests,
            format!("the API server has too much to do (429: {said})"),
        ),
        500..=599 => (
            Class::Server,
            format!("the API server cannot answer now ({code}: {said})"),
        ),
        _ => (
            Class::BadRequest,
            format!("the API server refuses the request ({code}: {said})"),
        ),
    }
}

/// Who refused us: the API server, because it does not see our credential or because of what we may, or somebody else.
fn forbidden(is_status: bool, said: &str) -> (Class, String) {
    if said.contains("\"system:anonymous\"") {
        let cause = format!(
            "no credential of ours reached the API server (403: {said}); is there a proxy that drops it, or is the \
             token of another form?"
        );
        return (Class::Anonymous, cause);
    }
    if is_status {
        let cause = format!(
            "the API server knows us and does not allow it (403: {said}); give this identity the right, by RBAC"
        );
        return (Class::Forbidden, cause);
    }
    (
        Class::NotKubernetes,
        format!("something on the way refused us (403: {said})"),
    )
}

/// What the answer says, as one short line without a secret.
fn said(answer: &Answer, status: &Status, material: &Material) -> String {
    let text = match &status.message {
        Some(message) if !message.is_empty() => message.clone(),
        // Some errors of the API server have a reason and no message.
        _ if status.status.is_some() => match (&status.reason, &status.details) {
            (Some(reason), Some(Details { name: Some(name), .. })) => format!("{reason} {name}"),
            (Some(reason), _) => reason.clone(),
            _ => "no message".to_owned(),
        },
        _ => return foreign(answer, material),
    };
    line(&text, material)
}

/// What somebody says who is no API server.
fn foreign(answer: &Answer, material: &Material) -> String {
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(4096)]);
    if answer.content_type.contains("html") || text.trim_start().starts_with('<') {
        let title = text
            .split_once("<title>")
            .and_then(|(_, rest)| rest.split_once("</title>"));
        return match title {
            Some((title, _)) => format!("an HTML page titled {:?}", line(title, material)),
            None => "an HTML page".to_owned(),
        };
    }
    match text.trim() {
        "" => "an empty answer".to_owned(),
        text => line(text, material),
    }
}

/// One line without a secret of ours.
fn line(text: &str, material: &Material) -> String {
    if material.leaks_into(text) {
        return "not shown, because it repeats our credential".to_owned();
    }
    one_line(text)
}
