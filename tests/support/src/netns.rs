//! Network namespaces of a test's own: made, entered, joined by a wire, read back, and gone when dropped.
//!
//! Needs root. Never touches the machine's own network namespace: links are made inside the new ones. Everything
//! here panics with the reason, since a test can only fail by it.

mod listener;
mod sys;

use std::{
    ffi::CString,
    fmt,
    fs::{self, File},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use self::listener::{Listener, Reached, ask_tcp, ask_tcp_from, ask_udp};

/// The pod's address on its wire; [`PEER_V4`] is its default gateway.
pub const POD_V4: &str = "192.0.2.2";
/// The other end of the wire.
pub const PEER_V4: &str = "192.0.2.1";
/// The pod's IPv6 address on its wire; [`PEER_V6`] is its default gateway.
pub const POD_V6: &str = "fd77::2";
/// The other end of the wire.
pub const PEER_V6: &str = "fd77::1";
/// Where `ip netns` keeps its names, so that `ip netns exec` works on ours when a person looks into a failure.
const FOLDER: &str = "/run/netns";

/// A network namespace with a path, `lo` up, nothing else in it. Gone when dropped.
#[derive(Debug)]
pub struct Namespace {
    path: PathBuf,
    handle: File,
}

/// Two namespaces joined by a wire, each end called `eth0`, with IPv4 and IPv6 and a default route in the pod.
///
/// The peer plays the rest of the world: it owns 10/8, 172.16/12, 198.51.100/24, 203.0.113/24, 1.1.1.1,
/// `2001:db8::/32` and `fd00::/16` beside its own address, and may connect from any of them.
#[derive(Debug)]
pub struct Wire {
    /// Where the rules go.
    pub pod: Namespace,
    /// Everybody else.
    pub peer: Namespace,
}

// === impl Namespace ===

impl Namespace {
    /// A new namespace with `lo` up.
    #[allow(
        clippy::new_without_default,
        reason = "this makes something in the kernel; a default should not"
    )]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        fs::create_dir_all(FOLDER)
            .unwrap_or_else(|e| panic!("cannot make {FOLDER}: {e}; these tests need root"));
        SWEEP.call_once(sweep);
        let name = format!(
            "evergreen-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = Path::new(FOLDER).join(name);
        File::create(&path).unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
        let target = c_string(&path);
        let made = in_thread(|| {
            sys::unshare_net()?;
            sys::bind_mount(c"/proc/thread-self/ns/net", &target)
        });
        made.unwrap_or_else(|e| panic!("cannot make a network namespace: {e}; these tests need root"));
        let handle = File::open(&path).unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()));
        let namespace = Self { path, handle };
        // A listener on `[::]` then takes IPv6 only, so that one on `0.0.0.0` may have the same port.
        namespace.sysctl("ipv6/bindv6only", "1");
        namespace.ip("link set lo up");
        namespace
    }

    /// Its path, as a runtime would give it in `CNI_NETNS`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the closure answers when it runs inside, on a thread of its own. Children it starts are inside too.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        in_thread(|| {
            sys::set_net(&self.handle).unwrap_or_else(|e| panic!("cannot enter {self}: {e}"));
            work()
        })
    }

    /// The same as a user and group other than root: the owner of every socket the closure makes.
    pub fn run_as<T: Send>(&self, uid: u32, gid: u32, work: impl FnOnce() -> T + Send) -> T {
        self.run(|| {
            sys::become_user(uid, gid).unwrap_or_else(|e| panic!("cannot become {uid}:{gid}: {e}"));
            work()
        })
    }

    /// What a command that must succeed prints when it runs inside.
    pub fn command(&self, program: &str, arguments: &[&str]) -> String {
        self.command_with_input(program, arguments, "")
    }

    /// The same with something on its stdin.
    pub fn command_with_input(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let output = self.run(|| -> io::Result<_> {
            let mut child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            // A program that fails early closes its stdin; its stderr says more than our EPIPE.
            let _ = child
                .stdin
                .take()
                .expect("stdin is piped")
                .write_all(input.as_bytes());
            child.wait_with_output()
        });
        let output = output.unwrap_or_else(|e| panic!("cannot run {program}: {e}; is it installed?"));
        assert!(
            output.status.success(),
            "{program} {arguments:?} in {self}: {}\n{input}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Lines of `ip`, all in one process.
    pub fn ip(&self, lines: &str) {
        self.command_with_input("ip", &["-batch", "-"], lines);
    }

    /// The whole ruleset as the kernel holds it, in `nft`'s words.
    pub fn nft_list(&self) -> String {
        self.command("nft", &["list", "ruleset"])
    }

    /// Rules in `nft`'s words.
    pub fn nft(&self, rules: &str) {
        self.command_with_input("nft", &["-f", "-"], rules);
    }

    /// Sets a value below `/proc/sys/net`.
    pub fn sysctl(&self, key: &str, value: &str) {
        let written = self.run(|| fs::write(format!("/proc/sys/net/{key}"), value));
        written.unwrap_or_else(|e| panic!("cannot set net/{key} to {value} in {self}: {e}"));
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        forget(&self.path);
    }
}

/// Takes away a namespace's name; the kernel takes the namespace when nothing holds it any more.
fn forget(path: &Path) {
    let _ = sys::unmount(&c_string(path));
    let _ = fs::remove_file(path);
}

/// Takes away what killed test processes left.
fn sweep() {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|n| n.strip_prefix("evergreen-test-"))
            .and_then(|n| n.split('-').next());
        if process.is_some_and(|p| !Path::new("/proc").join(p).exists()) {
            forget(&entry.path());
        }
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("our own paths hold no NUL")
}

/// Runs the closure on a thread that ends with it; its panic is ours.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What the closure answers on a kernel that has no nf_tables: opening its socket fails with `EPROTONOSUPPORT`, here
/// and in every program the closure starts.
pub fn without_nf_tables<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    in_thread(|| {
        sys::refuse_netfilter_sockets().unwrap_or_else(|e| panic!("cannot set a seccomp filter: {e}"));
        work()
    })
}

// === impl Wire ===

impl Wire {
    /// Two new namespaces, joined.
    #[allow(
        clippy::new_without_default,
        reason = "this makes something in the kernel; a default should not"
    )]
    pub fn new() -> Self {
        let wire = Self {
            pod: Namespace::new(),
            peer: Namespace::new(),
        };
        for namespace in [&wire.pod, &wire.peer] {
            namespace.sysctl("ipv4/conf/all/rp_filter", "0");
            // Duplicate address detection would hold each address back for a second.
            namespace.sysctl("ipv6/conf/default/accept_dad", "0");
        }
        let peer = wire
            .peer
            .path
            .file_name()
            .and_then(|n| n.to_str())
            .expect("we made the name");
        wire.pod
            .ip(&format!("link add eth0 type veth peer name eth0 netns {peer}"));
        wire.peer.ip(&format!(
            "address add {PEER_V4}/24 dev eth0\naddress add {PEER_V6}/64 dev eth0 nodad\nlink set eth0 up\n\
             route add local 10.0.0.0/8 dev lo\nroute add local 172.16.0.0/12 dev lo\n\
             route add local 198.51.100.0/24 dev lo\nroute add local 203.0.113.0/24 dev lo\n\
             route add local 1.1.1.1/32 dev lo\nroute add local 2001:db8::/32 dev lo\n\
             route add local fd00::/16 dev lo"
        ));
        wire.peer.sysctl("ipv4/ip_nonlocal_bind", "1");
        wire.peer.sysctl("ipv6/ip_nonlocal_bind", "1");
        wire.pod.ip(&format!(
            "address add {POD_V4}/24 dev eth0\naddress add {POD_V6}/64 dev eth0 nodad\nlink set eth0 up\n\
             route add default via {PEER_V4}\nroute add default via {PEER_V6}"
        ));
        wire.wait_until_up();
        wire
    }

    /// Until both ends are up in the kernel's own view, which it forms some time after the second end was set up (`linkwatch`);
    /// before, there is no route over them.
    fn wait_until_up(&self) {
        let give_up = Instant::now() + Duration::from_secs(30);
        for end in [&self.pod, &self.peer] {
            loop {
                let seen = end.command("ip", &["-oneline", "link", "show", "dev", "eth0"]);
                if seen.contains(" state UP ") {
                    break;
                }
                assert!(Instant::now() < give_up, "eth0 of {end} stays down: {seen}");
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

#[cfg(test)]
mod tests;
