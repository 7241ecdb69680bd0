//! Names that outlive a process.

use std::fmt;
use std::str::FromStr;

use newtype_uuid::{TypedUuid, TypedUuidKind, TypedUuidTag};

/// What a ref id names: a call, forever.
pub enum CallKind {}

impl TypedUuidKind for CallKind {
    fn tag() -> TypedUuidTag {
        const TAG: TypedUuidTag = TypedUuidTag::new("ref");
        TAG
    }
}

pub type RefId = TypedUuid<CallKind>;

/// One life of a session, or a session that nobody has named otherwise.
pub enum SessionKind {}

impl TypedUuidKind for SessionKind {
    fn tag() -> TypedUuidTag {
        const TAG: TypedUuidTag = TypedUuidTag::new("session");
        TAG
    }
}

pub type SessionId = TypedUuid<SessionKind>;

/// Bytes by their SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The address under which a blob can be read.
    pub fn uri(&self) -> String {
        format!("{BLOB_SCHEME}{self}")
    }

    /// The blob that an address names. The scheme may be left out.
    pub fn from_uri(uri: &str) -> Result<Self, NoDigest> {
        uri.strip_prefix(BLOB_SCHEME).unwrap_or(uri).parse()
    }
}

const BLOB_SCHEME: &str = "blob://sha256/";

/// A name that is no digest. Nothing else is ever looked up, so that a name cannot become a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a blob is named by the 64 hexadecimal digits of its SHA-256, as in blob://sha256/9f86d081…")]
pub struct NoDigest;

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return Err(NoDigest);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0]).ok_or(NoDigest)? << 4 | digit(pair[1]).ok_or(NoDigest)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, NoDigest};

    #[test]
    fn a_digest_and_its_address_are_the_same_thing() {
        let digest = Digest::of(b"test");
        assert_eq!(digest.to_string(), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
        assert_eq!(Digest::from_uri(&digest.uri()), Ok(digest));
        assert_eq!(digest.to_string().to_uppercase().parse(), Ok(digest));
    }

    #[test]
    fn nothing_else_is_a_name() {
        let long = "a".repeat(65);
        let odd = format!("{}+1", "a".repeat(62));
        for name in ["", "..", "../../etc/passwd", "blob://sha256/..", "blob://md5/00", &long, &odd] {
            assert_eq!(Digest::from_uri(name), Err(NoDigest), "{name}");
        }
    }
}
