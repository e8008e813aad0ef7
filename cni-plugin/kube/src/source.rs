//! Where bytes of a kubeconfig come from: a file read now, or the kubeconfig itself. And secrets, which do not print.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{
    error::{Class, Error},
    file,
};

/// No kubeconfig, token or bundle is larger, in bytes; a wrong path may lead to something that is.
const LIMIT: u64 = 4 << 20;

/// Text or bytes that must not appear in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Bytes that the kubeconfig holds or that a file holds which it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, by absolute path.
    File(PathBuf),
    /// The decoded value of a `-data` field.
    Data(Secret),
}

// === impl Secret ===

impl Secret {
    /// Takes the bytes in.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Hands them out, to be used and not to be shown.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes, not shown)", self.0.len())
    }
}

// === impl Source ===

impl Source {
    /// Reads it; `what` is said in the error, such as "CA bundle".
    pub(crate) fn read(&self, what: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::File(path) => read(path, what),
            Self::Data(data) => Ok(data.reveal().to_vec()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Data(_) => f.write_str("the kubeconfig itself"),
        }
    }
}

/// Reads a file that must hold something.
///
/// A file that is missing or empty is looked for twice more within 10 ms: the kubelet's swap of a projected volume
/// takes the old generation away while a reader may still be on its way into it, and some writers truncate in place.
pub(crate) fn read(path: &Path, what: &str) -> Result<Vec<u8>, Error> {
    let mut last = Ok(Vec::new());
    for attempt in 0..3 {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        last = file::open(path, 0).and_then(|file| Ok(file::read(&file, LIMIT)?.0));
        match &last {
            Ok(bytes) if !bytes.is_empty() => return last.map_err(|e| unreadable(path, what, &e)),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(_) => break,
        }
    }
    match last {
        Ok(_) => Err(Error::new(
            Class::Credential,
            format!(
                "{what} {} is empty; the installer writes it: see its log on this node",
                path.display()
            ),
        )),
        Err(e) => Err(unreadable(path, what, &e)),
    }
}

fn unreadable(path: &Path, what: &str, error: &io::Error) -> Error {
    let path = path.display();
    let message = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{what} {path} does not exist; the installer writes it: see whether it runs on this node")
        }
        io::ErrorKind::IsADirectory => {
            format!(
                "{what} {path} is a directory; name a file, or remove it and let the installer write the file"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "{what} {path} may not be read; the plugin runs as root: look at the file's mode and labels"
            )
        }
        _ => format!("{what} {path} cannot be read: {error}"),
    };
    Error::new(Class::Credential, message)
}
