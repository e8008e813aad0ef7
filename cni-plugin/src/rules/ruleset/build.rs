//! The rules for a redirect. Their order matters and is that of linkerd-cni.

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
    /// Builds the rules for a redirect.
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

    /// Puts position, count and checksum in front of the purpose in each comment.
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
                rules: inbound(redirect, has),
            },
            Chain {
                hook: Hook::Output,
                rules: outbound(redirect, has),
            },
        ];
        Self { family, sets, chains }
    }
}

/// Returns the sets that are not empty.
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

fn inbound(redirect: &Redirect, has: impl Fn(SetName) -> bool) -> Vec<Rule> {
    let mut rules = Vec::new();
    if has(SkipInboundPorts) {
        let when = Match::PortIn(SkipInboundPorts);
        rules.push(Rule::skip(when, "skip inbound ports"));
    }
    if has(SkipSources) {
        let when = Match::SourceIn(SkipSources);
        rules.push(Rule::skip(when, "skip inbound subnets"));
    }
    let (when, purpose) = if has(RedirectPorts) {
        let when = Match::PortIn(RedirectPorts);
        (when, "redirect the listed inbound ports to the proxy")
    } else {
        (Match::Tcp, "redirect all other inbound TCP to the proxy")
    };
    rules.push(Rule::redirect(when, redirect.inbound_port, purpose));
    rules
}

fn outbound(redirect: &Redirect, has: impl Fn(SetName) -> bool) -> Vec<Rule> {
    let mut rules = Vec::new();
    if let Some(uid) = redirect.proxy_uid {
        let when = Match::User(uid);
        rules.push(Rule::skip(when, "skip the proxy's own traffic"));
    }
    if let Some(gid) = redirect.proxy_gid {
        let when = Match::Group(gid);
        rules.push(Rule::skip(when, "skip the proxy group's traffic"));
    }
    let when = Match::Loopback;
    rules.push(Rule::skip(when, "skip loopback traffic"));
    if has(SkipOutboundPorts) {
        let when = Match::PortIn(SkipOutboundPorts);
        rules.push(Rule::skip(when, "skip outbound ports"));
    }
    let purpose = "redirect all other outbound TCP to the proxy";
    rules.push(Rule::redirect(Match::Tcp, redirect.outbound_port, purpose));
    rules
}

impl Rule {
    fn skip(when: Match, purpose: &str) -> Self {
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
