//! Hostile zips, each with what it must be refused for.

use portcullis_files::archive::Why;

use crate::craft_zip::{Around, ZipEntry, crc, deflated, file, with_mode, zip, zip_around};
use crate::hostile::Case;

/// The 64-bit extension with these values.
fn wide(values: &[u64]) -> Vec<u8> {
    let mut extra = vec![1, 0, u8::try_from(values.len() * 8).unwrap(), 0];
    for value in values {
        extra.extend_from_slice(&value.to_le_bytes());
    }
    extra
}

fn unicode_name(of: &[u8], name: &str) -> Vec<u8> {
    let mut extra = vec![0x75, 0x70];
    extra.extend_from_slice(&u16::try_from(name.len() + 5).unwrap().to_le_bytes());
    extra.push(1);
    extra.extend_from_slice(&crc(of).to_le_bytes());
    extra.extend_from_slice(name.as_bytes());
    extra
}

/// Every zip of the list.
pub(crate) fn cases() -> Vec<Case> {
    let one = |name: &str| zip(&[file(name, "x")]);
    let two = |a: &str, b: &str| zip(&[file(a, "x"), file(b, "y")]);
    let lying = |entry: ZipEntry| zip(&[entry]);
    let around = |around: Around| zip_around(&[file("a", "x")], &around);
    let many: Vec<ZipEntry> = (0..60_000).map(|n| file(format!("f{n}"), "")).collect();
    let bomb = vec![0; 600 * 1024 * 1024 / 64];
    let mut overlap = zip(&[file("a", "xxxx"), file("b", "yyyy")]);
    // The second entry's offset in the directory: the first one's.
    let last = overlap.len() - 22 - 47 + 42;
    overlap[last..last + 4].copy_from_slice(&0u32.to_le_bytes());
    let inner = zip(&[file("inner", "x")]);
    let mut truncated = one("a");
    truncated.truncate(truncated.len() - 30);
    vec![
        Case::new("zip dotdot", one("../evil"), Why::Parent),
        Case::new("zip dotdot_mid", one("a/../../evil"), Why::Parent),
        Case::new("zip dotdot_inside", one("a/../b"), Why::Parent),
        Case::new("zip abs", one("/etc/evil"), Why::Absolute),
        Case::new("zip backslash", one("..\\evil"), Why::Backslash),
        Case::new("zip drive", one("C:/evil"), Why::Drive),
        Case::new("zip drive_rel", one("C:evil"), Why::Drive),
        Case::new("zip unc", one("\\\\server\\share\\evil"), Why::Backslash),
        Case::new("zip unc_slash", one("//server/share/evil"), Why::Absolute),
        Case::new("zip nul", one("a\0b"), Why::Character),
        Case::new("zip not_utf8", zip(&[file(b"caf\xe9", "x")]), Why::NotUtf8),
        Case::new("zip dup", two("a", "a"), Why::Duplicate),
        Case::new("zip dup_dot", two("a", "./a"), Why::Duplicate),
        Case::new("zip casefold", two("README", "readme"), Why::Collides),
        Case::new("zip casefold_parent", two("D/a", "d/b"), Why::Collides),
        Case::new(
            "zip nfc_nfd",
            two("caf\u{e9}", "cafe\u{301}"),
            Why::Collides,
        ),
        Case::new("zip sharp_s", two("stra\u{df}e", "STRASSE"), Why::Collides),
        Case::new("zip ligature", two("\u{fb01}le", "file"), Why::Collides),
        Case::new(
            "zip symlink",
            zip(&[with_mode("l", "/etc", 0o120_777)]),
            Why::Symlink,
        ),
        Case::new(
            "zip symlink_slash",
            zip(&[with_mode("l/", "/etc", 0o120_777)]),
            Why::Symlink,
        ),
        Case::new(
            "zip symlink_then_write",
            zip(&[with_mode("l", "../out", 0o120_777), file("l/evil", "x")]),
            Why::Symlink,
        ),
        Case::new("zip file_as_dir", two("a", "a/b"), Why::FileAndDirectory),
        Case::new(
            "zip dir_then_file",
            zip(&[with_mode("a/", "", 0), file("a", "x")]),
            Why::FileAndDirectory,
        ),
        Case::new("zip file_with_slash", one("a/"), Why::FileAndDirectory),
        Case::new(
            "zip dir_with_content",
            zip(&[with_mode("a/", "x", 0)]),
            Why::SizeOfDirectory,
        ),
        Case::new(
            "zip dir_named_twice",
            zip(&[with_mode("a/", "", 0), with_mode("a/", "", 0)]),
            Why::Duplicate,
        ),
        Case::new(
            "zip dir_by_mode",
            zip(&[with_mode("a", "", 0o040_755)]),
            Why::FileAndDirectory,
        ),
        Case::new("zip dot_file", one("."), Why::EmptyName),
        Case::new("zip empty", one(""), Why::EmptyName),
        Case::new(
            "zip fifo",
            zip(&[with_mode("p", "", 0o010_644)]),
            Why::Special,
        ),
        Case::new(
            "zip chardev",
            zip(&[with_mode("c", "", 0o020_644)]),
            Why::Special,
        ),
        Case::new(
            "zip blockdev",
            zip(&[with_mode("b", "", 0o060_644)]),
            Why::Special,
        ),
        Case::new(
            "zip socket",
            zip(&[with_mode("s", "", 0o140_644)]),
            Why::Special,
        ),
        Case::new(
            "zip odd_type",
            zip(&[with_mode("s", "", 0o150_644)]),
            Why::UnknownType,
        ),
        Case::new("zip con", one("con"), Why::Unportable),
        Case::new("zip aux_txt", one("d/AUX.txt"), Why::Unportable),
        Case::new("zip com_superscript", one("COM\u{b9}"), Why::Unportable),
        Case::new("zip ads", one("f.txt:stream"), Why::Unportable),
        Case::new("zip trailing_dot", one("a."), Why::Unportable),
        Case::new("zip trailing_space", one("a "), Why::Unportable),
        Case::new("zip long_300", one(&"n".repeat(300)), Why::NameTooLong),
        Case::new("zip name_4096", one(&"n/".repeat(2_100)), Why::NameTooLong),
        Case::new(
            "zip deep_300",
            one(&vec!["d"; 300].join("/")),
            Why::NameTooLong,
        ),
        Case::new("zip deep_65", one(&vec!["d"; 65].join("/")), Why::TooDeep),
        Case::new("zip rtlo", one("a\u{202e}gpj.exe"), Why::Character),
        Case::new("zip newline", one("a\nb"), Why::Character),
        Case::new("zip many_60k", zip(&many), Why::TooManyEntries),
        Case::new("zip bomb", zip(&[deflated("bomb", &bomb)]), Why::Ratio),
        Case::new(
            "zip bomb_total",
            zip(&(0..4)
                .map(|n| deflated(format!("b{n}"), vec![0; 1024 * 1024]))
                .collect::<Vec<_>>()),
            Why::Ratio,
        ),
        Case::new(
            "zip claims_too_much",
            lying(ZipEntry {
                central_size: Some(300 << 20),
                local_size: Some(300 << 20),
                ..deflated("a", "x")
            }),
            Why::EntryTooLarge,
        ),
        Case::new(
            "zip lying_size_small",
            lying(ZipEntry {
                central_size: Some(1),
                local_size: Some(1),
                ..deflated("a", "xxxx")
            }),
            Why::WrongSize,
        ),
        Case::new(
            "zip lying_size_large",
            lying(ZipEntry {
                central_size: Some(9),
                local_size: Some(9),
                ..deflated("a", "xxxx")
            }),
            Why::WrongSize,
        ),
        Case::new(
            "zip stored_size",
            lying(ZipEntry {
                central_size: Some(2),
                local_size: Some(2),
                ..file("a", "xxxx")
            }),
            Why::WrongSize,
        ),
        Case::new("zip overlap", overlap, Why::Disagrees),
        Case::new(
            "zip overlap_same",
            zip(&[
                file("a", "x"),
                ZipEntry {
                    central_offset: Some(0),
                    local_name: Some(b"a".to_vec()),
                    ..file("a2", "x")
                },
            ]),
            Why::Disagrees,
        ),
        Case::new(
            "zip overlap_into_next",
            {
                // One stored entry whose bytes are another whole entry.
                let hidden = &inner[..inner.len() - 22 - 46 - 5];
                let outer = file("outer", hidden);
                let at = u32::try_from(30 + 5).unwrap();
                zip(&[
                    outer,
                    ZipEntry {
                        central_offset: Some(at),
                        ..file("inner", "x")
                    },
                ])
            },
            Why::Overlap,
        ),
        Case::new(
            "zip lfh_mismatch",
            lying(ZipEntry {
                local_name: Some(b"b".to_vec()),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip lfh_method",
            lying(ZipEntry {
                local_method: Some(8),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip lfh_size",
            lying(ZipEntry {
                local_size: Some(7),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip badcrc_lfh",
            lying(ZipEntry {
                local_crc: Some(1),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip badcrc",
            lying(ZipEntry {
                local_crc: Some(1),
                central_crc: Some(1),
                ..file("a", "x")
            }),
            Why::Checksum,
        ),
        Case::new(
            "zip descriptor",
            lying(ZipEntry {
                descriptor: Some(1),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip damaged",
            lying(ZipEntry {
                method: Some(8),
                ..file("a", "\u{7}\u{7}\u{7}")
            }),
            Why::Damaged,
        ),
        Case::new(
            "zip encrypted",
            lying(ZipEntry {
                flags: 1,
                ..file("a", "x")
            }),
            Why::Encrypted,
        ),
        Case::new(
            "zip strong_encryption",
            lying(ZipEntry {
                flags: 1 << 6,
                ..file("a", "x")
            }),
            Why::Encrypted,
        ),
        Case::new(
            "zip masked",
            lying(ZipEntry {
                flags: 1 << 13,
                ..file("a", "x")
            }),
            Why::Encrypted,
        ),
        Case::new(
            "zip deflate64",
            lying(ZipEntry {
                method: Some(9),
                ..file("a", "x")
            }),
            Why::Method,
        ),
        Case::new(
            "zip aes",
            lying(ZipEntry {
                method: Some(99),
                ..file("a", "x")
            }),
            Why::Method,
        ),
        Case::new(
            "zip gap",
            lying(ZipEntry {
                gap: b"hidden".to_vec(),
                ..file("a", "x")
            }),
            Why::Hidden,
        ),
        Case::new(
            "zip prepended",
            around(Around {
                before: b"#!/bin/sh\n".to_vec(),
                ..Around::default()
            }),
            Why::Prepended,
        ),
        Case::new("zip trunc", truncated, Why::Truncated),
        Case::new(
            "zip trailing",
            around(Around {
                behind: b"more".to_vec(),
                ..Around::default()
            }),
            Why::Trailing,
        ),
        Case::new(
            "zip two_eocd",
            around(Around {
                comment: zip(&[]),
                ..Around::default()
            }),
            Why::TwoEnds,
        ),
        Case::new(
            "zip second_archive_behind",
            [one("a"), one("b")].concat(),
            Why::Prepended,
        ),
        Case::new(
            "zip count_low",
            zip_around(
                &[file("a", "x"), file("b", "y")],
                &Around {
                    entries: Some(1),
                    ..Around::default()
                },
            ),
            Why::Disagrees,
        ),
        Case::new(
            "zip count_high",
            around(Around {
                entries: Some(2),
                ..Around::default()
            }),
            Why::Truncated,
        ),
        Case::new(
            "zip disks",
            around(Around {
                disk: 1,
                ..Around::default()
            }),
            Why::ManyDisks,
        ),
        Case::new(
            "zip entry_disk",
            lying(ZipEntry {
                central_disk: 1,
                ..file("a", "x")
            }),
            Why::ManyDisks,
        ),
        Case::new(
            "zip zip64_count",
            around(Around {
                end64: Some(2),
                ..Around::default()
            }),
            Why::Zip64,
        ),
        Case::new(
            "zip zip64_needless",
            lying(ZipEntry {
                central_extra: wide(&[9, 9]),
                ..file("a", "x")
            }),
            Why::Zip64,
        ),
        Case::new(
            "zip zip64_missing",
            lying(ZipEntry {
                central_size: Some(u32::MAX),
                local_size: Some(u32::MAX),
                ..file("a", "x")
            }),
            Why::Zip64,
        ),
        Case::new(
            "zip zip64_huge",
            lying(ZipEntry {
                central_size: Some(u32::MAX),
                local_size: Some(u32::MAX),
                central_extra: wide(&[1 << 60]),
                local_extra: wide(&[1 << 60]),
                ..deflated("a", "x")
            }),
            Why::EntryTooLarge,
        ),
        Case::new(
            "zip zip64_lfh",
            lying(ZipEntry {
                local_size: Some(u32::MAX),
                local_extra: wide(&[9]),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip two_names",
            lying(ZipEntry {
                central_extra: unicode_name(b"a", "../evil"),
                ..file("a", "x")
            }),
            Why::Disagrees,
        ),
        Case::new(
            "zip extra_broken",
            lying(ZipEntry {
                central_extra: vec![1, 0, 200, 0, 1],
                ..file("a", "x")
            }),
            Why::Damaged,
        ),
    ]
}
