//! Archives that real tools make: unpacked byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{extract, snapshot, world_with};

/// A tree with what archives stumble over: names of every length around the
/// fields of a tar, other scripts, empty things, programs, and noise.
fn tree(top: &Path) {
    let write = |path: &str, content: &[u8]| {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let mut noise = Vec::new();
    let mut state = 1u64;
    while noise.len() < 300 * 1024 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        noise.extend_from_slice(&state.to_le_bytes()[4..]);
    }
    write("plain.txt", b"plain\n");
    write("empty", b"");
    write("with space/a b.txt", b"space");
    write("na\u{ef}ve/\u{65e5}\u{672c}.md", "\u{65e5}".as_bytes());
    write("noise.bin", &noise);
    write("zeros", &vec![0; 700 * 1024]);
    write("run.sh", b"#!/bin/sh\n");
    // A name whose first hundred bytes end in a slash.
    write(
        &format!("{}/{}", "d".repeat(99), "leaf"),
        b"cut at the slash",
    );
    for length in [98, 99, 100, 101, 154, 155, 156, 200] {
        write(
            &format!("n/{}", "x".repeat(length)),
            length.to_string().as_bytes(),
        );
    }
    write(&format!("{}/deep", vec!["level"; 30].join("/")), b"deep");
    fs::create_dir_all(top.join("hollow")).unwrap();
    fs::set_permissions(top.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
}

type Content = BTreeMap<String, (bool, Option<Vec<u8>>)>;

/// Path, whether it is a program, and content.
fn content(top: &Path) -> Content {
    snapshot(top)
        .into_iter()
        .map(|(path, (mode, content))| (path, (content.is_some() && mode & 0o100 != 0, content)))
        .collect()
}

struct Bench {
    dir: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("portcullis-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("tree")).unwrap();
        tree(&dir.join("tree"));
        Self { dir }
    }

    /// Runs `line` in the tree, which packs it to `../packed`, unpacks that, and
    /// compares.
    fn check(&self, line: &str) {
        let packed = self.dir.join("packed");
        let _earlier = fs::remove_file(&packed);
        let output = Command::new("bash")
            .args(["-c", &format!("set -eo pipefail; {line}")])
            .current_dir(self.dir.join("tree"))
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {said}");
        // Some tools insist on an ending.
        for ending in ["zip", "tar.gz", "tar"] {
            let _named = fs::rename(self.dir.join(format!("packed.{ending}")), &packed);
        }
        let world = world_with(&fs::read(&packed).unwrap());
        let extracted = extract(&world, "got").unwrap_or_else(|why| panic!("{line}: {why:?}"));
        let (want, got) = (
            content(&self.dir.join("tree")),
            content(&world.scratch.at("got")),
        );
        let names = |content: &Content| content.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&want), names(&got), "{line}");
        for (path, entry) in &want {
            let is_program = |entry: &(bool, Option<Vec<u8>>)| entry.0;
            assert!(entry.1 == got[path].1, "{line}: {path} has another content");
            assert_eq!(is_program(entry), is_program(&got[path]), "{line}: {path}");
        }
        assert!(extracted.entries > 0, "{line}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn what_gnu_tar_packs_is_unpacked_byte_for_byte() {
    let bench = Bench::new("gnu");
    for format in ["gnu", "oldgnu", "posix"] {
        bench.check(&format!("tar --format={format} -cf ../packed ."));
        bench.check(&format!(
            "tar --format={format} -cf ../packed $(ls -A | grep -v ' ') 'with space'"
        ));
    }
    for filter in ["gzip", "bzip2", "xz", "zstd"] {
        bench.check(&format!("tar -c . | {filter} -c > ../packed"));
    }
    bench.check("tar -c . | xz -9 -c --check=sha256 > ../packed");
    bench.check("tar -c . | xz -T2 --block-size=64KiB -c > ../packed");
    bench.check("tar -c . | zstd -19 --check -c > ../packed");
    bench.check("tar -c . | zstd --no-check -c > ../packed");
    bench.check("tar -c -b 1 . > ../packed");
}

#[test]
fn what_bsdtar_packs_is_unpacked_byte_for_byte() {
    let bench = Bench::new("bsd");
    for format in ["pax", "gnutar", "paxr"] {
        bench.check(&format!("bsdtar --format {format} -cf ../packed ."));
    }
    bench.check("bsdtar --format zip -cf ../packed .");
    bench.check("bsdtar --format zip -cf ../packed $(ls -A | grep -v ' ') 'with space'");
    bench.check("bsdtar -czf ../packed .");
}

#[test]
fn what_zip_and_7z_pack_is_unpacked_byte_for_byte() {
    let bench = Bench::new("zip");
    bench.check("zip -q -r ../packed.zip .");
    bench.check("zip -q -0 -r ../packed.zip .");
    bench.check("zip -q -r - . > ../packed");
    bench.check("zip -q -X -r ../packed.zip .");
    bench.check("7z a -bso0 -tzip ../packed.zip .");
    bench.check("7z a -bso0 -tzip -mx=9 ../packed.zip .");
    bench.check("7z a -bso0 -ttar ../packed.tar .");
}

#[test]
fn what_python_packs_is_unpacked_byte_for_byte() {
    let bench = Bench::new("python");
    let zips = "import os, zipfile; z = zipfile.ZipFile('../packed', 'w', zipfile.ZIP_DEFLATED); \
        [z.write(os.path.join(d, n)) for d, ds, fs in os.walk('.') for n in ds + fs]; z.close()";
    bench.check(&format!("python3 -c \"{zips}\""));
    let wide = "import os, zipfile, shutil; z = zipfile.ZipFile('../packed', 'w'); \
        [z.write(os.path.join(d, n)) for d, ds, fs in os.walk('.') for n in ds]; \
        [shutil.copyfileobj(open(os.path.join(d, n), 'rb'), z.open(zipfile.ZipInfo.from_file(os.path.join(d, n)), 'w', force_zip64=True)) for d, ds, fs in os.walk('.') for n in fs]; z.close()";
    bench.check(&format!("python3 -c \"{wide}\""));
    for format in ["PAX_FORMAT", "GNU_FORMAT"] {
        for mode in ["w", "w:gz", "w:bz2", "w:xz"] {
            let tars = format!(
                "import tarfile; t = tarfile.open('../packed', '{mode}', format=tarfile.{format}); t.add('.'); t.close()"
            );
            bench.check(&format!("python3 -c \"{tars}\""));
        }
    }
}

#[test]
fn what_git_archives_is_unpacked_byte_for_byte() {
    let bench = Bench::new("git");
    // Git keeps no empty directories.
    fs::remove_dir(bench.dir.join("tree/hollow")).unwrap();
    let repository = "git init -q ../repository && cp -a . ../repository/ && cd ../repository \
        && git add -A && git -c user.name=t -c user.email=t@example.org commit -qm t";
    bench.check(&format!("{repository} && git archive HEAD > ../packed"));
    bench.check("cd ../repository && git archive --format=tar.gz HEAD > ../packed");
    bench.check("cd ../repository && git archive --format=zip HEAD > ../packed");
}
