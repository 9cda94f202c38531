//! How much memory an archive can make us take.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use portcullis_testkit::{Scratch, World};

use crate::craft_tar::{entry, file, header, pax, tar};
use crate::craft_zip;
use crate::hostile::packed;
use crate::support::{extract, world_with};

/// The promise, in KiB.
const MOST: u64 = 96 * 1024;
const ARCHIVE: &str = "PORTCULLIS_TEST_ARCHIVE";

/// Not a test of its own: the process whose memory is measured.
#[test]
fn child_that_unpacks_something() {
    let Some(archive) = std::env::var_os(ARCHIVE).map(PathBuf::from) else {
        return;
    };
    let scratch = Scratch::of("keep = kept");
    fs::hard_link(&archive, scratch.at("a.bin")).unwrap();
    let world = World::workspace().writable().over(scratch);
    let done = extract(&world, "d").map(drop).map_err(|why| why.reason());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let peak: String = peak.chars().filter(char::is_ascii_digit).collect();
    fs::write(archive.with_extension("peak"), format!("{peak} {done:?}")).unwrap();
}

#[test]
fn whatever_an_archive_says_memory_stays_below_the_promise() {
    // Noise, thinned so that packing it is quick: decoders fill their windows, and
    // no ratio stops them early.
    let mut noise = Vec::new();
    let mut state = 7u64;
    while noise.len() < 15 * 1024 * 1024 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(3);
        noise.extend_from_slice(&state.to_le_bytes()[3..].repeat(10));
    }
    let large: Vec<Vec<u8>> = (0..5)
        .map(|n| entry(format!("f{n}").as_bytes(), b'0', &noise))
        .collect();
    let large = tar(&large);
    // As many names as there may be, each as long as it may be.
    let long = |n: usize| format!("{n:05}{}/", "\u{fdfa}".repeat(80)).repeat(6);
    let names: Vec<Vec<u8>> = (0..4_500)
        .flat_map(|n| {
            [
                pax(b'x', &[("path", &format!("{}{n}", long(n)))]),
                file("a", "x"),
            ]
        })
        .collect();
    let headers: Vec<Vec<u8>> = (0..9_999)
        .map(|n| header(format!("f{n}").as_bytes(), b'0', 0, 0o644))
        .collect();
    let zeros = vec![0; 60 * 1024 * 1024];
    let cases = [
        (
            "xz window",
            packed("xz", &["-c", "-0", "--lzma2=preset=0,dict=64MiB"], &large),
        ),
        (
            "zst window",
            packed(
                "zstd",
                &["-q", "-c", "-3", "--zstd=wlog=26", "--long=26"],
                &large,
            ),
        ),
        (
            "bz2",
            packed("bzip2", &["-c", "-1"], &tar(&[entry(b"f", b'0', &noise)])),
        ),
        ("names", tar(&names)),
        ("names packed", packed("zstd", &["-q", "-c"], &tar(&names))),
        ("entries", tar(&headers)),
        ("bomb", craft_zip::zip(&[craft_zip::deflated("z", &zeros)])),
    ];
    let world = world_with(b"");
    let base = world.scratch.base();
    let mut worst = 0;
    for (name, archive) in cases {
        let path = base.join("measured.arc");
        fs::write(&path, archive).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "memory::child_that_unpacks_something",
                "--test-threads=1",
            ])
            .env(ARCHIVE, &path)
            .output()
            .unwrap();
        assert!(child.status.success(), "{name}: {child:?}");
        let told = fs::read_to_string(path.with_extension("peak")).unwrap();
        eprintln!("{name}: {told}");
        let peak: u64 = told.split(' ').next().unwrap().parse().unwrap();
        assert!(peak < MOST, "{name}: {peak} KiB");
        worst = worst.max(peak);
        fs::remove_file(&path).unwrap();
    }
    eprintln!("{} MiB at most", worst / 1024);
}
