//! Where the bytes of a credential are: in a file, or in the kubeconfig itself. And secrets, which do not print.

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

/// No kubeconfig, token or bundle is larger, in bytes.
const LIMIT: u64 = 4 << 20;

/// Text or bytes that must not appear in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Bytes in a file that the kubeconfig names, or in the kubeconfig itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, by absolute path.
    File(PathBuf),
    /// The decoded value of a `-data` field.
    Data(Secret),
}

impl Secret {
    /// Wraps the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes, for use and not for output.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes, not shown)", self.0.len())
    }
}

impl Source {
    /// Reads the bytes. `what` names them in an error, such as "CA bundle".
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
            Self::Data(_) => f.write_str("the kubeconfig"),
        }
    }
}

/// Reads a file that must not be empty.
///
/// A file that is missing or empty is read again twice within 10 ms: when the kubelet updates a projected volume, it
/// removes the old generation while a reader may still be resolving its path, and some writers truncate in place.
pub(crate) fn read(path: &Path, what: &str) -> Result<Vec<u8>, Error> {
    let mut result = Ok(Vec::new());
    for attempt in 0..3 {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        result = file::open(path, 0).and_then(|file| Ok(file::read(&file, LIMIT)?.0));
        match &result {
            Ok(bytes) if bytes.is_empty() => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    let problem = match result {
        Ok(bytes) if !bytes.is_empty() => return Ok(bytes),
        Ok(_) => "is empty; the installer writes this file: check its log on this node".to_owned(),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound => {
                "does not exist; the installer writes this file: check that it is running on this node".to_owned()
            }
            io::ErrorKind::IsADirectory => {
                "is a directory; remove it so that the installer can write the file, or configure another path"
                    .to_owned()
            }
            io::ErrorKind::PermissionDenied => {
                "cannot be read (permission denied); the plugin runs as root: check the file's mode and SELinux label"
                    .to_owned()
            }
            _ => format!("cannot be read: {e}"),
        },
    };
    let message = format!("{what} {} {problem}", path.display());
    Err(Error::new(Class::Credential, message))
}
