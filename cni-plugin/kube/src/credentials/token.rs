//! A bearer token as it was read, checked before it is sent as a header.

use crate::{
    error::{Class, Error},
    source::Secret,
};

/// Checks a token and trims the white space around it: a file usually ends in a newline, which no header may contain.
/// `source` names where it is from, for the error.
pub fn parse(bytes: &[u8], source: &str) -> Result<Secret, Error> {
    let token = bytes.trim_ascii();
    let problem = if token.is_empty() {
        "is empty; the installer writes it: check its log on this node"
    } else if !token.iter().all(u8::is_ascii_graphic) {
        "is malformed: it contains white space or control characters"
    } else {
        return Ok(Secret::new(token));
    };
    let message = format!("token from {source} {problem}");
    Err(Error::new(Class::Credential, message))
}
