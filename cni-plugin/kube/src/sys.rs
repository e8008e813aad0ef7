//! The system calls std has no safe interface for. The only unsafe code of this crate.
#![allow(
    unsafe_code,
    reason = "the choice of name sources and the end of a process group exist only as C library calls"
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

/// Ends every process of a group of ours; one that is gone already is no error.
///
/// `group` is the id of a child that was started as the leader of its own group and has not been waited for, so that
/// the number cannot have passed to anybody else's.
pub fn kill_group(group: u32) {
    let Ok(group) = libc::pid_t::try_from(group) else {
        return;
    };
    if group > 1 {
        // SAFETY: kill(2) takes no memory of ours. The group is above 1, so that neither every process (-1) nor our
        // own group (0) is meant.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}
