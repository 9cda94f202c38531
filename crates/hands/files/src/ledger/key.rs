//! The key that signs heads: 32 random bytes in `audit/key`, made on first use.
//!
//! It keeps apart what Portcullis wrote from what was written later by
//! somebody who cannot read the key. It is no protection from a program that
//! runs as our own user.

use std::os::fd::AsFd;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use portcullis_proto::{Failure, Reason};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::files::{create_append, open_read, read_at, write_all};
use crate::private_dir::{PrivateDir, os_failure};

const NAME: &str = "key";
const LENGTH: usize = 32;
/// Keeps a head's signature from being taken for a signature on anything else.
const DOMAIN: &[u8] = b"portcullis audit head 1\0";

/// Signs heads.
pub(crate) struct Key(SigningKey);

impl Key {
    /// Reads the key, making it first where there is none.
    pub(crate) fn load_or_create(audit: &PrivateDir) -> Result<Self, Failure> {
        if let Some(key) = Self::load(audit)? {
            return Ok(key);
        }
        create(audit)?;
        Self::load(audit)?.ok_or_else(|| os_failure(Errno::NOENT, &audit.path().join(NAME)))
    }

    /// Reads the key, if there is one.
    pub(crate) fn load(audit: &PrivateDir) -> Result<Option<Self>, Failure> {
        let failed = |errno| os_failure(errno, &audit.path().join(NAME));
        let fd = match open_read(audit, NAME) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        check_closed(audit, &fd)?;
        let mut bytes = [0; LENGTH + 1];
        let read = read_at(&fd, &mut bytes, 0).map_err(failed)?;
        match bytes.first_chunk::<LENGTH>() {
            Some(seed) if read == LENGTH => Ok(Some(Self(SigningKey::from_bytes(seed)))),
            _ => Err(Failure::new(
                Reason::Io,
                "The audit's key is damaged, so no line can be signed.",
            )
            .hint("Restore the key from a backup; `portcullis audit verify` needs it too.")
            .detail(audit.path().join(NAME).display())),
        }
    }

    pub(crate) fn public(&self) -> VerifyingKey {
        self.0.verifying_key()
    }

    /// Signs the part of a head line that comes before its signature.
    pub(crate) fn sign(&self, head: &[u8]) -> [u8; 64] {
        self.0.sign(&message(head)).to_bytes()
    }
}

/// Whether `signature` is the key's, on this head.
pub(crate) fn signed(key: &VerifyingKey, head: &[u8], signature: &[u8; 64]) -> bool {
    key.verify_strict(&message(head), &Signature::from_bytes(signature))
        .is_ok()
}

fn message(head: &[u8]) -> Vec<u8> {
    [DOMAIN, head].concat()
}

/// Makes the key under another name and links it in place: a second process
/// sees a whole key or none, and whoever comes first wins.
fn create(audit: &PrivateDir) -> Result<(), Failure> {
    let failed = |errno| os_failure(errno, &audit.path().join(NAME));
    let mut seed = [0; LENGTH];
    let mut suffix = [0; 8];
    for bytes in [seed.as_mut_slice(), suffix.as_mut_slice()] {
        getrandom::fill(bytes).map_err(|error| {
            Failure::from(Reason::Io).detail(format_args!("no randomness: {error}"))
        })?;
    }
    let temporary = format!("key.{:016x}", u64::from_be_bytes(suffix));
    let fd = create_append(audit, &temporary).map_err(failed)?;
    let linked = write_all(&fd, &seed)
        // Once in a lifetime, so it may wait for the disk.
        .and_then(|()| rustix::fs::fdatasync(&fd))
        .and_then(|()| {
            rustix::fs::linkat(audit.fd(), &temporary, audit.fd(), NAME, AtFlags::empty())
        });
    rustix::fs::unlinkat(audit.fd(), &temporary, AtFlags::empty()).map_err(failed)?;
    match linked {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

fn check_closed(audit: &PrivateDir, fd: impl AsFd) -> Result<(), Failure> {
    let path = audit.path().join(NAME);
    let stat = rustix::fs::fstat(fd).map_err(|errno| os_failure(errno, &path))?;
    if FileType::from_raw_mode(stat.st_mode).is_file()
        && !Mode::from_raw_mode(stat.st_mode).intersects(Mode::RWXG | Mode::RWXO)
        && stat.st_uid == rustix::process::geteuid().as_raw()
    {
        return Ok(());
    }
    Err(Failure::new(
        Reason::InsecurePermissions,
        "The audit's key is open to other users.",
    )
    .hint("Run `chmod 600` on the key; the log names it.")
    .detail(format_args!("chmod 600 {}", path.display())))
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}
