//! An installer that runs: watched until something is so, sent signals, waited for.

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

/// An installer that runs.
pub struct Installer {
    child: Child,
    log: PathBuf,
}

impl Installer {
    /// The process, and where it logs.
    pub(super) fn new(child: Child, log: PathBuf) -> Self {
        Self { child, log }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        let mut text = String::new();
        File::open(&self.log).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Waits until something is so, and says how long that took.
    pub fn until(&mut self, node: &Node, what: &str, so: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !so() {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "waiting until {what}: it ended with {ended:?}\n{}",
                self.log()
            );
            assert!(
                start.elapsed() < within(PATIENCE),
                "not so: {what}\n{}\n{}",
                self.log(),
                node.show()
            );
            // Polling, since the thing under test is what reports events.
            thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([signal, &self.pid().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Asks it to end and waits for that.
    pub fn end(mut self) -> (ExitStatus, String) {
        self.signal("-TERM");
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.log());
            }
            assert!(
                start.elapsed() < within(PATIENCE),
                "it does not end\n{}",
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
