//! The system calls std has no safe interface for. The only unsafe code of this crate.
#![allow(
    unsafe_code,
    reason = "the choice of name sources exists only as a C library call"
)]

/// Makes every later name lookup of this process use `/etc/hosts` and DNS alone.
///
/// A static binary that follows the host's `nsswitch.conf` loads the host's NSS modules (`libnss_resolve.so`,
/// `libnss_myhostname.so`), which belong to another glibc: it crashes inside `getaddrinfo`. The two sources named here
/// are built in. What is given up: names that only systemd-resolved's or another module knows; its stub resolver in
/// `resolv.conf` still works. Call it before the first lookup, from one thread.
#[cfg(target_env = "gnu")]
pub(crate) fn look_up_names_in_files_and_dns_only() {
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const libc::c_char, sources: *const libc::c_char)
        -> libc::c_int;
    }
    // SAFETY: both arguments are NUL-terminated strings that live for ever; glibc copies what it keeps. The call is
    // made before any lookup, so that no other thread reads what it replaces. A failure leaves the default order.
    unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
}

/// Other C libraries have no modules to load.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn look_up_names_in_files_and_dns_only() {}
