//! Roots that follow links inside: where a link leads is judged, not what it is called.

use std::sync::Arc;

use portcullis_gate::Decision;
use portcullis_policy::{Effect, PatternSet, Rule, Symlinks};
use portcullis_proto::{Group, Outcome, Reason};
use portcullis_testkit::{Scratch, ScriptedApprover, World, WorldBuilder, agent, is_superuser};

use crate::attempts::{
    Reading, allowed, attempt, block_on, list_all, not_tried, refused, tree_all,
};

const TREE: &str = "
    src/main.json = {\"main\": 1}
    src/deep/leaf.json = {\"leaf\": 1}
    .env = {\"KEY\": \"SECRET\"}
    private/plan.json = {\"plan\": \"SECRET\"}
    ../out/canary.json = {\"CANARY\": 1}
    file -> src/main.json
    dir -> src
    up/back -> ../src/deep
    chain -> dir
    harmless -> .env
    notes -> private/plan.json
    notesdir -> private
    out -> ../out
    outfile -> ../out/canary.json
    absolute -> /etc
    proc -> /proc/self/root
    turn/around -> ../../root/src
    dangling -> src/absent
";

fn following() -> WorldBuilder {
    World::workspace().policy(|policy| {
        policy.symlinks = Symlinks::AllowInRoot;
        policy.denied = PatternSet::compile(&["/private"]).unwrap();
    })
}

#[test]
fn a_link_is_followed_inside_and_the_reply_says_where_it_led() {
    let world = following().over(Scratch::of(TREE));
    allowed(&world, &Reading::OF_FILES, "file", "main");
    allowed(&world, &Reading::OF_FILES, "dir/main.json", "main");
    allowed(&world, &Reading::OF_FILES, "up/back/leaf.json", "leaf");
    allowed(&world, &Reading::OF_FILES, "chain/deep/leaf.json", "leaf");
    allowed(&world, &Reading::OF_DIRECTORIES, "dir", "main.json");
    allowed(&world, &Reading::OF_DIRECTORIES, "dir/", "main.json");
    let reply = block_on(world.fs().stat("chain/main.json")).unwrap();
    assert_eq!(reply.path.as_str(), "src/main.json");
    assert_eq!(world.lines.last().path.as_deref(), Some("src/main.json"));
    let listed = block_on(world.fs().list("up/back", list_all())).unwrap();
    assert_eq!(listed.path.as_str(), "src/deep");
    assert_eq!(
        listed.entries[0].path.as_ref().unwrap().as_str(),
        "src/deep/leaf.json"
    );
}

#[test]
fn a_link_that_leaves_the_root_is_refused_whatever_the_policy() {
    let world = following().over(Scratch::of(TREE));
    for path in [
        "out",
        "outfile",
        "out/canary.json",
        "absolute",
        "absolute/passwd",
    ] {
        refused(&world, &Reading::ALL, path, Reason::Symlink);
    }
    // Out and in again is out.
    refused(&world, &Reading::ALL, "turn/around", Reason::Symlink);
    refused(&world, &Reading::ALL, "dangling", Reason::NotFound);
}

#[test]
fn magic_links_are_never_followed() {
    let world = following().over(Scratch::of(TREE));
    refused(&world, &Reading::ALL, "proc", Reason::Symlink);
    refused(&world, &Reading::ALL, "proc/etc/passwd", Reason::Symlink);
    // A link into the table of handles, one of which is the root itself.
    let link = world.scratch.at("magic");
    let handle = std::fs::File::open(world.scratch.root()).unwrap();
    let place = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&handle));
    std::os::unix::fs::symlink(place, link).unwrap();
    refused(&world, &Reading::ALL, "magic", Reason::Symlink);
}

#[test]
fn a_denied_file_stays_denied_through_a_link() {
    let world = following().over(Scratch::of(TREE));
    let of_files = [Reading::Bytes, Reading::Text, Reading::Json, Reading::Stat];
    refused(&world, &of_files, "notes", Reason::DeniedByRule);
    refused(
        &world,
        &Reading::OF_DIRECTORIES,
        "notes",
        Reason::NotDirectory,
    );
    refused(
        &world,
        &Reading::OF_DIRECTORIES,
        "notesdir",
        Reason::DeniedByRule,
    );
    refused(
        &world,
        &of_files,
        "notesdir/plan.json",
        Reason::DeniedByRule,
    );
    let rule = Rule {
        effect: Effect::Deny,
        group: Group::FilesystemRead,
        root: None,
        pattern: "src/deep".into(),
        covers_protected: false,
        exact_path: false,
        source: Arc::from("settings.json:1"),
    };
    let world = following().rules(vec![rule]).over(Scratch::of(TREE));
    refused(
        &world,
        &Reading::OF_DIRECTORIES,
        "up/back",
        Reason::DeniedByRule,
    );
    refused(
        &world,
        &of_files,
        "dir/deep/leaf.json",
        Reason::DeniedByRule,
    );
    allowed(&world, &Reading::OF_FILES, "dir/main.json", "main");
}

#[test]
fn a_secret_behind_a_harmless_name_is_asked_about_by_its_own() {
    let world = following().over(Scratch::of(TREE));
    refused(
        &world,
        &Reading::OF_FILES,
        "harmless",
        Reason::ApprovalUnavailable,
    );
    let person = Arc::new(ScriptedApprover::deciding([Decision::DenyOnce]));
    let fs = world.fs_for(&agent().asking(person.clone()));
    let failure = block_on(attempt(&fs, Reading::Bytes, "harmless")).unwrap_err();
    assert_eq!(failure.reason(), Reason::ApprovalDenied);
    let asked = person.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].facts.resources[0].path.as_str(), ".env");
    assert_eq!(asked[0].class.as_deref(), Some("secret"));
}

#[test]
fn a_tree_follows_no_link_and_shows_nothing_denied_through_one() {
    let world = following().over(Scratch::of(TREE));
    for how in Reading::OF_DIRECTORIES {
        let got = block_on(attempt(&world.fs(), how, ".")).unwrap();
        for never in ["plan.json", "canary", "passwd"] {
            assert!(!got.text.contains(never), "{how:?}: {}", got.text);
        }
    }
}

#[test]
fn r001_a_directory_swapped_for_a_link_is_not_entered_by_a_tree() {
    // Names below a directory are judged by where they were found; a link that
    // takes its place would have another directory's names judged by them.
    let world = following().over(Scratch::in_memory(TREE));
    world.lines.forget();
    world.scratch.add("pub/a/x\n pub/b/y");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (dir, spare) = (world.scratch.at("pub/a"), world.scratch.at("spare"));
    std::os::unix::fs::symlink("../private", &spare).unwrap();
    let swapper = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, &dir, cwd, &spare, exchange).unwrap();
            }
        }
    });
    let fs = world.fs();
    let mut whole = 0;
    block_on(async {
        let began = std::time::Instant::now();
        // So long, and on until it was seen whole: whether it is, is chance.
        while began.elapsed().as_millis() < 1500
            || whole == 0 && began.elapsed() < portcullis_testkit::PATIENCE
        {
            if let Ok(tree) = fs.tree("pub", tree_all()).await {
                let text = format!("{:?}", tree.children);
                assert!(!text.contains("plan.json"), "{text}");
                whole += usize::from(text.contains("pub/a/x"));
            }
        }
    });
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(whole > 0, "the tree was never seen whole");
}

#[test]
fn a_mount_is_called_a_mount_where_links_are_followed_too() {
    if !is_superuser() {
        return not_tried("a mount in a root that follows links: needs the superuser");
    }
    let world = following().over(Scratch::of(TREE));
    world.scratch.add("mnt/");
    if !world.scratch.bind("../out", "mnt") {
        return not_tried("a mount in a root that follows links: this kernel cannot mount");
    }
    refused(
        &world,
        &Reading::ALL,
        "mnt/canary.json",
        Reason::MountBoundary,
    );
    refused(&world, &Reading::ALL, "mnt", Reason::MountBoundary);
}

#[test]
fn what_is_refused_behind_a_link_leaves_its_line() {
    let world = following().over(Scratch::of(TREE));
    refused(&world, &[Reading::Bytes], "notes", Reason::DeniedByRule);
    let line = world.lines.last();
    assert_eq!(line.outcome, Outcome::Denied);
    assert_eq!(line.path.as_deref(), Some("private/plan.json"));
    world.lines.one_each();
}
