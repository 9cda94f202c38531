//! The verbs of archives, raced by `race`: what is packed holds no byte and no
//! name from outside and no secret, what is looked into is the archive inside,
//! and what is unpacked stands inside.
//!
//! The file that is swapped is itself an archive, inside and outside, so that
//! every attack is one on what is packed and on what is unpacked.

use std::io::Read as _;

use portcullis_files::archive::PackAs;
use portcullis_files::{ByteWindow, Expect, ScopedFs, WriteOptions};
use portcullis_testkit::Scratch;

use crate::victim::tar_of;

pub(crate) const VERBS: [&str; 5] = ["pack", "pack there", "inspect", "extract", "undo"];

/// In every name and every file outside that stands nowhere inside.
const OUTSIDE: &str = "outside-only";
const PRECIOUS: &str = "precious";
/// In a file inside that no archive may hold.
const CANARY: &str = "canary-of-a-secret";
const INSIDE: &str = "inside-content";
/// How often what was made is looked for, while it is swapped away.
const LOOKS: usize = 200;

pub(crate) fn plant(scratch: &Scratch, attack: &str) {
    let outside = tar_of(&[(OUTSIDE, PRECIOUS), ("x", PRECIOUS)]);
    for dir in ["../out", "../out/a/b", "../around/b"] {
        scratch.file(&format!("{dir}/f"), &outside);
        scratch.file(&format!("{dir}/{OUTSIDE}"), PRECIOUS);
        scratch.file(&format!("{dir}/g"), PRECIOUS);
    }
    scratch.add("../out/packs/\n packs/\n a/b/d/\n keep/k = kept");
    scratch.file("a/b/f", tar_of(&[("x", INSIDE), ("y/z", "z")]));
    scratch.file("a/b/g", INSIDE);
    scratch.file("a/b/.env", CANARY);
    if attack == "hard link" {
        scratch.chown("../out/f", 65_534);
    }
}

/// Whether this attack can be tried here: a link to a file of one's own is a
/// file inside, so that the one outside must be somebody else's.
pub(crate) fn can_try(attack: &str) -> bool {
    attack != "hard link" || rustix::process::geteuid().is_root()
}

/// One operation; whether it succeeded.
pub(crate) async fn act(fs: &ScopedFs, verb: &str, n: u64, last: &mut Option<String>) -> bool {
    match verb {
        "pack" => pack(fs, "a", "packs/p", n).await,
        // Where it comes to stand is swapped, too.
        "pack there" => pack(fs, "a/b", "a/b/d/p", n).await,
        "inspect" => {
            let Ok(inspected) = fs.inspect_archive("a/b/f").await else {
                return false;
            };
            let items = inspected.manifest.items.iter();
            let names: Vec<&str> = items.map(|item| item.path.as_str()).collect();
            assert_eq!(names, ["x", "y/z"], "an archive from outside");
            true
        }
        "extract" => {
            let _of_before = fs.remove("a/b/e", &Expect::Anything).await;
            let Ok(done) = fs.extract_archive("a/b/f", fs, "a/b/e").await else {
                return false;
            };
            let told = (done.entries, done.bytes);
            assert_eq!(told, (2, INSIDE.len() as u64 + 1), "from outside");
            *last = done.receipt.undo;
            if let Some(x) = read(fs, "a/b/e/x").await {
                assert_eq!(x, INSIDE.as_bytes(), "from outside");
            }
            true
        }
        _ => match last.take() {
            Some(id) => fs.undo_one(&id).await.is_ok(),
            None => false,
        },
    }
}

/// Packs, and looks at every byte of what was packed.
async fn pack(fs: &ScopedFs, directory: &str, to: &str, n: u64) -> bool {
    let options = WriteOptions {
        durable: false,
        expect: Expect::Anything,
        ..WriteOptions::default()
    };
    // Under one name, whatever it is: an archive does not hold the one that it
    // replaces, so that none grows.
    let pack_as = if n % 4 < 2 {
        PackAs::Zip
    } else {
        PackAs::TarGz
    };
    let done = fs.create_archive(directory, fs, to, pack_as, true, &options);
    if done.await.is_err() {
        return false;
    }
    let Some(archive) = read(fs, to).await else {
        return false;
    };
    let plain = match pack_as {
        PackAs::Zip => unzipped(&archive),
        PackAs::TarGz => {
            let mut plain = Vec::new();
            let mut gz = flate2::read::GzDecoder::new(archive.as_slice());
            gz.read_to_end(&mut plain).unwrap();
            plain
        }
    };
    let holds = |what: &str| memchr::memmem::find(&plain, what.as_bytes()).is_some();
    for never in [OUTSIDE, PRECIOUS, CANARY] {
        assert!(!holds(never), "{directory} packed to {to} holds {never}");
    }
    holds(INSIDE)
}

/// What stands there, if it can be read before patience ends.
async fn read(fs: &ScopedFs, path: &str) -> Option<Vec<u8>> {
    for _ in 0..LOOKS {
        if let Ok(page) = fs.read_bytes(path, ByteWindow::Whole).await {
            return Some(page.bytes);
        }
    }
    None
}

/// Every name and every byte of a zip, one after the other, by its directory.
fn unzipped(zip: &[u8]) -> Vec<u8> {
    let number = |at: usize, length: usize| {
        let bytes = zip[at..at + length].iter().rev();
        bytes.fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte))
    };
    let end = zip.len() - 22;
    assert_eq!(&zip[end..end + 4], b"PK\x05\x06");
    let mut out = Vec::new();
    let mut at = number(end + 16, 4);
    for _ in 0..number(end + 10, 2) {
        assert_eq!(&zip[at..at + 4], b"PK\x01\x02");
        let (method, packed) = (number(at + 10, 2), number(at + 20, 4));
        let name = number(at + 28, 2);
        out.extend_from_slice(&zip[at + 46..at + 46 + name]);
        let local = number(at + 42, 4);
        let data = local + 30 + number(local + 26, 2) + number(local + 28, 2);
        let mut packed = &zip[data..data + packed];
        match method {
            8 => flate2::read::DeflateDecoder::new(packed).read_to_end(&mut out),
            _ => packed.read_to_end(&mut out),
        }
        .unwrap();
        at += 46 + name + number(at + 30, 2) + number(at + 32, 2);
    }
    out
}
