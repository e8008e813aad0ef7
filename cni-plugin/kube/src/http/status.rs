//! Interprets a response: by its HTTP status first and its body second, since not every failure of an API server is a
//! `Status` object (a 429 is plain text, a 504 has no kind), and the response may be a proxy's.

use std::time::Duration;

use serde::Deserialize;

use super::request::Response;
use crate::{
    credentials::material::Material,
    error::{Class, Error},
    quote::one_line,
};

/// `kind: Status`, the API's own error.
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

/// Fails unless the request succeeded.
pub(crate) fn check(response: &Response, material: &Material) -> Result<(), Error> {
    if matches!(response.status, 200..=202) {
        return Ok(());
    }
    let status: Status = serde_json::from_slice(&response.body).unwrap_or_default();
    let in_body = status.details.as_ref().and_then(|d| d.retry_after_seconds);
    let retry_after = response.retry_after.or(in_body.map(Duration::from_secs));
    let quoted = quote(response, &status, material);
    let (class, cause) = classify(response.status, &status, &quoted);
    Err(Error::new(class, cause).after(retry_after))
}

/// Returns the kind of failure and the line for a person: cause, code with what the server said, and what to do.
fn classify(code: u16, status: &Status, quoted: &str) -> (Class, String) {
    let is_status = status.kind.as_deref() == Some("Status");
    let is_not_found = status.reason.as_deref() == Some("NotFound");
    let (class, cause, cure) = match code {
        300..=399 => (
            Class::NotKubernetes,
            "the server sent a redirect, which no API server does",
            "; check the server URL",
        ),
        400 if quoted.contains("HTTP request to an HTTPS server") => (
            Class::BadRequest,
            "the server expects TLS",
            "; use https:// in the kubeconfig",
        ),
        401 => (Class::Unauthorized, "the API server rejected the credential", ""),
        403 if quoted.contains("\"system:anonymous\"") => (
            Class::Anonymous,
            "the API server did not receive our credential",
            "; does a proxy strip it, or is the token of a kind that it does not support?",
        ),
        403 if is_status => (
            Class::Forbidden,
            "authenticated but not authorized",
            "; grant it via RBAC",
        ),
        403 => (
            Class::NotKubernetes,
            "a proxy or load balancer denied the request",
            "; check what is between this node and the API server",
        ),
        // An unknown path is a 404 in plain text; a missing object is a Status with its name.
        404 if is_status && is_not_found => (Class::NotFound, "it does not exist", ""),
        404 => (
            Class::NotKubernetes,
            "there is no API server at this URL",
            "; check the server URL",
        ),
        407 => (
            Class::Unreachable,
            "the proxy requires authentication",
            "; add user and password to proxy-url",
        ),
        408 => (Class::Server, "the request timed out on the server", ""),
        409 => (Class::Conflict, "conflict with another change", ""),
        429 => (Class::TooManyRequests, "the API server is overloaded", ""),
        500..=599 => (Class::Server, "the API server failed to serve the request", ""),
        _ => (Class::BadRequest, "the API server rejected the request", ""),
    };
    (class, format!("{cause} ({code}: {quoted}){cure}"))
}

/// Quotes the response as one short line without a secret.
fn quote(response: &Response, status: &Status, material: &Material) -> String {
    let text = match &status.message {
        Some(message) if !message.is_empty() => message.clone(),
        // Some errors of the API server have a reason and no message.
        _ if status.status.is_some() => match (&status.reason, &status.details) {
            (Some(reason), Some(Details { name: Some(name), .. })) => format!("{reason} {name}"),
            (Some(reason), _) => reason.clone(),
            _ => "no message".to_owned(),
        },
        _ => return quote_body(response, material),
    };
    line(&text, material)
}

/// Quotes the body of a response that is not a Status.
fn quote_body(response: &Response, material: &Material) -> String {
    let text = String::from_utf8_lossy(&response.body[..response.body.len().min(4096)]);
    if response.content_type.contains("html") || text.trim_start().starts_with('<') {
        let title = text
            .split_once("<title>")
            .and_then(|(_, rest)| rest.split_once("</title>"));
        return match title {
            Some((title, _)) => format!("an HTML page titled {:?}", line(title, material)),
            None => "an HTML page".to_owned(),
        };
    }
    match text.trim() {
        "" => "an empty response".to_owned(),
        text => line(text, material),
    }
}

/// Makes a text one line, without our secrets.
fn line(text: &str, material: &Material) -> String {
    if material.leaks_into(text) {
        return "not shown: it contains our credential".to_owned();
    }
    one_line(text)
}
