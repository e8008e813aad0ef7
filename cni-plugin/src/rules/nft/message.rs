//! Netlink messages and attributes: written into a buffer, and read with every length checked. Independent of tables and
//! rules.
//!
//! Layout: linux/netlink.h (`nlmsghdr`, `nlattr`) and linux/netfilter/nfnetlink.h (`nfgenmsg`). Lengths include the
//! header; messages and attributes start at multiples of 4 bytes.

/// Bytes of `nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `nfgenmsg`, which follows `nlmsghdr` in every netfilter message.
const FAMILY_HEADER: usize = 4;
/// Bytes of `nlattr`.
const ATTRIBUTE_HEADER: usize = 4;
/// The bits of an attribute's type without its flags.
const TYPE_MASK: u16 = 0x3fff;
/// `NLA_F_NESTED`
const NESTED: u16 = 0x8000;

/// Messages for one datagram.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    message: usize,
}

/// An open attribute: what is written next goes into it.
#[derive(Debug)]
#[must_use]
pub(super) struct Open(usize);

/// A message from the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    /// `NLMSG_*`, or subsystem and message of netfilter.
    pub(super) kind: u16,
    /// `NLM_F_*`
    pub(super) flags: u16,
    /// The sequence number of the message it answers.
    pub(super) sequence: u32,
    /// The bytes after the header.
    pub(super) body: &'a [u8],
}

/// The messages of a datagram. Ends at an invalid length.
#[derive(Debug, Clone)]
pub(super) struct Messages<'a>(&'a [u8]);

/// Attributes, as type and payload. Ends at an invalid length.
#[derive(Debug, Clone)]
pub(super) struct Attributes<'a>(&'a [u8]);

// === impl Writer ===

impl Writer {
    /// Returns all bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Starts a netfilter message and ends the previous one.
    pub(super) fn message(&mut self, kind: u16, flags: u16, sequence: u32, family: u8, resource: u16) {
        self.message = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        // The sender's port, which the kernel knows from the socket.
        self.bytes.extend_from_slice(&[0; 4]);
        // `NFNETLINK_V0` is 0; the resource is in network byte order.
        self.bytes.extend_from_slice(&[family, 0]);
        self.bytes.extend_from_slice(&resource.to_be_bytes());
        self.close_message();
    }

    /// Adds flags to the last message.
    pub(super) fn add_flags(&mut self, flags: u16) {
        let at = self.message + 6;
        let found = u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]);
        self.bytes[at..at + 2].copy_from_slice(&(found | flags).to_ne_bytes());
    }

    /// Writes an attribute of bytes.
    pub(super) fn put(&mut self, kind: u16, payload: &[u8]) {
        let open = self.open(kind, 0);
        self.bytes.extend_from_slice(payload);
        self.close(open);
    }

    /// Writes an attribute with a number in network byte order, which nf_tables uses for all numbers.
    pub(super) fn put_u32(&mut self, kind: u16, number: u32) {
        self.put(kind, &number.to_be_bytes());
    }

    /// Writes an attribute with a NUL-terminated text.
    pub(super) fn put_text(&mut self, kind: u16, text: &str) {
        let open = self.open(kind, 0);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.close(open);
    }

    /// Writes an attribute that contains attributes.
    pub(super) fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let open = self.open(kind, NESTED);
        inside(self);
        self.close(open);
    }

    fn open(&mut self, kind: u16, flags: u16) -> Open {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | flags).to_ne_bytes());
        Open(start)
    }

    fn close(&mut self, Open(start): Open) {
        let length = self.bytes.len() - start;
        // Callers split long attributes; see `encode::RANGES_PER_MESSAGE`.
        let length = u16::try_from(length).expect("an attribute is shorter than 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(aligned(self.bytes.len()), 0);
        self.close_message();
    }

    /// Updates the length of the message, which is complete at any time.
    fn close_message(&mut self) {
        let length = u32::try_from(self.bytes.len() - self.message).expect("a message is shorter than 4 GiB");
        self.bytes[self.message..self.message + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

// === impl Messages ===

impl<'a> Messages<'a> {
    /// Reads the messages of a datagram.
    pub(super) fn of(datagram: &'a [u8]) -> Self {
        Self(datagram)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = u32::from_ne_bytes(field(self.0, 0)?) as usize;
        let body = self.0.get(HEADER..length)?;
        let message = Message {
            kind: u16::from_ne_bytes(field(self.0, 4)?),
            flags: u16::from_ne_bytes(field(self.0, 6)?),
            sequence: u32::from_ne_bytes(field(self.0, 8)?),
            body,
        };
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

impl<'a> Message<'a> {
    /// Returns the family of a netfilter message.
    pub(super) fn family(&self) -> Option<u8> {
        self.body.first().copied()
    }

    /// Returns the attributes of a netfilter message.
    pub(super) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.body.get(FAMILY_HEADER..).unwrap_or_default())
    }
}

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// Reads the attributes in a nested one, or after a header.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the payload of the first attribute of a type.
    pub(super) fn payload(&self, kind: u16) -> Option<&'a [u8]> {
        self.clone()
            .find(|(found, _)| *found == kind)
            .map(|(_, payload)| payload)
    }

    /// Returns the attributes in the first attribute of a type; empty when it is absent.
    pub(super) fn nested(&self, kind: u16) -> Self {
        Self(self.payload(kind).unwrap_or_default())
    }

    /// Returns the first attribute of a type as a number in network byte order.
    pub(super) fn u32(&self, kind: u16) -> Option<u32> {
        field(self.payload(kind)?, 0).map(u32::from_be_bytes)
    }

    /// Returns the first attribute of a type as a text, up to its NUL.
    pub(super) fn text(&self, kind: u16) -> Option<&'a str> {
        let payload = self.payload(kind)?;
        let text = payload.split(|&b| b == 0).next()?;
        std::str::from_utf8(text).ok()
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = usize::from(u16::from_ne_bytes(field(self.0, 0)?));
        let kind = u16::from_ne_bytes(field(self.0, 2)?) & TYPE_MASK;
        let payload = self.0.get(ATTRIBUTE_HEADER..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some((kind, payload))
    }
}

/// Returns `N` bytes at an offset, or none past the end.
pub(super) fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_messages_are_read_back() {
        let mut writer = Writer::default();
        writer.message(2560, 5, 7, 2, 10);
        writer.put_text(1, "lo");
        writer.nest(2, |w| {
            w.put_u32(1, 0x0102_0304);
            w.put(2, &[9]);
        });
        writer.message(17, 1, 8, 0, 0);

        let messages: Vec<_> = Messages::of(writer.bytes()).collect();
        assert_eq!(messages.len(), 2);
        let first = messages[0];
        assert_eq!(
            (first.kind, first.flags, first.sequence, first.family()),
            (2560, 5, 7, Some(2))
        );
        assert_eq!(first.attributes().text(1), Some("lo"));
        assert_eq!(first.attributes().nested(2).u32(1), Some(0x0102_0304));
        assert_eq!(first.attributes().nested(2).payload(2), Some(&[9][..]));
        assert_eq!((messages[1].kind, messages[1].attributes().count()), (17, 0));
    }

    #[test]
    fn invalid_lengths_end_the_reading() {
        for length in [0u16, 1, 3, 5, 200, u16::MAX] {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[1, 0]);
            assert_eq!(Attributes::of(&bytes).count(), 0, "attribute of length {length}");
        }
        for length in [0u32, 1, 15, 17, 200, u32::MAX] {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[0; 12]);
            assert_eq!(Messages::of(&bytes).count(), 0, "message of length {length}");
        }
        // An empty attribute counts; the last one need not be padded.
        assert_eq!(Attributes::of(&[4, 0, 1, 0, 5, 0, 2, 0, 9]).count(), 2);
    }
}
