//! Errors of nf_tables, classified by what a person can do about them.

use std::{fmt, io};

use super::part::Part;
use crate::{
    net::cidr::Family,
    protocol::failure::{CniError, Code},
    rules::ruleset::{Difference, Hook},
};

/// Why nf_tables refused a request, or why its tables cannot be read as the plugin's rules.
#[derive(Debug)]
pub struct NftError {
    /// The request, as in "add rule 3 of chain output ...".
    operation: String,
    cause: io::Error,
    /// The kernel's error text, if any.
    text: Option<String>,
    why: Why,
}

/// The causes that need different advice.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    NoNfTables,
    NoNat,
    NoIpv6Nat,
    NoExpression(String),
    NotPermitted,
    NoAnswer,
    Foreign(Difference),
    Other,
}

/// A message that the kernel refused.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The number of the message.
    pub(super) sequence: u32,
    /// The error number.
    pub(super) errno: i32,
    /// The error text (`NLMSGERR_ATTR_MSG`).
    pub(super) text: Option<String>,
    /// The offset in the message (`NLMSGERR_ATTR_OFFS`).
    pub(super) offset: Option<usize>,
}

impl NftError {
    /// Returns true when this kernel's nf_tables cannot hold the rules, so that the fallback should be tried.
    pub fn is_no_nf_tables(&self) -> bool {
        matches!(
            self.why,
            Why::NoNfTables | Why::NoNat | Why::NoIpv6Nat | Why::NoExpression(_)
        )
    }

    /// A socket that cannot be opened or set up.
    pub(super) fn open(cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let why = match cause.raw_os_error() {
            Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::ESOCKTNOSUPPORT) => Why::NoNfTables,
            Some(libc::EPERM | libc::EACCES) => Why::NotPermitted,
            _ => Why::Other,
        };
        Self::new("open a netlink socket to netfilter", cause, why)
    }

    /// A socket that fails to send or receive.
    pub(super) fn talk(operation: &str, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let why = match cause.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => Why::NoAnswer,
            Some(libc::EPERM | libc::EACCES) => Why::NotPermitted,
            _ => Why::Other,
        };
        Self::new(operation, cause, why)
    }

    /// A message that the kernel refused, single or part of a batch.
    pub(super) fn refused(
        operation: &str,
        refusal: Refusal,
        part: Option<Part<'_>>,
        expression: Option<&str>,
    ) -> Self {
        let cause = io::Error::from_raw_os_error(refusal.errno);
        Self {
            text: refusal.text,
            ..Self::new(operation, cause, why(refusal.errno, part, expression))
        }
    }

    /// Something in the plugin's table that it did not write.
    pub(super) fn foreign(what: String) -> Self {
        let why = Why::Foreign(Difference::new(what));
        Self::new("read the rules", io::ErrorKind::InvalidData.into(), why)
    }

    fn new(operation: &str, cause: io::Error, why: Why) -> Self {
        Self {
            operation: operation.into(),
            cause,
            text: None,
            why,
        }
    }

    pub(super) fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }
}

/// Classifies an error number, whose meaning depends on the request.
///
/// nf_tables answers `ENOENT` both for a chain type and for an expression without a module (`nf_tables_newchain`,
/// `nft_expr_type_get` in net/netfilter/nf_tables_api.c); nfnetlink answers `EOPNOTSUPP` when nf_tables as a whole is
/// missing (`nfnetlink_rcv_batch` in net/netfilter/nfnetlink.c).
fn why(errno: i32, part: Option<Part<'_>>, expression: Option<&str>) -> Why {
    match (errno, part) {
        (libc::EPERM | libc::EACCES, _) => Why::NotPermitted,
        (libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EINVAL, None | Some(Part::Begin)) => {
            Why::NoNfTables
        }
        (libc::EOPNOTSUPP | libc::EAFNOSUPPORT, Some(Part::AddTable(Family::V6))) => Why::NoIpv6Nat,
        (libc::EOPNOTSUPP | libc::EAFNOSUPPORT, Some(Part::AddTable(Family::V4))) => Why::NoNfTables,
        (libc::ENOENT | libc::EOPNOTSUPP | libc::EAFNOSUPPORT, Some(Part::AddChain(table, chain))) => {
            // IPv4 comes first, so an error for IPv6 means that only IPv6 is missing.
            match (table.family, chain.hook) {
                (Family::V6, _) => Why::NoIpv6Nat,
                (Family::V4, Hook::Prerouting | Hook::Output) => Why::NoNat,
            }
        }
        // `lookup` is built in, so the set is missing.
        (libc::ENOENT, Some(Part::AddRule(..))) if expression == Some("lookup") => Why::Other,
        (libc::ENOENT | libc::EOPNOTSUPP, Some(Part::AddRule(..))) => {
            Why::NoExpression(expression.unwrap_or("that this rule needs").to_owned())
        }
        (libc::EOPNOTSUPP, Some(Part::AddSet(..))) => Why::NoExpression("for sets of intervals".to_owned()),
        _ => Why::Other,
    }
}

impl fmt::Display for NftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Why::Foreign(difference) = &self.why {
            return difference.fmt(f);
        }
        write!(f, "nf_tables: cannot {}: {}", self.operation, self.cause)?;
        if let Some(text) = &self.text {
            write!(f, " ({text})")?;
        }
        match &self.why {
            Why::NoNfTables => f.write_str("; this kernel has no nf_tables: load the module nf_tables"),
            Why::NoNat => f.write_str("; this kernel's nf_tables has no nat: load the module nft_chain_nat"),
            Why::NoIpv6Nat => f.write_str(
                "; this kernel's nf_tables has no nat for IPv6: load the modules ipv6 and nft_chain_nat, or set \"ipv6\": false",
            ),
            Why::NoExpression(name) => write!(
                f,
                "; this kernel's nf_tables lacks the expression {name}: load the module nft_{name}"
            ),
            Why::NotPermitted => {
                f.write_str("; the plugin needs CAP_NET_ADMIN in the pod's network namespace")
            }
            Why::NoAnswer => f.write_str("; the kernel did not answer, so the result is unknown: try again"),
            Why::Foreign(_) | Why::Other => Ok(()),
        }
    }
}

impl std::error::Error for NftError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl CniError for NftError {
    fn code(&self) -> Code {
        Code::Rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ruleset::{Chain, Table};

    #[test]
    fn missing_kernel_features_are_distinguished() {
        let chain = Chain {
            hook: Hook::Prerouting,
            rules: vec![],
        };
        let table = |family| Table {
            family,
            sets: vec![],
            chains: vec![],
        };
        let (v4, v6) = (table(Family::V4), table(Family::V6));
        let redir = Why::NoExpression("redir".into());
        for (errno, part, expected) in [
            (libc::EOPNOTSUPP, Some(Part::Begin), Why::NoNfTables),
            (libc::EPERM, Some(Part::Begin), Why::NotPermitted),
            (libc::ENOENT, Some(Part::AddChain(&v4, &chain)), Why::NoNat),
            (libc::ENOENT, Some(Part::AddChain(&v6, &chain)), Why::NoIpv6Nat),
            (
                libc::EAFNOSUPPORT,
                Some(Part::AddTable(Family::V6)),
                Why::NoIpv6Nat,
            ),
            (libc::ENOENT, Some(Part::AddRule(&v4, &chain, 0)), redir),
            (libc::ENOMEM, Some(Part::AddRule(&v4, &chain, 0)), Why::Other),
            (libc::EEXIST, Some(Part::AddTable(Family::V4)), Why::Other),
        ] {
            assert_eq!(
                why(errno, part, Some("redir")),
                expected,
                "errno {errno} for {part:?}"
            );
        }
    }

    #[test]
    fn error_names_operation_cause_and_remedy() {
        let open = NftError::open(io::Error::from_raw_os_error(libc::EPROTONOSUPPORT));
        assert!(open.is_no_nf_tables());
        assert_eq!(
            open.to_string(),
            "nf_tables: cannot open a netlink socket to netfilter: Protocol not supported (os error 93); \
             this kernel has no nf_tables: load the module nf_tables"
        );
        let busy = NftError::talk("read the answer", io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(!busy.is_no_nf_tables());
        assert!(busy.to_string().ends_with("try again"), "{busy}");
    }
}
