//! Numbers of linux/netfilter/nf_tables.h that the libc crate lacks. Part of the kernel's stable interface.

use crate::{net::cidr::Family, rules::ruleset::Hook};

/// Returns a family's number in netfilter.
pub(super) fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => libc::NFPROTO_IPV4 as u8,
        Family::V6 => libc::NFPROTO_IPV6 as u8,
    }
}

/// Returns a hook's number in netfilter.
pub(super) fn hook_number(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => libc::NF_INET_PRE_ROUTING as u32,
        Hook::Output => libc::NF_INET_LOCAL_OUT as u32,
    }
}

pub(super) const TABLE_NAME: u16 = 1;
pub(super) const TABLE_FLAGS: u16 = 2;

pub(super) const CHAIN_TABLE: u16 = 1;
pub(super) const CHAIN_NAME: u16 = 3;
pub(super) const CHAIN_HOOK: u16 = 4;
pub(super) const CHAIN_POLICY: u16 = 5;
pub(super) const CHAIN_TYPE: u16 = 7;
pub(super) const HOOK_NUMBER: u16 = 1;
pub(super) const HOOK_PRIORITY: u16 = 2;

pub(super) const RULE_TABLE: u16 = 1;
pub(super) const RULE_CHAIN: u16 = 2;
pub(super) const RULE_EXPRESSIONS: u16 = 4;
pub(super) const RULE_USERDATA: u16 = 7;
/// `NFTNL_UDATA_RULE_COMMENT` (libnftnl/udata.h): type, length and text in a rule's user data, as `nft` writes it.
pub(super) const USERDATA_COMMENT: u8 = 0;

pub(super) const SET_TABLE: u16 = 1;
pub(super) const SET_NAME: u16 = 2;
pub(super) const SET_FLAGS: u16 = 3;
pub(super) const SET_KEY_TYPE: u16 = 4;
pub(super) const SET_KEY_LENGTH: u16 = 5;
pub(super) const SET_ID: u16 = 10;
/// `nft`'s own numbers of key types (`enum datatypes` in its datatype.h); the kernel only stores them.
pub(super) const TYPE_IPV4_ADDRESS: u32 = 7;
pub(super) const TYPE_IPV6_ADDRESS: u32 = 8;
pub(super) const TYPE_PORT: u32 = 13;

pub(super) const ELEMENTS_TABLE: u16 = 1;
pub(super) const ELEMENTS_SET: u16 = 2;
pub(super) const ELEMENTS_LIST: u16 = 3;
pub(super) const ELEMENT_KEY: u16 = 1;
pub(super) const ELEMENT_FLAGS: u16 = 3;

pub(super) const LIST_ELEMENT: u16 = 1;
pub(super) const EXPRESSION_NAME: u16 = 1;
pub(super) const EXPRESSION_DATA: u16 = 2;
pub(super) const DATA_VALUE: u16 = 1;
pub(super) const DATA_VERDICT: u16 = 2;
pub(super) const VERDICT_CODE: u16 = 1;

pub(super) const META_DREG: u16 = 1;
pub(super) const META_KEY: u16 = 2;
pub(super) const PAYLOAD_DREG: u16 = 1;
pub(super) const PAYLOAD_BASE: u16 = 2;
pub(super) const PAYLOAD_OFFSET: u16 = 3;
pub(super) const PAYLOAD_LENGTH: u16 = 4;
pub(super) const CMP_SREG: u16 = 1;
pub(super) const CMP_OP: u16 = 2;
pub(super) const CMP_DATA: u16 = 3;
pub(super) const LOOKUP_SET: u16 = 1;
pub(super) const LOOKUP_SREG: u16 = 2;
pub(super) const LOOKUP_FLAGS: u16 = 5;
pub(super) const IMMEDIATE_DREG: u16 = 1;
pub(super) const IMMEDIATE_DATA: u16 = 2;
pub(super) const REDIR_PORT_MIN: u16 = 1;
pub(super) const REDIR_PORT_MAX: u16 = 2;

/// The register that holds each value.
pub(super) const REGISTER: u32 = libc::NFT_REG_1 as u32;
/// The register that holds the verdict on the packet.
pub(super) const VERDICT_REGISTER: u32 = libc::NFT_REG_VERDICT as u32;
