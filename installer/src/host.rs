//! Paths on the node, in two views: the installer sees them below a mount point and opens files there; the runtime and the
//! plugin see them where they are, which is what files and messages name. Every folder needs them.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    path::{Component, Path, PathBuf},
};

/// How many symlinks the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// A path on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPath {
    prefix: PathBuf,
    here: PathBuf,
    host: PathBuf,
}

impl HostPath {
    /// An absolute path on the node, mounted below `prefix` (empty if this process sees the node's own root).
    pub fn new(prefix: &Path, host: &Path) -> Self {
        let below_root = host.strip_prefix("/").unwrap_or(host);
        let here = if prefix.as_os_str().is_empty() {
            host.to_path_buf()
        } else {
            prefix.join(below_root)
        };
        Self {
            prefix: prefix.to_path_buf(),
            here,
            host: host.to_path_buf(),
        }
    }

    /// Returns the path of a file in this directory.
    pub fn join(&self, name: impl AsRef<OsStr>) -> Self {
        let name = Path::new(name.as_ref());
        Self {
            prefix: self.prefix.clone(),
            here: self.here.join(name),
            host: self.host.join(name),
        }
    }

    /// Returns the target of a symlink that has this path.
    pub fn beside(&self, target: &Path) -> Self {
        let directory = self.host.parent().unwrap_or(Path::new("/"));
        Self::new(&self.prefix, &directory.join(target))
    }

    /// Returns the path with every symlink resolved as on the node: a link to `/usr/lib/x` leads to the node's file, never to
    /// this process's own. A part that this process cannot see is not a link.
    pub fn followed(&self) -> io::Result<Self> {
        let mut links = 0;
        let mut found = PathBuf::from("/");
        let mut ahead = self.host.clone();
        loop {
            let mut parts = ahead.components();
            let Some(part) = parts.next() else {
                return Ok(Self::new(&self.prefix, &found));
            };
            let rest = parts.as_path().to_path_buf();
            ahead = match part {
                Component::Normal(name) => {
                    let next = found.join(name);
                    match fs::read_link(Self::new(&self.prefix, &next).here) {
                        Ok(_) if links == MAX_LINKS => {
                            return Err(io::Error::from_raw_os_error(libc::ELOOP));
                        }
                        Ok(target) => {
                            links += 1;
                            target.join(rest)
                        }
                        Err(_) => {
                            found = next;
                            rest
                        }
                    }
                }
                Component::ParentDir => {
                    found.pop();
                    rest
                }
                Component::RootDir => {
                    found = PathBuf::from("/");
                    rest
                }
                Component::CurDir | Component::Prefix(_) => rest,
            };
        }
    }

    /// Returns true if this process sees the node's own root, so that a file it cannot see does not exist.
    pub fn sees_all(&self) -> bool {
        self.prefix.as_os_str().is_empty()
    }

    /// Returns the path to open.
    pub fn here(&self) -> &Path {
        &self.here
    }

    /// Returns the path as the node sees it, for files and messages.
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
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn symlinks_resolve_as_on_the_node() {
        let root = Scratch::new();
        for dir in ["etc/cni/net.d", "usr/lib/cni", "run"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for (link, target) in [
            ("etc/cni/net.d/absolute", "/usr/lib/cni/x"),
            ("etc/cni/net.d/relative", "../../../lib/./cni/x"),
            ("etc/cni/net.d/above", "../../../../../../usr/lib/cni/x"),
            ("lib", "usr/lib"),
            ("var-run", "/run"),
            ("etc/cni/net.d/unseen", "/var-run/unseen/../x"),
            ("etc/cni/net.d/loop", "loop"),
        ] {
            symlink(target, root.path().join(link)).unwrap();
        }
        let followed = |name: &str| {
            let dir = HostPath::new(root.path(), Path::new("/etc/cni/net.d"));
            dir.join(name).followed().map(|p| p.to_string())
        };
        for name in ["absolute", "relative", "above"] {
            assert_eq!(followed(name).unwrap(), "/usr/lib/cni/x", "{name}");
        }
        assert_eq!(followed("unseen").unwrap(), "/run/x");
        assert_eq!(followed("plain").unwrap(), "/etc/cni/net.d/plain");
        assert_eq!(followed("loop").unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn path_opens_below_mount_and_prints_without() {
        for (prefix, here) in [("/host", "/host/etc/cni/net.d/x"), ("", "/etc/cni/net.d/x")] {
            let path = HostPath::new(Path::new(prefix), Path::new("/etc/cni/net.d")).join("x");
            assert_eq!(path.here(), Path::new(here));
            assert_eq!(path.to_string(), "/etc/cni/net.d/x");
        }
    }
}
