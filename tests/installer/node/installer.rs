//! A running installer: wait for a condition, send signals, wait for its exit.

use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use evergreen_test_support::budget::within;

use super::{Node, PATIENCE};

/// A running installer, killed on drop.
pub struct Installer {
    child: Child,
    log: PathBuf,
}

impl Installer {
    /// Wraps the process and the path of its log.
    pub(super) fn new(child: Child, log: PathBuf) -> Self {
        Self { child, log }
    }

    /// Returns the process ID.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        let mut text = String::new();
        File::open(&self.log).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Waits until `condition` holds and returns how long that took.
    pub fn until(&mut self, node: &Node, what: &str, condition: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !condition() {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "waiting until {what}: the installer exited with {ended:?}\n{}",
                self.log()
            );
            assert!(
                start.elapsed() < within(PATIENCE),
                "timed out waiting until {what}\n{}\n{}",
                self.log(),
                node.show()
            );
            // Polled, because the event source is what is under test.
            thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([signal, &self.pid().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn end(mut self) -> (ExitStatus, String) {
        self.signal("-TERM");
        self.ended()
    }

    /// Waits for the exit and returns the status and the log.
    pub fn ended(&mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.log());
            }
            assert!(
                start.elapsed() < within(PATIENCE),
                "the installer does not exit\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Installer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
