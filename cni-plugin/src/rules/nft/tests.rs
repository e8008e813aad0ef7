//! Damaged dumps and answers: no input of the decoder may cause a panic.

use std::io::Write;

use evergreen_test_support::netns::Namespace;

use super::{
    decode::{self, Dumps},
    dump,
    socket::{self, NftSocket},
};
use crate::{
    net::{
        cidr::{CidrSet, Family},
        ports::{Port, PortSet},
    },
    policy::intent::Redirect,
    rules::{nft, ruleset::Ruleset},
};

/// Rounds of a usual run, some seconds; `FUZZ_ROUNDS` overrides them.
const ROUNDS: u64 = 5_000;

fn ruleset() -> Ruleset {
    Ruleset::build(&Redirect {
        families: vec![Family::V4, Family::V6],
        inbound_port: Port::known(4143),
        outbound_port: Port::known(4140),
        proxy_uid: Some(2102),
        proxy_gid: Some(2102),
        inbound_only: PortSet::from_annotation("80,8080-8090,65535").unwrap(),
        skip_inbound: PortSet::from_annotation("4190-4191,22").unwrap(),
        skip_outbound: PortSet::from_annotation("1-5,443,3306").unwrap(),
        skip_sources: CidrSet::from_annotation("10.0.0.0/8,192.168.0.7/32,fd00::/8").unwrap(),
    })
}

/// Pseudo-random numbers, the same in every run (xorshift, G. Marsaglia).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 2, 3, 4, 0x7f, 0x80, 0xff][self.below(8)],
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..(at + self.below(40)).min(bytes.len()))),
                4 => {
                    // Mostly the low byte of a length: headers start at multiples of 4.
                    let at = at / 4 * 4;
                    bytes[at] = self.below(256) as u8;
                }
                _ => {
                    let piece = bytes[at..(at + self.below(80)).min(bytes.len())].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
    }
}

#[test]
fn damaged_dumps_are_read_without_panic() {
    let (namespace, wanted) = (Namespace::new(), ruleset());
    let whole: Vec<(Family, Dumps)> = namespace.run(|| {
        nft::apply(&wanted).unwrap();
        let mut kernel = NftSocket::open().unwrap();
        [Family::V4, Family::V6]
            .map(|family| (family, dump(&mut kernel, family).unwrap()))
            .to_vec()
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "an option of the person who runs the test"
    )]
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..rounds {
        let (family, mut dumps) = whole[numbers.below(2)].clone();
        let part = numbers.below(4 + dumps.elements.len());
        numbers.damage(match part {
            0 => &mut dumps.table,
            1 => &mut dumps.chains,
            2 => &mut dumps.rules,
            3 => &mut dumps.sets,
            _ => &mut dumps.elements[part - 4].1,
        });
        match decode::table(family, &dumps) {
            Ok(table) => {
                read += 1;
                // Any table that is read can be compared and printed.
                let found = Ruleset { tables: vec![table] };
                let _ = (
                    found.matches(&wanted),
                    found.matches_comments(),
                    found.to_string(),
                );
            }
            Err(e) => {
                refused += 1;
                assert!(!e.to_string().is_empty());
            }
        }
    }
    // Not by `println!`, whose output the test harness hides: the counts are part of the test report.
    let line = format!(
        "netlink fuzz: {rounds} damaged dumps, {read} read as something, {refused} refused, no panic"
    );
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[test]
fn damaged_answers_are_read_without_panic() {
    // An error with text and offset, as `netlink_ack` writes it.
    let mut answer = vec![60, 0, 0, 0, 2, 0, 0, 3, 7, 0, 0, 0, 0, 0, 0, 0];
    answer.extend((-2i32).to_ne_bytes());
    answer.extend([0; 16]);
    answer.extend([
        12, 0, 1, 0, b'n', b'o', b' ', b'o', b'n', b'e', 0, 0, 8, 0, 2, 0, 20, 0, 0, 0,
    ]);
    answer[0] = answer.len() as u8;
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for _ in 0..ROUNDS {
        let mut damaged = answer.clone();
        numbers.damage(&mut damaged);
        for message in super::message::Messages::of(&damaged) {
            let _ = socket::answer(&message);
        }
    }
    let message = super::message::Messages::of(&answer).next().unwrap();
    let refusal = socket::answer(&message).unwrap().unwrap_err();
    assert_eq!(
        (refusal.errno, refusal.sequence, refusal.offset),
        (libc::ENOENT, 7, Some(20))
    );
    assert_eq!(refusal.text.as_deref(), Some("no one"));
}
