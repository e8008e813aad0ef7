//! Requests to nf_tables over a netlink socket: batches, queries and dumps. Bytes in, bytes out.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::retry_on_intr,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
        sockopt::{self, Timeout},
    },
};

use super::{
    encode::{Batch, message_type},
    error::{NftError, Refusal},
    message::{Attributes, Message, Messages, Writer, field},
    part::Part,
    uapi,
};
use crate::os::sys;

/// The kernel answers before `send` returns; the limit only guards against a kernel that does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// In bytes, above the size of a dump's datagrams: at most 32 KiB (`netlink_dump` in net/netlink/af_netlink.c).
const DUMP_BUFFER: usize = 64 * 1024;
/// In bytes, above the size of an answer: a header, an error and its text. Sixteen times less memory to touch than for a
/// dump.
const ANSWER_BUFFER: usize = 4 * 1024;
/// In bytes, what every socket may send (`net.core.wmem_default` is about 208 KiB).
const DEFAULT_SEND: usize = 128 * 1024;
/// The number of attempts at a dump while rules change.
const DUMP_TRIES: usize = 10;
/// Attributes of an error (`enum nlmsgerr_attrs` in linux/netlink.h).
const ERROR_TEXT: u16 = 1;
const ERROR_OFFSET: u16 = 2;
/// `NLM_F_CAPPED`: the error does not repeat the message it answers.
const CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`: the error has attributes.
const HAS_ATTRIBUTES: u16 = 0x200;

/// A netlink socket and the sequence number of its next message.
#[derive(Debug)]
pub(super) struct NftSocket {
    socket: OwnedFd,
    next: u32,
    buffer: Vec<u8>,
}

impl NftSocket {
    /// Opens a socket in the calling thread's namespace.
    pub(super) fn open() -> Result<Self, NftError> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))
            .map_err(NftError::open)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT)).map_err(NftError::open)?;
        // Kernels before 4.12 lack both options: their errors have no text, and repeat the message they answer.
        let _ = sys::enable_netlink_option(&socket, libc::NETLINK_EXT_ACK);
        let _ = sys::enable_netlink_option(&socket, libc::NETLINK_CAP_ACK);
        Ok(Self {
            socket,
            next: 1,
            buffer: vec![0; ANSWER_BUFFER],
        })
    }

    /// Commits a batch, all or nothing.
    ///
    /// The kernel answers every message that fails and the last one, so a single answer without an error means success.
    pub(super) fn commit<'a>(&mut self, build: impl FnOnce(u32) -> Batch<'a>) -> Result<(), NftError> {
        let batch = build(self.next);
        if batch.is_empty() {
            return Ok(());
        }
        self.next = batch.last().wrapping_add(2);
        self.make_room(batch.bytes().len())?;
        self.send(batch.bytes())?;
        let mut refused: Option<Refusal> = None;
        loop {
            let length = self.receive("read the answer to the rules")?;
            for message in Messages::of(&self.buffer[..length]) {
                // Answers to an earlier batch with several refused messages are ignored.
                let Some(part) = batch.part(message.sequence) else {
                    continue;
                };
                let Some(answer) = answer(&message) else { continue };
                if let Err(refusal) = answer {
                    // Later errors are often consequences of the first.
                    refused.get_or_insert(refusal);
                }
                if message.sequence == batch.last() || matches!(part, Part::Begin) {
                    return refused.map_or(Ok(()), |refusal| Err(refused_part(&batch, refusal)));
                }
            }
        }
    }

    /// Returns true when the plugin's table of this family exists.
    pub(super) fn has_table(&mut self, family: u8) -> Result<bool, NftError> {
        self.has("look for the table", libc::NFT_MSG_GETTABLE, family, |w| {
            w.put_text(uapi::TABLE_NAME, crate::rules::ruleset::TABLE);
        })
    }

    /// Returns true when this chain of this table exists.
    pub(super) fn has_chain(&mut self, family: u8, table: &str, chain: &str) -> Result<bool, NftError> {
        self.has("look for a chain", libc::NFT_MSG_GETCHAIN, family, |w| {
            w.put_text(uapi::CHAIN_TABLE, table);
            w.put_text(uapi::CHAIN_NAME, chain);
        })
    }

    /// Returns true when the object exists that the request names.
    fn has(
        &mut self,
        operation: &str,
        kind: libc::c_int,
        family: u8,
        name: impl FnOnce(&mut Writer),
    ) -> Result<bool, NftError> {
        let sequence = self.request(kind, 0, family, name)?;
        loop {
            let length = self.receive(operation)?;
            for message in Messages::of(&self.buffer[..length]).filter(|m| m.sequence == sequence) {
                match answer(&message) {
                    None => return Ok(true),
                    Some(Ok(())) => {}
                    // Kernels before 4.17 answer EAFNOSUPPORT for a family whose module is not loaded.
                    Some(Err(refusal)) if matches!(refusal.errno, libc::ENOENT | libc::EAFNOSUPPORT) => {
                        return Ok(false);
                    }
                    Some(Err(refusal)) => return Err(NftError::refused(operation, refusal, None, None)),
                }
            }
        }
    }

    /// Returns all messages of a dump.
    pub(super) fn dump(
        &mut self,
        what: &str,
        kind: libc::c_int,
        family: u8,
        attributes: impl Fn(&mut Writer),
    ) -> Result<Vec<u8>, NftError> {
        self.buffer.resize(DUMP_BUFFER, 0);
        for _ in 0..DUMP_TRIES {
            let sequence = self.request(kind, libc::NLM_F_DUMP, family, &attributes)?;
            if let Some(dump) = self.receive_dump(what, sequence)? {
                return Ok(dump);
            }
        }
        Err(NftError::talk(what, io::Error::from_raw_os_error(libc::EAGAIN)))
    }

    /// Receives a dump; none when something changed meanwhile.
    fn receive_dump(&mut self, what: &str, sequence: u32) -> Result<Option<Vec<u8>>, NftError> {
        let mut dump = Vec::new();
        let mut interrupted = false;
        loop {
            let length = self.receive(what)?;
            let datagram = &self.buffer[..length];
            for message in Messages::of(datagram).filter(|m| m.sequence == sequence) {
                interrupted |= message.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                if i32::from(message.kind) == libc::NLMSG_DONE {
                    return Ok((!interrupted).then_some(dump));
                }
                if let Some(Err(refusal)) = answer(&message) {
                    return Err(NftError::refused(what, refusal, None, None));
                }
            }
            dump.extend_from_slice(datagram);
            dump.resize(dump.len().next_multiple_of(4), 0);
        }
    }

    /// Sends a single message and returns its sequence number.
    fn request(
        &mut self,
        kind: libc::c_int,
        flags: libc::c_int,
        family: u8,
        attributes: impl FnOnce(&mut Writer),
    ) -> Result<u32, NftError> {
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        let mut writer = Writer::default();
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        writer.message(message_type(kind), flags, sequence, family, 0);
        attributes(&mut writer);
        self.send(writer.bytes())?;
        Ok(sequence)
    }

    /// Makes room for a batch, which is one datagram and must fit into the send buffer.
    fn make_room(&mut self, length: usize) -> Result<(), NftError> {
        // Without NETLINK_CAP_ACK, an error repeats a message of the batch.
        if self.buffer.len() < ANSWER_BUFFER + length {
            self.buffer.resize(ANSWER_BUFFER + length, 0);
        }
        if length <= DEFAULT_SEND {
            return Ok(());
        }
        // The kernel doubles the size. FORCE exceeds the system's limit and needs CAP_NET_ADMIN, which the rules need, too.
        sockopt::set_socket_send_buffer_size_force(&self.socket, length)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&self.socket, length))
            .map_err(|e| NftError::talk("enlarge the send buffer for the rules", e))
    }

    fn send(&self, bytes: &[u8]) -> Result<(), NftError> {
        const OPERATION: &str = "send the request";
        // The kernel has processed the datagram when this returns. An interrupted call has sent nothing.
        match retry_on_intr(|| send(&self.socket, bytes, SendFlags::empty())) {
            Ok(length) if length == bytes.len() => Ok(()),
            Ok(_) => Err(NftError::talk(OPERATION, io::ErrorKind::WriteZero)),
            Err(e) => Err(NftError::talk(OPERATION, e)),
        }
    }

    fn receive(&mut self, operation: &str) -> Result<usize, NftError> {
        let buffer = &mut self.buffer;
        // TRUNC: the length is that of the datagram, also when the buffer is shorter.
        match retry_on_intr(|| recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC)) {
            Ok((_, length)) if length > buffer.len() => Err(NftError::talk(
                operation,
                io::Error::from_raw_os_error(libc::ENOBUFS),
            )),
            Ok((_, length)) => Ok(length),
            Err(e) => Err(NftError::talk(operation, e)),
        }
    }
}

fn refused_part(batch: &Batch<'_>, refusal: Refusal) -> NftError {
    let part = batch.part(refusal.sequence);
    let operation = part.map_or_else(|| "change the ruleset".to_owned(), |part| part.to_string());
    let expression = refusal
        .offset
        .and_then(|offset| batch.expression_at(refusal.sequence, offset));
    NftError::refused(&operation, refusal, part, expression)
}

/// Reads an answer; none when the message is data.
pub(super) fn answer(message: &Message<'_>) -> Option<Result<(), Refusal>> {
    if i32::from(message.kind) != libc::NLMSG_ERROR {
        return None;
    }
    // `nlmsgerr`: a negative error number, then the header of the answered message, then, unless capped, its body.
    let code = field(message.body, 0).map_or(-libc::EPROTO, i32::from_ne_bytes);
    if code == 0 {
        return Some(Ok(()));
    }
    let answered = if message.flags & CAPPED != 0 {
        16
    } else {
        field(message.body, 4)
            .map_or(16, u32::from_ne_bytes)
            .next_multiple_of(4) as usize
    };
    let attributes = match message.flags & HAS_ATTRIBUTES {
        0 => &[],
        _ => message
            .body
            .get(4usize.saturating_add(answered)..)
            .unwrap_or_default(),
    };
    let attributes = Attributes::of(attributes);
    Some(Err(Refusal {
        sequence: message.sequence,
        errno: code.checked_neg().unwrap_or(libc::EPROTO),
        text: attributes.text(ERROR_TEXT).map(str::to_owned),
        // This number is in the machine's byte order.
        offset: attributes
            .payload(ERROR_OFFSET)
            .and_then(|o| field(o, 0))
            .map(|o| u32::from_ne_bytes(o) as usize),
    }))
}
