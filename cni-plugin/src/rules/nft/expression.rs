//! A rule as the expressions that the kernel's virtual machine runs, and back.
//!
//! Each step loads a value into register 1 or tests it; the rule continues while the tests succeed. The steps are those
//! that `nft` uses for the same rule, so that `nft list` can show it.

use super::{
    message::{Attributes, Writer, field},
    uapi,
};
use crate::{
    net::{cidr::Family, ports::Port},
    rules::ruleset::{Match, SetName, Verdict},
};

/// One step of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Loads metadata of the packet: `NFT_META_*`.
    Meta(u32),
    /// Loads bytes of the packet.
    Payload { base: u32, offset: u32, length: u32 },
    /// Tests for equality.
    Equal(Value),
    /// Tests for membership in a set.
    Lookup(SetName),
    /// Loads a constant.
    Load(Value),
    /// Redirects to the loaded port.
    Redirect,
    /// Ends with a verdict: `NFT_*`.
    Verdict(i32),
}

/// The value of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    bytes: [u8; 16],
    length: usize,
}

/// All bytes of an interface name are compared (`IFNAMSIZ`), so that `lo` does not match `lo2`.
const LOOPBACK: [u8; 16] = *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// `NFT_META_*` as the kernel's unsigned numbers.
const SOCKET_USER: u32 = libc::NFT_META_SKUID as u32;
const SOCKET_GROUP: u32 = libc::NFT_META_SKGID as u32;
const OUT_INTERFACE: u32 = libc::NFT_META_OIFNAME as u32;
const PROTOCOL: u32 = libc::NFT_META_L4PROTO as u32;
/// The destination port in a TCP header.
const DESTINATION_PORT: Step = Step::Payload {
    base: libc::NFT_PAYLOAD_TRANSPORT_HEADER as u32,
    offset: 2,
    length: 2,
};

/// Returns the steps of a rule.
pub(super) fn steps(when: Match, then: Verdict, family: Family) -> Vec<Step> {
    let tcp = [
        Step::Meta(PROTOCOL),
        Step::Equal(Value::of(&[libc::IPPROTO_TCP as u8])),
    ];
    let mut steps = Vec::with_capacity(6);
    match when {
        // Users and groups are in the machine's byte order.
        Match::User(uid) => steps.extend([
            Step::Meta(SOCKET_USER),
            Step::Equal(Value::of(&uid.to_ne_bytes())),
        ]),
        Match::Group(gid) => steps.extend([
            Step::Meta(SOCKET_GROUP),
            Step::Equal(Value::of(&gid.to_ne_bytes())),
        ]),
        Match::Loopback => steps.extend([Step::Meta(OUT_INTERFACE), Step::Equal(Value::of(&LOOPBACK))]),
        Match::PortIn(set) => {
            steps.extend(tcp);
            steps.extend([DESTINATION_PORT, Step::Lookup(set)]);
        }
        Match::SourceIn(set) => steps.extend([source_address(family), Step::Lookup(set)]),
        Match::Tcp => steps.extend(tcp),
    }
    match then {
        Verdict::Return => steps.push(Step::Verdict(libc::NFT_RETURN)),
        Verdict::Redirect(port) => {
            steps.extend([
                Step::Load(Value::of(&port.number().to_be_bytes())),
                Step::Redirect,
            ]);
        }
    }
    steps
}

/// Returns the rule with these steps; none when the plugin writes no such rule.
pub(super) fn rule(steps_found: &[Step], family: Family) -> Option<(Match, Verdict)> {
    let then = match steps_found {
        [.., Step::Verdict(libc::NFT_RETURN)] => Verdict::Return,
        [.., Step::Load(port), Step::Redirect] => {
            Verdict::Redirect(Port::new(u16::from_be_bytes(field(&port.bytes, 0)?))?)
        }
        _ => return None,
    };
    let when = match *steps_found {
        [Step::Meta(SOCKET_USER), Step::Equal(uid), ..] => {
            Match::User(u32::from_ne_bytes(field(&uid.bytes, 0)?))
        }
        [Step::Meta(SOCKET_GROUP), Step::Equal(gid), ..] => {
            Match::Group(u32::from_ne_bytes(field(&gid.bytes, 0)?))
        }
        [Step::Meta(OUT_INTERFACE), ..] => Match::Loopback,
        [
            Step::Meta(PROTOCOL),
            _,
            Step::Payload { .. },
            Step::Lookup(set),
            ..,
        ] => Match::PortIn(set),
        [Step::Meta(PROTOCOL), ..] => Match::Tcp,
        [Step::Payload { .. }, Step::Lookup(set), ..] => Match::SourceIn(set),
        _ => return None,
    };
    // Compares the steps that the patterns above do not.
    (steps(when, then, family) == steps_found).then_some((when, then))
}

/// Returns the step that loads the source address from the IP header.
fn source_address(family: Family) -> Step {
    let (offset, length) = match family {
        Family::V4 => (12, 4),
        Family::V6 => (8, 16),
    };
    Step::Payload {
        base: libc::NFT_PAYLOAD_NETWORK_HEADER as u32,
        offset,
        length,
    }
}

// === impl Step ===

impl Step {
    /// Writes the step as an element of a rule's expression list.
    pub(super) fn write(self, writer: &mut Writer) {
        let expression = |writer: &mut Writer, name, data: &dyn Fn(&mut Writer)| {
            writer.nest(uapi::LIST_ELEMENT, |w| {
                w.put_text(uapi::EXPRESSION_NAME, name);
                w.nest(uapi::EXPRESSION_DATA, data);
            });
        };
        match self {
            Self::Meta(key) => expression(writer, "meta", &|w| {
                w.put_u32(uapi::META_KEY, key);
                w.put_u32(uapi::META_DREG, uapi::REGISTER);
            }),
            Self::Payload { base, offset, length } => expression(writer, "payload", &|w| {
                w.put_u32(uapi::PAYLOAD_DREG, uapi::REGISTER);
                w.put_u32(uapi::PAYLOAD_BASE, base);
                w.put_u32(uapi::PAYLOAD_OFFSET, offset);
                w.put_u32(uapi::PAYLOAD_LENGTH, length);
            }),
            Self::Equal(value) => expression(writer, "cmp", &|w| {
                w.put_u32(uapi::CMP_SREG, uapi::REGISTER);
                w.put_u32(uapi::CMP_OP, libc::NFT_CMP_EQ as u32);
                w.nest(uapi::CMP_DATA, |w| w.put(uapi::DATA_VALUE, value.bytes()));
            }),
            Self::Lookup(set) => expression(writer, "lookup", &|w| {
                w.put_text(uapi::LOOKUP_SET, set.name());
                w.put_u32(uapi::LOOKUP_SREG, uapi::REGISTER);
            }),
            Self::Load(value) => expression(writer, "immediate", &|w| {
                w.put_u32(uapi::IMMEDIATE_DREG, uapi::REGISTER);
                w.nest(uapi::IMMEDIATE_DATA, |w| w.put(uapi::DATA_VALUE, value.bytes()));
            }),
            Self::Redirect => expression(writer, "redir", &|w| {
                w.put_u32(uapi::REDIR_PORT_MIN, uapi::REGISTER);
            }),
            Self::Verdict(code) => expression(writer, "immediate", &|w| {
                w.put_u32(uapi::IMMEDIATE_DREG, uapi::VERDICT_REGISTER);
                w.nest(uapi::IMMEDIATE_DATA, |w| {
                    w.nest(uapi::DATA_VERDICT, |w| {
                        w.put_u32(uapi::VERDICT_CODE, code.cast_unsigned())
                    });
                });
            }),
        }
    }

    /// Reads an element of a rule's expression list. The error is the name of an unknown expression.
    pub(super) fn read(element: &Attributes<'_>) -> Result<Self, String> {
        let name = element.text(uapi::EXPRESSION_NAME).unwrap_or("without a name");
        let data = element.nested(uapi::EXPRESSION_DATA);
        let through = |attribute| data.u32(attribute) == Some(uapi::REGISTER);
        let step = match name {
            "meta" if through(uapi::META_DREG) => data.u32(uapi::META_KEY).map(Self::Meta),
            "payload" if through(uapi::PAYLOAD_DREG) => Self::read_payload(&data),
            "cmp" if through(uapi::CMP_SREG) && data.u32(uapi::CMP_OP) == Some(libc::NFT_CMP_EQ as u32) => {
                data.nested(uapi::CMP_DATA)
                    .payload(uapi::DATA_VALUE)
                    .and_then(Value::read)
                    .map(Self::Equal)
            }
            "lookup" if through(uapi::LOOKUP_SREG) && data.u32(uapi::LOOKUP_FLAGS).unwrap_or(0) == 0 => data
                .text(uapi::LOOKUP_SET)
                .and_then(SetName::from_name)
                .map(Self::Lookup),
            "immediate" if through(uapi::IMMEDIATE_DREG) => data
                .nested(uapi::IMMEDIATE_DATA)
                .payload(uapi::DATA_VALUE)
                .and_then(Value::read)
                .map(Self::Load),
            "immediate" => data
                .nested(uapi::IMMEDIATE_DATA)
                .nested(uapi::DATA_VERDICT)
                .u32(uapi::VERDICT_CODE)
                .map(|code| Self::Verdict(code.cast_signed())),
            // The kernel returns both ends of a port range, also for a single port.
            "redir" if through(uapi::REDIR_PORT_MIN) && through(uapi::REDIR_PORT_MAX) => Some(Self::Redirect),
            _ => None,
        };
        step.ok_or_else(|| name.to_owned())
    }

    fn read_payload(data: &Attributes<'_>) -> Option<Self> {
        Some(Self::Payload {
            base: data.u32(uapi::PAYLOAD_BASE)?,
            offset: data.u32(uapi::PAYLOAD_OFFSET)?,
            length: data.u32(uapi::PAYLOAD_LENGTH)?,
        })
    }
}

// === impl Value ===

impl Value {
    /// A value of at most 16 bytes.
    fn of(bytes: &[u8]) -> Self {
        Self::read(bytes).expect("values are at most 16 bytes long")
    }

    fn read(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; 16];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self {
            bytes,
            length: from.len(),
        })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_read_back_from_its_steps() {
        let port = Port::new(4143).unwrap();
        let matches = [
            Match::User(2102),
            Match::Group(0),
            Match::Loopback,
            Match::PortIn(SetName::SkipInboundPorts),
            Match::SourceIn(SetName::SkipSources),
            Match::Tcp,
        ];
        for family in [Family::V4, Family::V6] {
            for when in matches {
                for then in [Verdict::Return, Verdict::Redirect(port)] {
                    assert_eq!(rule(&steps(when, then, family), family), Some((when, then)));
                }
            }
        }
    }

    #[test]
    fn other_steps_are_no_rule() {
        let tcp = steps(Match::Tcp, Verdict::Return, Family::V4);
        let mut udp = tcp.clone();
        udp[1] = Step::Equal(Value::of(&[17]));
        let mut other_interface = steps(Match::Loopback, Verdict::Return, Family::V4);
        other_interface[1] = Step::Equal(Value::of(b"lo"));
        let mut longer = tcp.clone();
        longer.insert(2, DESTINATION_PORT);
        let mut accept = tcp;
        accept[2] = Step::Verdict(libc::NF_ACCEPT);
        let wrong_family = steps(Match::SourceIn(SetName::SkipSources), Verdict::Return, Family::V6);
        for found in [udp, other_interface, longer, accept, wrong_family, vec![]] {
            assert_eq!(rule(&found, Family::V4), None, "{found:?}");
        }
    }
}
