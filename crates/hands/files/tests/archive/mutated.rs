//! Archives with bytes changed at random: whatever they say, a manifest is
//! bounded and holds nothing that may not be made. The long form is the fuzz
//! target `archive`.

use std::collections::BTreeSet;

use portcullis_files::archive::{ItemKind, limits, manifest_of};

const SEEDS: [&[u8]; 7] = [
    include_bytes!("../../../../../fuzz/seeds/archive/gnu.tar"),
    include_bytes!("../../../../../fuzz/seeds/archive/pax.tar.gz"),
    include_bytes!("../../../../../fuzz/seeds/archive/bz2"),
    include_bytes!("../../../../../fuzz/seeds/archive/xz"),
    include_bytes!("../../../../../fuzz/seeds/archive/zst"),
    include_bytes!("../../../../../fuzz/seeds/archive/z.zip"),
    include_bytes!("../../../../../fuzz/seeds/archive/streamed.zip"),
];
const ROUNDS: u64 = 3_000;

fn check(archive: &[u8]) -> bool {
    let manifest = manifest_of(archive);
    assert!(manifest.items.len() <= limits::MAX_ENTRIES);
    assert!(manifest.refused.len() <= limits::MAX_REFUSED);
    assert!(manifest.complete || !manifest.refused.is_empty());
    let mut files = BTreeSet::new();
    for item in &manifest.items {
        let path = item.path.as_str();
        assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")));
        assert!(!path.contains('\\'), "{path}");
        let is_new = item.kind == ItemKind::Directory || files.insert(path.to_lowercase());
        assert!(is_new, "{path} twice");
    }
    manifest.refused.is_empty()
}

#[test]
fn whatever_bytes_change_a_manifest_holds_what_it_proves() {
    let mut state = 0x5eed_u64;
    let mut next = |most: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % most
    };
    let mut refused = 0u64;
    for seed in SEEDS {
        assert!(check(seed), "a seed is refused");
        for _ in 0..ROUNDS {
            let mut archive = seed.to_vec();
            for _ in 0..=next(3) {
                let at = next(archive.len());
                archive[at] = u8::try_from(next(256)).unwrap();
            }
            if next(8) == 0 {
                archive.truncate(next(archive.len()).max(1));
            }
            // A tar's headers have a sum; half of the time it is made right.
            if seed.get(257..262) == Some(b"ustar") && archive.len() > 512 && next(2) == 0 {
                archive[148..156].copy_from_slice(b"        ");
                let sum: u64 = archive[..512].iter().map(|byte| u64::from(*byte)).sum();
                archive[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
            refused += u64::from(!check(&archive));
        }
    }
    assert!(
        refused > ROUNDS,
        "{refused} refused: too few to mean anything"
    );
}
