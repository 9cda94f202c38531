//! The component walk: the same refusals, and a label that says how firmly.

use portcullis_policy::{Containment, Symlinks};
use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World};

use crate::attempts::{Reading, allowed, attempt, block_on, fit_to_be_shown, refused};

const TREE: &str = "
    dir/sub/leaf.json = {\"leaf\": 1}
    dir/link -> sub
    ../out/canary.json = {\"CANARY\": 1}
    out -> ../out
";

#[test]
fn the_fallback_says_best_effort() {
    let world = World::workspace().best_effort().over(Scratch::of(TREE));
    let path = |how| {
        if Reading::OF_DIRECTORIES.contains(&how) {
            "dir/sub"
        } else {
            "dir/sub/leaf.json"
        }
    };
    for how in Reading::ALL {
        let got = block_on(attempt(&world.fs(), how, path(how))).unwrap();
        let want = (how != Reading::Json).then_some(Containment::BestEffort);
        assert_eq!(got.containment, want, "{how:?}");
    }
    let world = World::workspace().over(Scratch::of(TREE));
    for how in Reading::ALL {
        let got = block_on(attempt(&world.fs(), how, path(how))).unwrap();
        let want = (how != Reading::Json).then_some(Containment::KernelAtomic);
        assert_eq!(got.containment, want, "{how:?}");
    }
}

#[test]
fn a_root_that_requires_the_kernel_is_not_served_by_the_fallback() {
    let failure = World::workspace()
        .policy(|policy| policy.containment = Containment::KernelAtomic)
        .best_effort()
        .try_over(Scratch::of(TREE))
        .unwrap_err();
    assert_eq!(failure.reason(), Reason::BestEffortOnly);
    fit_to_be_shown(&failure);
}

#[test]
fn the_fallback_follows_no_link_even_where_the_root_does() {
    let world = World::workspace()
        .policy(|policy| policy.symlinks = Symlinks::AllowInRoot)
        .best_effort()
        .over(Scratch::of(TREE));
    for path in ["out", "out/canary.json", "dir/link", "dir/link/leaf.json"] {
        refused(&world, &Reading::ALL, path, Reason::Symlink);
    }
    allowed(&world, &Reading::OF_FILES, "dir/sub/leaf.json", "leaf");
}

#[test]
fn eperm_is_not_a_downgrade() {
    // The probe is asked once and about a harmless path; what a real path
    // answers changes nothing about how the next one is resolved.
    let world = World::workspace().over(Scratch::of(TREE));
    let root = world.authority.root(None).unwrap().root().clone();
    assert_eq!(root.containment(), Containment::KernelAtomic);
    for path in ["absent", "out", "dir/sub/leaf.json/x"] {
        for how in Reading::ALL {
            drop(block_on(attempt(&world.fs(), how, path)));
        }
    }
    assert_eq!(root.containment(), Containment::KernelAtomic);
    assert_eq!(
        portcullis_files::probe(),
        portcullis_files::Probe::KernelAtomic
    );
}
