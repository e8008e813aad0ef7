//! Which sandboxes were created without our entry. Pure.
//!
//! A sandbox counts if its conflist had no entry of ours and the network of that name has one now. Only then is the record
//! known to be of the runtime's own conflist (not of one that a meta-plugin such as Multus delegates to another that may
//! have our entry), and only then does a recreated pod get the rules that this one lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use super::records::Record;

/// A sandbox, from its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sandbox<'a> {
    /// The runtime's ID of the sandbox.
    pub id: &'a str,
    /// True if it cannot have rules, and a recreated sandbox would get them.
    pub unmeshed: bool,
    written: SystemTime,
}

/// The records of one sandbox, combined.
#[derive(Debug, Default)]
struct Seen<'a> {
    /// The UID of the pod, and when its primary interface was attached.
    primary: Option<(&'a str, SystemTime)>,
    with_us: bool,
    meshed_now: bool,
}

/// Returns the newest sandbox of each pod, by the UID that the kubelet uses for the pod.
pub fn newest<'a>(records: &'a [Record], programming: &BTreeSet<String>) -> BTreeMap<&'a str, Sandbox<'a>> {
    let mut seen: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    for record in records {
        let seen = seen.entry(&record.sandbox).or_default();
        seen.with_us |= record.chain.with_us;
        if record.is_primary {
            seen.primary = Some((&*record.uid, record.written)).max(seen.primary);
            seen.meshed_now |= programming.contains(&record.chain.name);
        }
    }
    let mut newest: BTreeMap<&str, Sandbox<'_>> = BTreeMap::new();
    for (id, seen) in seen {
        let Some((uid, written)) = seen.primary else {
            continue;
        };
        let unmeshed = !seen.with_us && seen.meshed_now;
        if newest.get(uid).is_none_or(|known| known.written <= written) {
            newest.insert(
                uid,
                Sandbox {
                    id,
                    unmeshed,
                    written,
                },
            );
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::node::conflist::Chain;

    fn record(uid: &str, sandbox: &str, second: u64, network: &str, with_us: bool) -> Record {
        Record {
            uid: uid.to_owned(),
            sandbox: sandbox.to_owned(),
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            is_primary: true,
            chain: Chain {
                name: network.to_owned(),
                with_us,
            },
        }
    }

    fn found(records: &[Record]) -> Vec<(&str, &str)> {
        let newest = newest(records, &BTreeSet::from(["net".to_owned()]));
        let without = newest.into_iter().filter(|(_, sandbox)| sandbox.unmeshed);
        without.map(|(uid, sandbox)| (uid, sandbox.id)).collect()
    }

    #[test]
    fn sandbox_created_before_our_entry_is_found() {
        let records = [
            record("a", "1", 1, "net", false),
            record("b", "2", 1, "net", true),
            // This network has no entry of ours, so recreating the pod would not help.
            record("c", "3", 1, "other", false),
        ];
        assert_eq!(found(&records), [("a", "1")]);
    }

    #[test]
    fn newest_sandbox_of_a_pod_counts() {
        let old = record("a", "1", 1, "net", false);
        let new = record("a", "2", 2, "net", true);
        assert!(found(&[old.clone(), new.clone()]).is_empty() && found(&[new, old]).is_empty());
        let (old, new) = (
            record("a", "1", 1, "net", true),
            record("a", "2", 2, "net", false),
        );
        assert_eq!(found(&[old, new]), [("a", "2")]);
    }

    #[test]
    fn one_attachment_with_our_entry_is_enough() {
        let by_runtime = record("a", "1", 2, "net", false);
        let mut delegated = record("a", "1", 1, "inner", true);
        assert!(found(&[by_runtime.clone(), delegated.clone()]).is_empty());
        delegated.is_primary = false;
        assert!(found(&[by_runtime, delegated]).is_empty());
    }

    #[test]
    fn attachment_of_another_interface_is_ignored() {
        let mut second = record("a", "1", 1, "net", false);
        second.is_primary = false;
        assert!(found(&[second]).is_empty());
    }
}
