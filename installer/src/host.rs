//! One path, two views: the installer sees the node's directories below a mount point, the runtime and the plugin see
//! them where they are. Files are opened by the first view; what is written into them, and told to people, is the second.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

/// A path on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPath {
    here: PathBuf,
    host: PathBuf,
}

impl HostPath {
    /// An absolute path of the node, mounted below `prefix` (empty: this process sees the node's own root).
    pub fn new(prefix: &Path, host: &Path) -> Self {
        let below_root = host.strip_prefix("/").unwrap_or(host);
        let here = if prefix.as_os_str().is_empty() {
            host.to_path_buf()
        } else {
            prefix.join(below_root)
        };
        Self {
            here,
            host: host.to_path_buf(),
        }
    }

    /// Something in this directory.
    pub fn join(&self, name: impl AsRef<OsStr>) -> Self {
        let name = Path::new(name.as_ref());
        Self {
            here: self.here.join(name),
            host: self.host.join(name),
        }
    }

    /// The path to open.
    pub fn here(&self) -> &Path {
        &self.here
    }

    /// The path to write into a file that the node reads.
    pub fn host(&self) -> &Path {
        &self.host
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_opened_below_the_mount_and_named_as_the_node_sees_it() {
        for (prefix, here) in [("/host", "/host/etc/cni/net.d/x"), ("", "/etc/cni/net.d/x")] {
            let path = HostPath::new(Path::new(prefix), Path::new("/etc/cni/net.d")).join("x");
            assert_eq!(path.here(), Path::new(here));
            assert_eq!(path.to_string(), "/etc/cni/net.d/x");
        }
    }
}
