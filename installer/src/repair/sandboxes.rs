//! Which sandboxes were made without us. Pure.
//!
//! Made without us is one whose list had no entry of ours, while the network of that name has one now: only then is it
//! sure that the runtime's own list was meant (and not one that a meta-plugin such as Multus hands on to another, where we
//! may be), and that a pod made anew gets what this one lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use super::records::Record;

/// A sandbox, as its records have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sandbox<'a> {
    /// The runtime's id of it.
    pub id: &'a str,
    /// No rules of ours can be in it, and a sandbox made anew would get them.
    pub unmeshed: bool,
    written: SystemTime,
}

/// What all records of a sandbox say together.
#[derive(Debug, Default)]
struct Seen<'a> {
    /// The pod, and when its first interface was attached.
    first: Option<(&'a str, SystemTime)>,
    with_us: bool,
    meshed_now: bool,
}

/// The newest sandbox of each pod, by what the kubelet calls the pod.
pub fn newest<'a>(records: &'a [Record], programming: &BTreeSet<String>) -> BTreeMap<&'a str, Sandbox<'a>> {
    let mut seen: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    for record in records {
        let seen = seen.entry(&record.sandbox).or_default();
        seen.with_us |= record.chain.with_us;
        if record.is_first {
            seen.first = Some((&*record.uid, record.written)).max(seen.first);
            seen.meshed_now |= programming.contains(&record.chain.name);
        }
    }
    let mut newest: BTreeMap<&str, Sandbox<'_>> = BTreeMap::new();
    for (id, seen) in seen {
        let Some((uid, written)) = seen.first else {
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
            is_first: true,
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
    fn a_sandbox_is_found_when_its_list_was_without_us_and_the_network_has_us_now() {
        let records = [
            record("a", "1", 1, "net", false),
            record("b", "2", 1, "net", true),
            // Our entry is not in this one, so a pod made anew would be no better.
            record("c", "3", 1, "other", false),
        ];
        assert_eq!(found(&records), [("a", "1")]);
    }

    #[test]
    fn the_newest_sandbox_of_a_pod_counts() {
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
    fn one_attachment_with_us_is_enough_for_a_sandbox() {
        let by_runtime = record("a", "1", 2, "net", false);
        let mut handed_on = record("a", "1", 1, "inner", true);
        assert!(found(&[by_runtime.clone(), handed_on.clone()]).is_empty());
        handed_on.is_first = false;
        assert!(found(&[by_runtime, handed_on]).is_empty());
    }

    #[test]
    fn an_attachment_of_another_interface_alone_says_nothing() {
        let mut second = record("a", "1", 1, "net", false);
        second.is_first = false;
        assert!(found(&[second]).is_empty());
    }
}
