//! Where things are in a JSON text. Values are found, not decoded, so that what we do not own stays byte for byte.
//!
//! Accepts what the runtimes' decoder (Go's `encoding/json`) accepts: RFC 8259, and bytes in strings that are not UTF-8.
//! Of members with the same name the last one counts, as there.

use std::{fmt, ops::Range};

/// From the first byte of a value to the one behind its last.
pub type Span = Range<usize>;

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJson {
    at: usize,
    wanted: &'static str,
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, decoded.
    pub name: String,
    /// Where its value is.
    pub value: Span,
}

/// The one value of a text, with nothing but space around it.
pub fn document(text: &[u8]) -> Result<Span, NotJson> {
    let mut scanner = Scanner { text, at: 0 };
    let value = scanner.value()?;
    scanner.space();
    if scanner.at < text.len() {
        scanner.refuse("nothing more")
    } else {
        Ok(value)
    }
}

/// The members of an object that [`document`] has accepted; none when it is something else.
pub fn members(text: &[u8], object: &Span) -> Vec<Member> {
    let mut found = Vec::new();
    each(text, object, b'{', |scanner| {
        let name = scanner.value()?;
        scanner.space();
        scanner.byte(b':', "':'")?;
        found.push(Member {
            name: string(text, &name).unwrap_or_default(),
            value: scanner.value()?,
        });
        Ok(())
    });
    found
}

/// The elements of an array that [`document`] has accepted; none when it is something else.
pub fn elements(text: &[u8], array: &Span) -> Vec<Span> {
    let mut found = Vec::new();
    each(text, array, b'[', |scanner| {
        found.push(scanner.value()?);
        Ok(())
    });
    found
}

/// The value of the member with this name, the last one if there are several.
pub fn member(text: &[u8], object: &Span, name: &str) -> Option<Span> {
    members(text, object)
        .into_iter()
        .rfind(|m| m.name == name)
        .map(|m| m.value)
}

/// A string's content; None when the value is not a string.
pub fn string(text: &[u8], value: &Span) -> Option<String> {
    let raw = text.get(value.clone())?;
    raw.starts_with(b"\"")
        .then(|| serde_json::from_str(&String::from_utf8_lossy(raw)).ok())?
}

/// True when the value begins with this byte: `{`, `[`, `"`.
pub fn is(text: &[u8], value: &Span, first: u8) -> bool {
    text.get(value.start) == Some(&first)
}

fn each(
    text: &[u8],
    container: &Span,
    opening: u8,
    mut item: impl FnMut(&mut Scanner<'_>) -> Result<(), NotJson>,
) {
    if !is(text, container, opening) {
        return;
    }
    let inner = text.get(..container.end.saturating_sub(1)).unwrap_or_default();
    let mut scanner = Scanner {
        text: inner,
        at: container.start + 1,
    };
    loop {
        scanner.space();
        if scanner.at >= inner.len() || item(&mut scanner).is_err() {
            return;
        }
        scanner.space();
        if scanner.byte(b',', "','").is_err() {
            return;
        }
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// One value with all that is in it. Keeps its own stack: a file of somebody else's must not overflow ours.
    fn value(&mut self) -> Result<Span, NotJson> {
        self.space();
        let start = self.at;
        let mut open: Vec<u8> = Vec::new();
        loop {
            self.space();
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.space();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open.push(b'}');
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    self.space();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open.push(b']');
                        continue;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return self.refuse("a value"),
            }
            if !self.closed(&mut open)? {
                continue;
            }
            return Ok(start..self.at);
        }
    }

    /// After a value: closes what ends here. True when nothing is open any more, false when a value follows.
    fn closed(&mut self, open: &mut Vec<u8>) -> Result<bool, NotJson> {
        while let Some(closing) = open.last().copied() {
            self.space();
            if self.peek() == Some(closing) {
                self.at += 1;
                open.pop();
                continue;
            }
            self.byte(b',', "',' or the end of the list or object")?;
            if closing == b'}' {
                self.name()?;
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn name(&mut self) -> Result<(), NotJson> {
        self.space();
        if self.peek() != Some(b'"') {
            return self.refuse("a name in quotes");
        }
        self.string()?;
        self.space();
        self.byte(b':', "':'")
    }

    fn string(&mut self) -> Result<(), NotJson> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                        Some(b'u') => {
                            let digits = self.text.get(self.at + 1..self.at + 5);
                            if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
                                return self.refuse("four hexadecimal digits");
                            }
                            self.at += 4;
                        }
                        _ => return self.refuse("an escape"),
                    }
                }
                Some(0x20..) => {}
                _ => return self.refuse("the end of a string"),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.refuse("a digit");
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), NotJson> {
        if !self
            .text
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word))
        {
            return self.refuse("a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn byte(&mut self, byte: u8, wanted: &'static str) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return self.refuse(wanted);
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn refuse<T>(&self, wanted: &'static str) -> Result<T, NotJson> {
        Err(NotJson { at: self.at, wanted })
    }
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not JSON: {} expected at byte {}", self.wanted, self.at)
    }
}

impl std::error::Error for NotJson {}

#[cfg(test)]
mod tests;
