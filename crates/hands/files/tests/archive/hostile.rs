//! Hostile archives: every one is refused for what is wrong with it, nothing is
//! written anywhere, and nothing is left.

use std::process::Command;

use portcullis_files::archive::Why;
use portcullis_proto::Failure;

use crate::craft_tar::{bz2, entry, file, gz, header, link, pax, summed, tar};
use crate::craft_zip;
use crate::hostile_zip;
use crate::support::{block_on, extract, snapshot, world_with};

/// An archive, and why it is refused.
pub(crate) struct Case {
    name: &'static str,
    archive: Vec<u8>,
    why: Why,
}

impl Case {
    pub(crate) fn new(name: &'static str, archive: Vec<u8>, why: Why) -> Self {
        Self { name, archive, why }
    }
}

pub(crate) fn packed(tool: &str, arguments: &[&str], bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap_or_else(|_| panic!("{tool}, which ./test installs"));
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let feeding = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    assert!(output.status.success(), "{tool}");
    output.stdout
}

fn tars() -> Vec<Case> {
    let one = |name: &str| tar(&[file(name, "x")]);
    let two = |a: &str, b: &str| tar(&[file(a, "x"), file(b, "y")]);
    let special = |kind: u8| tar(&[header(b"s", kind, 0, 0o644)]);
    let good = one("a");
    let long = |kind, length: usize| entry(b"././@LongLink", kind, &vec![b'n'; length]);
    let mut bad_sum = good.clone();
    bad_sum[0] = b'b';
    let mut cut = good.clone();
    cut.truncate(700);
    let mut no_end = good.clone();
    no_end.truncate(1024);
    let mut one_end = good.clone();
    one_end.truncate(1536);
    let mut behind = good.clone();
    behind.extend_from_slice(&good);
    let mut lone_zero = file("a", "x");
    lone_zero.resize(lone_zero.len() + 512, 0);
    lone_zero.extend_from_slice(&good);
    let mut binary_size = header(b"a", b'0', 0, 0o644);
    binary_size[124..136].copy_from_slice(b"\x80\0\0\0\x40\0\0\0\0\0\0\0");
    let mut wrapping = header(b"a", b'0', 0, 0o644);
    wrapping[124..136].copy_from_slice(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
    let deep: Vec<Vec<u8>> = (0..1_000)
        .map(|n| {
            let name = format!("{n:03}/{}f", "d/".repeat(30));
            header(name.as_bytes(), b'0', 0, 0o644)
        })
        .collect();
    let mut negative = header(b"a", b'0', 0, 0o644);
    negative[124..136].copy_from_slice(&[0xff; 12]);
    let mut star = header(b"a", b'0', 0, 0o644);
    star[508..512].copy_from_slice(b"tar\0");
    let many: Vec<Vec<u8>> = (0..10_001)
        .map(|n| header(format!("f{n}").as_bytes(), b'0', 0, 0o644))
        .collect();
    let records: Vec<Vec<u8>> = (0..40)
        .flat_map(|n| {
            let comment = "c".repeat(500 * 1024);
            [
                pax(b'x', &[("comment", &comment)]),
                file(&format!("f{n}"), "x"),
            ]
        })
        .collect();
    let zeros = tar(&[entry(b"z", b'0', &vec![0; 64 * 1024 * 1024])]);
    vec![
        Case::new("tar dotdot", one("../evil"), Why::Parent),
        Case::new("tar abs", one("/etc/evil"), Why::Absolute),
        Case::new("tar drive_rel", one("C:evil"), Why::Drive),
        Case::new("tar backslash", one("a\\..\\evil"), Why::Backslash),
        Case::new("tar symlink", tar(&[link("l", b'2', "/etc")]), Why::Symlink),
        Case::new(
            "tar symlink_then_write",
            tar(&[link("l", b'2', "../out"), file("l/evil", "x")]),
            Why::Symlink,
        ),
        Case::new(
            "tar hardlink_out",
            tar(&[link("h", b'1', "../out/precious")]),
            Why::Hardlink,
        ),
        Case::new(
            "tar hardlink_in_then_write",
            tar(&[file("a", "x"), link("h", b'1', "a"), file("h", "y")]),
            Why::Hardlink,
        ),
        Case::new(
            "tar chmod_symlink_dir",
            tar(&[link("d", b'2', "../out"), header(b"d", b'5', 0, 0o777)]),
            Why::Symlink,
        ),
        Case::new("tar chardev", special(b'3'), Why::Special),
        Case::new("tar blockdev", special(b'4'), Why::Special),
        Case::new("tar fifo", special(b'6'), Why::Special),
        Case::new("tar unknown", special(b'Z'), Why::UnknownType),
        Case::new("tar contiguous", special(b'7'), Why::UnknownType),
        Case::new("tar multi_volume", special(b'M'), Why::UnknownType),
        Case::new("tar sparse_old", special(b'S'), Why::Sparse),
        Case::new(
            "tar sparse_pax",
            tar(&[pax(b'x', &[("GNU.sparse.major", "1")]), file("a", "x")]),
            Why::Sparse,
        ),
        Case::new("tar dup", two("a", "a"), Why::Duplicate),
        Case::new("tar sharp_s", two("stra\u{df}e", "strasse"), Why::Collides),
        Case::new("tar file_as_dir", two("a", "a/b"), Why::FileAndDirectory),
        Case::new("tar file_with_slash", one("a/"), Why::FileAndDirectory),
        Case::new(
            "tar dir_with_content",
            tar(&[entry(b"d", b'5', b"x")]),
            Why::SizeOfDirectory,
        ),
        Case::new("tar empty_name", one(""), Why::EmptyName),
        Case::new(
            "tar pax_path",
            tar(&[pax(b'x', &[("path", "../evil")]), file("a", "x")]),
            Why::Parent,
        ),
        Case::new(
            "tar pax_path_nul",
            tar(&[pax(b'x', &[("path", "a\0b")]), file("a", "x")]),
            Why::Character,
        ),
        Case::new(
            "tar pax_path_twice",
            tar(&[pax(b'x', &[("path", "a"), ("path", "b")]), file("a", "x")]),
            Why::Disagrees,
        ),
        Case::new(
            "tar pax_twice",
            tar(&[
                pax(b'x', &[("path", "a")]),
                pax(b'x', &[("path", "b")]),
                file("a", "x"),
            ]),
            Why::Disagrees,
        ),
        Case::new(
            "tar pax_broken",
            tar(&[entry(b"x", b'x', b"99 path=a\n"), file("a", "x")]),
            Why::Damaged,
        ),
        Case::new(
            "tar pax_charset",
            tar(&[pax(b'x', &[("hdrcharset", "BINARY")]), file("a", "x")]),
            Why::Dialect,
        ),
        Case::new(
            "tar pax_nothing_behind",
            tar(&[pax(b'x', &[("path", "a")])]),
            Why::Truncated,
        ),
        Case::new(
            "tar pax_global",
            tar(&[pax(b'g', &[("path", "evil")]), file("a", "x")]),
            Why::Dialect,
        ),
        Case::new(
            "tar pax_global_size",
            tar(&[pax(b'g', &[("size", "512")]), file("a", "x")]),
            Why::Dialect,
        ),
        Case::new(
            "tar tarmageddon",
            tar(&[
                pax(b'x', &[("size", "1024")]),
                header(b"outer", b'0', 0, 0o644),
                file("hidden", "x"),
            ]),
            Why::SizeDisagrees,
        ),
        Case::new(
            "tar pax_size_small",
            tar(&[pax(b'x', &[("size", "0")]), file("outer", "x")]),
            Why::SizeDisagrees,
        ),
        Case::new(
            "tar gnu_long_and_pax",
            tar(&[long(b'L', 120), pax(b'x', &[("path", "b")]), file("a", "x")]),
            Why::Disagrees,
        ),
        Case::new(
            "tar gnu_long_twice",
            tar(&[long(b'L', 120), long(b'L', 130), file("a", "x")]),
            Why::Disagrees,
        ),
        Case::new(
            "tar name_4096",
            tar(&[long(b'L', 4_096), file("a", "x")]),
            Why::NameTooLong,
        ),
        Case::new(
            "tar longlink_meta_2mb",
            tar(&[long(b'L', 2 << 20), file("a", "x")]),
            Why::TooMuchMetadata,
        ),
        Case::new(
            "tar longlink_k_2mb",
            tar(&[long(b'K', 2 << 20), link("l", b'2', "x")]),
            Why::TooMuchMetadata,
        ),
        Case::new("tar metadata_20mb", tar(&records), Why::TooMuchMetadata),
        Case::new(
            "tar binary_size",
            tar(&[summed(binary_size)]),
            Why::EntryTooLarge,
        ),
        Case::new(
            "tar wrapping_size",
            tar(&[summed(wrapping)]),
            Why::EntryTooLarge,
        ),
        Case::new("tar deep_30000", tar(&deep), Why::TooManyEntries),
        Case::new("tar negative_size", tar(&[summed(negative)]), Why::Damaged),
        Case::new("tar star", tar(&[summed(star)]), Why::Dialect),
        Case::new(
            "tar bad_sum",
            [good.clone()[..1024].to_vec(), bad_sum].concat(),
            Why::Checksum,
        ),
        Case::new("tar trunc", cut, Why::Truncated),
        Case::new("tar no_end", no_end, Why::Truncated),
        Case::new("tar one_zero_block", one_end, Why::Truncated),
        Case::new("tar lone_zero_block", lone_zero, Why::Trailing),
        Case::new("tar second_behind", behind, Why::Trailing),
        Case::new("tar many_10001", tar(&many), Why::TooManyEntries),
        Case::new("gz dotdot", gz(&one("../evil")), Why::Parent),
        Case::new("gz not_tar", gz(b"text"), Why::NotAnArchive),
        Case::new("gz not_tar_long", gz(&vec![b'x'; 4096]), Why::NotAnArchive),
        Case::new("gz bomb", gz(&zeros), Why::Ratio),
        Case::new(
            "gz trailing",
            [gz(&good), b"more".to_vec()].concat(),
            Why::Trailing,
        ),
        Case::new(
            "gz concatenated",
            [gz(&good), gz(&good)].concat(),
            Why::Concatenated,
        ),
        Case::new(
            "gz trunc",
            {
                let mut gz = gz(&good);
                gz.truncate(gz.len() - 4);
                gz
            },
            Why::Truncated,
        ),
        Case::new(
            "gz badcrc",
            {
                let mut gz = gz(&good);
                let at = gz.len() - 8;
                gz[at] ^= 1;
                gz
            },
            Why::Damaged,
        ),
        Case::new(
            "bz2 concatenated",
            [bz2(&good), bz2(&good)].concat(),
            Why::Concatenated,
        ),
        Case::new("bz2 bomb", bz2(&zeros), Why::Ratio),
        Case::new(
            "xz concatenated",
            [packed("xz", &["-c"], &good), packed("xz", &["-c"], &good)].concat(),
            Why::Concatenated,
        ),
        Case::new("xz bomb", packed("xz", &["-c"], &zeros), Why::Ratio),
        Case::new(
            "xz memory",
            packed("xz", &["-c", "--lzma2=dict=256MiB"], &good),
            Why::Memory,
        ),
        Case::new(
            "zst concatenated",
            [
                packed("zstd", &["-c"], &good),
                packed("zstd", &["-c"], &good),
            ]
            .concat(),
            Why::Concatenated,
        ),
        Case::new("zst bomb", packed("zstd", &["-c"], &zeros), Why::Ratio),
        Case::new(
            "zst memory",
            packed("zstd", &["-c", "--ultra", "-22", "--long=30"], &good),
            Why::Memory,
        ),
        Case::new(
            "zst badsum",
            {
                let mut zst = packed("zstd", &["-c", "--check"], &good);
                let at = zst.len() - 1;
                zst[at] ^= 1;
                zst
            },
            Why::Checksum,
        ),
        Case::new("no archive", b"hello".to_vec(), Why::NotAnArchive),
        Case::new("nothing", Vec::new(), Why::NotAnArchive),
        Case::new(
            "7z",
            b"7z\xbc\xaf\x27\x1c\0\x04".to_vec(),
            Why::NotAnArchive,
        ),
        Case::new("rar", b"Rar!\x1a\x07\x01\0".to_vec(), Why::NotAnArchive),
    ]
}

#[test]
fn every_hostile_archive_is_refused_for_what_is_wrong_and_nothing_is_written() {
    let mut cases = hostile_zip::cases();
    cases.extend(tars());
    let mut wrong = Vec::new();
    for case in &cases {
        let world = world_with(&case.archive);
        let (root, base) = (world.scratch.root(), world.scratch.base().to_owned());
        let before = (snapshot(&root), snapshot(&base.join("out")));
        let inspected = block_on(world.fs().inspect_archive("a.bin")).unwrap();
        let extracted = extract(&world, "new/dir");
        let after = (snapshot(&root), snapshot(&base.join("out")));
        if before != after {
            wrong.push(format!("{}: something was written", case.name));
        }
        let told = inspected
            .manifest
            .refused
            .first()
            .map(|refused| refused.why);
        // Content is decoded when it is unpacked, not before.
        let by_content = matches!(case.why, Why::WrongSize | Why::Checksum | Why::Damaged);
        if told != Some(case.why) && !(by_content && told.is_none()) {
            wrong.push(format!(
                "{}: inspect says {told:?}, not {:?}",
                case.name, case.why
            ));
        }
        match extracted {
            Ok(_) => wrong.push(format!("{}: unpacked", case.name)),
            Err(failure) => {
                if failure.reason() != case.why.reason() || !tells(&failure, case.why) {
                    wrong.push(format!("{}: {failure:?}, not {:?}", case.name, case.why));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cases.len() >= 140, "{} cases", cases.len());
    eprintln!("{} hostile archives, all refused", cases.len());
}

fn tells(failure: &Failure, why: Why) -> bool {
    failure.to_string().contains(why.sentence())
}

#[test]
fn every_refusal_has_an_archive_that_meets_it() {
    let mut cases = hostile_zip::cases();
    cases.extend(tars());
    // Larger than a test should write.
    let too_large = [Why::ArchiveTooLarge, Why::TotalTooLarge];
    let missing: Vec<&Why> = Why::ALL
        .iter()
        .filter(|why| !cases.iter().any(|case| case.why == **why) && !too_large.contains(why))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn an_archive_in_an_archive_is_a_file() {
    let inner = craft_zip::zip(&[craft_zip::file("../evil", "x")]);
    let world = world_with(&craft_zip::zip(&[craft_zip::file("inner.zip", &inner)]));
    extract(&world, "d").unwrap();
    let got = std::fs::read(world.scratch.at("d/inner.zip")).unwrap();
    assert_eq!(got, inner);
}
