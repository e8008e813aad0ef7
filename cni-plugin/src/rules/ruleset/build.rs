//! From a redirect to its rules. Their order is their meaning, and is linkerd-cni's.

use super::{
    Chain, Elements, Hook, Match, Rule, Ruleset, Set,
    SetName::{self, RedirectPorts, SkipInboundPorts, SkipOutboundPorts, SkipSources},
    Table, Verdict,
};
use crate::{
    net::{cidr::Family, ports::Port},
    policy::intent::Redirect,
};

impl Ruleset {
    /// The rules for a redirect.
    pub fn build(redirect: &Redirect) -> Self {
        let tables = redirect
            .families
            .iter()
            .map(|&family| Table::build(redirect, family))
            .collect();
        let mut ruleset = Self { tables };
        ruleset.seal();
        ruleset
    }

    /// Writes position, count and sum into each comment, in front of the purpose.
    fn seal(&mut self) {
        let sum = self.sum();
        for chain in self.tables.iter_mut().flat_map(|t| &mut t.chains) {
            let count = chain.rules.len();
            for (i, rule) in chain.rules.iter_mut().enumerate() {
                rule.comment = format!("{}/{count} {sum} {}", i + 1, rule.comment);
            }
        }
    }
}

impl Table {
    fn build(redirect: &Redirect, family: Family) -> Self {
        let sets = sets(redirect, family);
        let has = |name| sets.iter().any(|set| set.name == name);
        let chains = vec![
            Chain {
                hook: Hook::Prerouting,
                rules: incoming(redirect, has),
            },
            Chain {
                hook: Hook::Output,
                rules: outgoing(redirect, has),
            },
        ];
        Self { family, sets, chains }
    }
}

/// The sets that are not empty.
fn sets(redirect: &Redirect, family: Family) -> Vec<Set> {
    let addresses = redirect.skip_sources.ranges(family);
    let sets = [
        (SkipInboundPorts, Elements::Ports(redirect.skip_inbound.clone())),
        (SkipSources, Elements::Addresses(addresses)),
        (RedirectPorts, Elements::Ports(redirect.inbound_only.clone())),
        (SkipOutboundPorts, Elements::Ports(redirect.skip_outbound.clone())),
    ];
    let filled = sets.into_iter().filter(|(_, elements)| !elements.is_empty());
    filled.map(|(name, elements)| Set { name, elements }).collect()
}

fn incoming(redirect: &Redirect, has: impl Fn(SetName) -> bool) -> Vec<Rule> {
    let mut rules = Vec::new();
    if has(SkipInboundPorts) {
        let when = Match::PortIn(SkipInboundPorts);
        rules.push(Rule::leave(when, "leave alone ports to skip on the way in"));
    }
    if has(SkipSources) {
        let when = Match::SourceIn(SkipSources);
        rules.push(Rule::leave(when, "leave alone subnets to skip on the way in"));
    }
    let (when, purpose) = if has(RedirectPorts) {
        let when = Match::PortIn(RedirectPorts);
        (when, "what comes in for the listed ports goes to the proxy")
    } else {
        (Match::Tcp, "all other TCP that comes in goes to the proxy")
    };
    rules.push(Rule::redirect(when, redirect.inbound_port, purpose));
    rules
}

fn outgoing(redirect: &Redirect, has: impl Fn(SetName) -> bool) -> Vec<Rule> {
    let mut rules = Vec::new();
    if let Some(uid) = redirect.proxy_uid {
        let when = Match::User(uid);
        rules.push(Rule::leave(when, "leave alone what the proxy itself sends"));
    }
    if let Some(gid) = redirect.proxy_gid {
        let when = Match::Group(gid);
        rules.push(Rule::leave(when, "leave alone what the proxy's group sends"));
    }
    let when = Match::Loopback;
    rules.push(Rule::leave(when, "leave alone what the pod says to itself"));
    if has(SkipOutboundPorts) {
        let when = Match::PortIn(SkipOutboundPorts);
        rules.push(Rule::leave(when, "leave alone ports to skip on the way out"));
    }
    let purpose = "all other TCP that goes out goes to the proxy";
    rules.push(Rule::redirect(Match::Tcp, redirect.outbound_port, purpose));
    rules
}

impl Rule {
    fn leave(when: Match, purpose: &str) -> Self {
        Self {
            when,
            then: Verdict::Return,
            comment: purpose.to_owned(),
        }
    }

    fn redirect(when: Match, to: Port, purpose: &str) -> Self {
        Self {
            when,
            then: Verdict::Redirect(to),
            comment: purpose.to_owned(),
        }
    }
}
