//! What can go wrong between us and nf_tables, told apart by what a person can do about it.

use std::{fmt, io};

use super::part::Part;
use crate::{
    net::cidr::Family,
    protocol::failure::{CniError, Code},
    rules::ruleset::{Difference, Hook},
};

/// Why nf_tables did not do what we asked, or what it holds cannot be read as rules of ours.
#[derive(Debug)]
pub struct Error {
    /// What was asked, as in "add rule 3 of chain output ...".
    doing: String,
    cause: io::Error,
    /// The kernel's own words, where it had some.
    text: Option<String>,
    why: Why,
}

/// The causes that call for different answers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    NoNfTables,
    NoNat,
    NoIpv6Nat,
    NoExpression(String),
    NotPermitted,
    NoAnswer,
    NotOurs(Difference),
    Other,
}

/// A message the kernel refused.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The number of the message.
    pub(super) sequence: u32,
    /// Why, as an error number.
    pub(super) errno: i32,
    /// Why, in words (`NLMSGERR_ATTR_MSG`).
    pub(super) text: Option<String>,
    /// Where in the message (`NLMSGERR_ATTR_OFFS`).
    pub(super) offset: Option<usize>,
}

impl Error {
    /// True when this kernel cannot hold our rules in nf_tables, so that another way should be tried.
    pub fn is_no_nf_tables(&self) -> bool {
        matches!(
            self.why,
            Why::NoNfTables | Why::NoNat | Why::NoIpv6Nat | Why::NoExpression(_)
        )
    }

    /// A socket that cannot be had or set up.
    pub(super) fn open(cause: io::Error) -> Self {
        let why = match cause.raw_os_error() {
            Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::ESOCKTNOSUPPORT) => Why::NoNfTables,
            Some(libc::EPERM | libc::EACCES) => Why::NotPermitted,
            _ => Why::Other,
        };
        Self {
            doing: "open a netlink socket to netfilter".into(),
            cause,
            text: None,
            why,
        }
    }

    /// A socket that fails while we talk.
    pub(super) fn talk(doing: &str, cause: io::Error) -> Self {
        let why = match cause.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => Why::NoAnswer,
            Some(libc::EPERM | libc::EACCES) => Why::NotPermitted,
            _ => Why::Other,
        };
        Self {
            doing: doing.into(),
            cause,
            text: None,
            why,
        }
    }

    /// A message the kernel refused, by itself or as part of a batch.
    pub(super) fn refused(
        doing: &str,
        refusal: Refusal,
        part: Option<Part<'_>>,
        expression: Option<&str>,
    ) -> Self {
        let why = why(refusal.errno, part, expression);
        let cause = io::Error::from_raw_os_error(refusal.errno);
        Self {
            doing: doing.into(),
            cause,
            text: refusal.text,
            why,
        }
    }

    /// Something in our table that we did not put there.
    pub(super) fn not_ours(what: String) -> Self {
        Self {
            doing: "read our rules back".into(),
            cause: io::ErrorKind::InvalidData.into(),
            text: None,
            why: Why::NotOurs(Difference::new(what)),
        }
    }

    pub(super) fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }
}

/// What an error number means, which depends on what it was the answer to.
///
/// nf_tables says `ENOENT` both for a chain type and for an expression it has no module for (`nf_tables_newchain`,
/// `nft_expr_type_get` in net/netfilter/nf_tables_api.c), and nfnetlink `EOPNOTSUPP` where nf_tables as a whole is
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
            // IPv4 comes first: where its chain was taken, only IPv6 is missing.
            match (table.family, chain.hook) {
                (Family::V6, _) => Why::NoIpv6Nat,
                (Family::V4, Hook::Prerouting | Hook::Output) => Why::NoNat,
            }
        }
        // What looks into sets is built in: then it is the set that is missing.
        (libc::ENOENT, Some(Part::AddRule(..))) if expression == Some("lookup") => Why::Other,
        (libc::ENOENT | libc::EOPNOTSUPP, Some(Part::AddRule(..))) => {
            Why::NoExpression(expression.unwrap_or("that this rule needs").to_owned())
        }
        (libc::EOPNOTSUPP, Some(Part::AddSet(..))) => Why::NoExpression("for sets of intervals".to_owned()),
        _ => Why::Other,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Why::NotOurs(difference) = &self.why {
            return difference.fmt(f);
        }
        write!(f, "nf_tables: cannot {}: {}", self.doing, self.cause)?;
        if let Some(text) = &self.text {
            write!(f, " ({text})")?;
        }
        match &self.why {
            Why::NoNfTables => write!(f, "; this kernel has no nf_tables: load the module nf_tables"),
            Why::NoNat => write!(
                f,
                "; this kernel's nf_tables has no nat: load the module nft_chain_nat"
            ),
            Why::NoIpv6Nat => write!(
                f,
                "; this kernel's nf_tables has no nat for IPv6: load the modules ipv6 and nft_chain_nat, or set \"ipv6\": false"
            ),
            Why::NoExpression(name) => {
                write!(
                    f,
                    "; this kernel's nf_tables lacks the expression {name}: load the module nft_{name}"
                )
            }
            Why::NotPermitted => write!(
                f,
                "; the plugin needs CAP_NET_ADMIN in the pod's network namespace"
            ),
            Why::NoAnswer => write!(
                f,
                "; the kernel did not answer, and what it did is not known: try again"
            ),
            Why::NotOurs(_) | Why::Other => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl CniError for Error {
    fn code(&self) -> Code {
        Code::Rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ruleset::{Chain, Table};

    #[test]
    fn what_a_kernel_lacks_is_told_apart() {
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
    fn an_error_says_what_was_tried_and_what_to_do() {
        let open = Error::open(io::Error::from_raw_os_error(libc::EPROTONOSUPPORT));
        assert!(open.is_no_nf_tables());
        assert_eq!(
            open.to_string(),
            "nf_tables: cannot open a netlink socket to netfilter: Protocol not supported (os error 93); \
             this kernel has no nf_tables: load the module nf_tables"
        );
        let busy = Error::talk("read the answer", io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(!busy.is_no_nf_tables());
        assert!(busy.to_string().ends_with("try again"), "{busy}");
    }
}
