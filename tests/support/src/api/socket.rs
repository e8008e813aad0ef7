//! The two things a test needs of a socket that the standard library cannot say.
#![allow(
    unsafe_code,
    reason = "SO_LINGER and the length of an accept queue are not in the standard library"
)]

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    time::Duration,
};

/// An address of loopback where a connection is neither taken nor refused: its SYN is dropped.
#[derive(Debug)]
pub struct BlackHole {
    listener: TcpListener,
    // These fill the accept queue; they end with the value.
    _fill: Vec<TcpStream>,
}

impl BlackHole {
    /// Opens one.
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen on loopback");
        // SAFETY: the descriptor is open as long as `listener` is; listen(2) takes no memory of ours. A second call
        // only changes the length of the queue.
        let rc = unsafe { libc::listen(listener.as_raw_fd(), 0) };
        assert_eq!(rc, 0, "listen: {}", std::io::Error::last_os_error());
        let address = listener.local_addr().expect("an address");
        let mut fill = Vec::new();
        // The queue holds one more than its length; the kernel drops every SYN after that.
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(150)) {
            fill.push(stream);
            assert!(fill.len() < 16, "the accept queue never fills");
        }
        Self {
            listener,
            _fill: fill,
        }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// `https://127.0.0.1:<port>`
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }
}

/// Ends a connection by a reset, not in an orderly way.
pub(crate) fn reset(stream: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the descriptor is open, and the pointer and length are those of a live `linger`.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    drop(stream);
}
