//! A bearer token as it was read, checked before it becomes a header.

use crate::{
    error::{Class, Error},
    source::Secret,
};

/// A token without the white space around it: a file usually ends in a newline, which no header may hold.
pub fn parse(bytes: &[u8], from: &str) -> Result<Secret, Error> {
    let token = bytes.trim_ascii();
    if token.is_empty() {
        return Err(Error::new(
            Class::Credential,
            format!("token file {from} is empty; the installer writes it: see its log on this node"),
        ));
    }
    if !token.iter().all(u8::is_ascii_graphic) {
        return Err(Error::new(
            Class::Credential,
            format!(
                "token file {from} holds something that is not one token (white space or a control character inside)"
            ),
        ));
    }
    Ok(Secret::new(token))
}
