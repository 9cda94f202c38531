//! The component walk: the same refusals, and a label that says how firmly.

use portcullis_files::Probe;
use portcullis_policy::{Containment, Symlinks};
use portcullis_proto::Reason;
use portcullis_testkit::{Answer, Scratch, World, answer_openat2_with};

use crate::attempts::{Reading, allowed, attempt, block_on, fit_to_be_shown, is_alone, refused};

const TREE: &str = "
    dir/sub/leaf.json = {\"leaf\": 1}
    dir/link -> sub
    ../out/canary.json = {\"CANARY\": 1}
    out -> ../out
";

#[test]
fn the_fallback_says_best_effort() {
    let world = World::workspace().best_effort().over(Scratch::of(TREE));
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

/// Runs in a process of its own, as the next two: the kernel is asked once per
/// process, and a filter stays.
#[test]
fn eperm_is_not_a_downgrade() {
    if !is_alone("fallback::eperm_is_not_a_downgrade") {
        return;
    }
    answer_openat2_with(Answer::Eperm);
    assert_eq!(portcullis_files::probe(), Probe::Forbidden);
    let failure = World::workspace().try_over(Scratch::of(TREE)).unwrap_err();
    assert_eq!(failure.reason(), Reason::Os);
    fit_to_be_shown(&failure);
    assert!(
        failure.next_step().unwrap().contains("portcullis doctor"),
        "{failure:?}"
    );
    // The operator can have the walk by name, and it says what it is.
    let world = World::workspace().best_effort().over(Scratch::of(TREE));
    is_served_by_the_walk(&world);
}

#[test]
fn eperm_after_the_start_refuses_every_verb() {
    if !is_alone("fallback::eperm_after_the_start_refuses_every_verb") {
        return;
    }
    let world = World::workspace().over(Scratch::of(TREE));
    allowed(&world, &Reading::OF_FILES, "dir/sub/leaf.json", "leaf");
    answer_openat2_with(Answer::Eperm);
    // All of it can be read by the walk, which is not taken.
    refused(&world, &Reading::ALL, "dir/sub/leaf.json", Reason::Os);
    refused(&world, &Reading::ALL, "dir/sub", Reason::Os);
    refused(&world, &Reading::ALL, "out/canary.json", Reason::Os);
    for how in Reading::OF_DIRECTORIES {
        refused(&world, &[how], "", Reason::Os);
    }
    let root = world.authority.root(None).unwrap().root().clone();
    assert_eq!(root.containment(), Containment::KernelAtomic);
}

#[test]
fn a_kernel_without_openat2_is_served_by_the_walk_which_says_so() {
    if !is_alone("fallback::a_kernel_without_openat2_is_served_by_the_walk_which_says_so") {
        return;
    }
    answer_openat2_with(Answer::Enosys);
    assert_eq!(portcullis_files::probe(), Probe::Missing);
    is_served_by_the_walk(&World::workspace().over(Scratch::of(TREE)));
    let failure = World::workspace()
        .policy(|policy| policy.containment = Containment::KernelAtomic)
        .try_over(Scratch::of(TREE))
        .unwrap_err();
    assert_eq!(failure.reason(), Reason::BestEffortOnly);
}

/// Everything inside is read and labelled, and no link leads anywhere.
#[track_caller]
fn is_served_by_the_walk(world: &World) {
    let root = world.authority.root(None).unwrap().root().clone();
    assert_eq!(root.containment(), Containment::BestEffort);
    for how in Reading::ALL {
        let got = block_on(attempt(&world.fs(), how, path(how))).unwrap();
        let want = (how != Reading::Json).then_some(Containment::BestEffort);
        assert_eq!(got.containment, want, "{how:?}");
    }
    for path in ["out", "out/canary.json", "dir/link", "dir/link/leaf.json"] {
        refused(world, &Reading::ALL, path, Reason::Symlink);
    }
}

/// Something there is to read in that way.
fn path(how: Reading) -> &'static str {
    if Reading::OF_DIRECTORIES.contains(&how) {
        "dir/sub"
    } else {
        "dir/sub/leaf.json"
    }
}
