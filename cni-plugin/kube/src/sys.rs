//! The one C library call that has no safe interface. The only unsafe code of this crate.
#![allow(
    unsafe_code,
    reason = "glibc's choice of name services exists only as a C function"
)]

/// Makes every later name lookup of this process use `/etc/hosts` and DNS alone.
///
/// A static binary that follows the host's `nsswitch.conf` loads the host's NSS modules (`libnss_resolve.so`,
/// `libnss_myhostname.so`). They belong to another glibc, and `getaddrinfo` crashes. The two services named here are
/// built in. Names that only another module knows, such as systemd-resolved's, are not found; its stub resolver in
/// `resolv.conf` still works. Must be called before the first lookup, from one thread.
#[cfg(target_env = "gnu")]
pub(crate) fn use_only_files_and_dns() {
    unsafe extern "C" {
        fn __nss_configure_lookup(
            database: *const libc::c_char,
            services: *const libc::c_char,
        ) -> libc::c_int;
    }
    // SAFETY: both arguments are NUL-terminated and static; glibc copies what it keeps. The call is made before any
    // lookup, so no other thread reads what it replaces. A failure leaves the default order.
    unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
}

/// Other C libraries have no modules to load.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn use_only_files_and_dns() {}
