//! Every prompt, at a real terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_store::Store;
use serde_json::json;

use crate::fake::{Fake, TOKEN};
use crate::sandbox::Sandbox;
use crate::tmux::{Begun, Tmux};

const CONFIRM: &str = "Lend this machine?";
pub(crate) const ASKED: &str = "Esc denies once";

/// A machine that is lent, confirmed with Yes.
pub(crate) struct Lent {
    pub(crate) sandbox: Sandbox,
    pub(crate) fake: Fake,
    pub(crate) tmux: Tmux,
}

impl Lent {
    pub(crate) fn new() -> Self {
        Self::begun(Sandbox::new(), Fake::start(), &Begun::default())
    }

    fn begun(sandbox: Sandbox, fake: Fake, begun: &Begun<'_>) -> Self {
        let tmux = Self::lend(&sandbox, &fake, &[], begun);
        Self {
            sandbox,
            fake,
            tmux,
        }
    }

    fn lend(sandbox: &Sandbox, fake: &Fake, dir: &[&str], begun: &Begun<'_>) -> Tmux {
        let url = fake.url();
        let args = [&["connect", &url, TOKEN, "--filesystem-write-access"], dir].concat();
        let tmux = Tmux::begin(sandbox, &args, begun);
        tmux.until(CONFIRM, 1);
        tmux.keys(&["Up", "Up", "Enter"]);
        fake.linked();
        tmux
    }

    /// Ends the link, and lends another directory of the same machine.
    fn elsewhere(self, dir: &str) -> Self {
        self.tmux.keys(&["C-c"]);
        self.tmux.until("ended with 0.", 1);
        let fake = Fake::start();
        let tmux = Self::lend(&self.sandbox, &fake, &[dir], &Begun::default());
        Self { fake, tmux, ..self }
    }

    /// Has a file written, and answers the question with these keys. The reason
    /// where that was refused.
    #[track_caller]
    fn answered(&self, id: &str, keys: &[&str]) -> Option<String> {
        let asked = self.tmux.count(ASKED);
        self.fake.write(id, "b.txt", id);
        self.tmux.until(ASKED, asked + 1);
        self.tmux.keys(keys);
        self.fake.reply(id)
    }

    /// Has a file written, and nobody is asked.
    #[track_caller]
    fn unasked(&self, id: &str) -> Option<String> {
        self.fake.write(id, "b.txt", id);
        self.fake.reply(id)
    }

    pub(crate) fn written(&self) -> Option<String> {
        std::fs::read_to_string(self.sandbox.dir().join("b.txt")).ok()
    }
}

#[test]
fn yes_connects_what_is_shown() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let tmux = Tmux::run(&sandbox, &["connect", &fake.url(), TOKEN]);
    tmux.until(CONFIRM, 1);
    let screen = tmux.screen();
    let dir = sandbox.dir().display().to_string();
    for part in [
        fake.url().as_str(),
        &dir,
        "filesystemWrite  off",
        "--filesystem-write-access",
        "not available here",
    ] {
        assert!(screen.contains(part), "no {part} in\n{screen}");
    }
    assert!(!screen.contains(TOKEN));
    assert_eq!(fake.count(), 0, "nothing is said before the yes");
    tmux.keys(&["Up", "Up", "Enter"]);
    let init = fake.linked();
    assert_eq!(init["rootPath"], dir);
    assert_eq!(init["toolCategories"][0]["writeAccess"], false);
    tmux.until("connected to", 1);
    // Ctrl-C with no question open ends it in order.
    tmux.keys(&["C-c"]);
    tmux.until("ended with 0.", 1);
    assert_eq!(fake.seen("POST /gateway/disconnect").len(), 1);
}

#[test]
fn the_person_who_confirms_can_offer_to_change_files() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let tmux = Tmux::run(&sandbox, &["connect", &fake.url(), TOKEN]);
    tmux.until(CONFIRM, 1);
    tmux.keys(&["Up", "Enter"]);
    tmux.until("Change", 1);
    tmux.until("filesystemWrite: off", 1);
    // From off to ask.
    tmux.keys(&["Down", "Enter"]);
    tmux.keys(&["Down", "Enter"]);
    tmux.until("filesystemWrite: ask", 1);
    tmux.keys(&["Escape"]);
    tmux.until(CONFIRM, 2);
    tmux.keys(&["Up", "Up", "Enter"]);
    let init = fake.linked();
    assert_eq!(init["toolCategories"][0]["writeAccess"], true);
}

#[test]
fn no_and_everything_that_is_no_answer_connect_nothing() {
    // Letters neither search nor move, and Enter after them is no answer.
    let letters = &["y", "Enter", "Escape"];
    for keys in [&["Enter"][..], &["Escape"], &["C-c"], letters] {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        let tmux = Tmux::run(&sandbox, &["connect", &fake.url(), TOKEN]);
        tmux.until(CONFIRM, 1);
        tmux.keys(keys);
        tmux.until("ended with 0.", 1);
        tmux.until("Nothing was said to", 1);
        assert_eq!(fake.count(), 0, "{keys:?}");
    }
}

#[test]
fn edits_hold_for_this_session_and_are_written_nowhere() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    sandbox.file("inner/c.txt", "c");
    let writing = "--filesystem-write-access";
    let tmux = Tmux::run(&sandbox, &["connect", &fake.url(), TOKEN, writing]);
    tmux.until(CONFIRM, 1);
    let settings = sandbox.data().join("settings.json");
    let before = std::fs::read_to_string(&settings).unwrap();
    tmux.keys(&["Up", "Enter"]);
    tmux.until("Change", 1);
    // Changing files: from ask to deny.
    tmux.keys(&["Down", "Enter"]);
    tmux.keys(&["Up", "Enter"]);
    tmux.until("filesystemWrite: deny", 1);
    // The directory.
    tmux.keys(&["Down", "Enter"]);
    tmux.keys(&["/inner", "Enter"]);
    tmux.until("/inner", 1);
    tmux.keys(&["Down", "Enter"]);
    tmux.until("GROUP", 2);
    tmux.keys(&["Up", "Up", "Enter"]);
    let init = fake.linked();
    let root = sandbox.dir().join("inner").display().to_string();
    assert_eq!(init["rootPath"], root);
    assert_eq!(init["toolCategories"][0]["writeAccess"], false);
    let tools = init["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["name"] != "write_file"));
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), before);
}

#[test]
fn allow_once_is_for_once() {
    let lent = Lent::new();
    assert_eq!(lent.answered("gw_1", &["1", "Enter"]), None);
    assert_eq!(lent.written().as_deref(), Some("gw_1"));
    // Enter by habit is a no.
    let reason = lent.answered("gw_2", &["Enter"]);
    assert_eq!(reason.as_deref(), Some("approval_denied"));
    assert_eq!(lent.written().as_deref(), Some("gw_1"));
}

#[test]
fn allow_for_this_session_asks_no_more() {
    let lent = Lent::new();
    assert_eq!(lent.answered("gw_1", &["2", "Enter"]), None);
    assert_eq!(lent.unasked("gw_2"), None);
    assert_eq!(lent.written().as_deref(), Some("gw_2"));
    lent.sandbox
        .run(&["rules", "list"])
        .with(0)
        .out_has("No answer");
}

#[test]
fn always_allow_is_kept() {
    let lent = Lent::new();
    assert_eq!(lent.answered("gw_1", &["3", "Enter"]), None);
    assert_eq!(lent.unasked("gw_2"), None);
    lent.sandbox
        .run(&["rules", "list"])
        .with(0)
        .out_has("/b.txt");
}

#[test]
fn a_lasting_answer_is_for_its_place_and_for_no_other_directory() {
    let lent = Lent::new();
    let dir = lent.sandbox.dir();
    for name in ["one", "other"] {
        lent.sandbox.file(&format!("{name}/c.txt"), "c");
    }
    let inner = |name: &str| dir.join(name).display().to_string();
    let one = lent.elsewhere(&inner("one"));
    assert_eq!(one.answered("gw_1", &["3", "Enter"]), None);
    // A file of the same name in another directory is another file.
    let other = one.elsewhere(&inner("other"));
    let reason = other.answered("gw_2", &["4", "Enter"]);
    assert_eq!(reason.as_deref(), Some("approval_denied"));
    // And the very file is the same one, seen from a directory around it.
    let around = other.elsewhere(&dir.display().to_string());
    around.fake.write("gw_3", "one/b.txt", "gw_3");
    assert_eq!(around.fake.reply("gw_3"), None);
    let written = std::fs::read_to_string(dir.join("one/b.txt")).unwrap();
    assert_eq!(written, "gw_3");
}

#[test]
fn deny_once_is_for_once_and_always_deny_is_kept() {
    let lent = Lent::new();
    let denied = Some("approval_denied");
    assert_eq!(lent.answered("gw_1", &["4", "Enter"]).as_deref(), denied);
    assert_eq!(lent.answered("gw_2", &["5", "Enter"]).as_deref(), denied);
    assert!(lent.unasked("gw_3").is_some());
    assert_eq!(lent.written(), None);
    lent.sandbox.run(&["rules", "list"]).with(0).out_has("deny");
}

#[test]
fn escape_and_ctrl_c_deny_once_and_the_link_stays() {
    let lent = Lent::new();
    for (id, key) in [("gw_1", "Escape"), ("gw_2", "C-c")] {
        let reason = lent.answered(id, &[key]);
        assert_eq!(reason.as_deref(), Some("approval_denied"), "{key}");
    }
    assert_eq!(lent.written(), None);
    assert_eq!(lent.answered("gw_3", &["1", "Enter"]), None);
}

#[test]
fn a_terminal_that_is_closed_denies_and_ends_in_order() {
    let lent = Lent::new();
    lent.fake.write("gw_1", "b.txt", "x");
    lent.tmux.until(ASKED, 1);
    lent.tmux.close();
    lent.fake.until("POST /gateway/disconnect");
    assert_eq!(lent.written(), None);
}

/// How many processes of ours speak to this server.
fn processes(url: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let ours = all.filter(|process| {
        // One that ended meanwhile is none.
        let program = std::fs::read_link(process.path().join("exe")).unwrap_or_default();
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        program.ends_with("portcullis") && String::from_utf8_lossy(&line).contains(url)
    });
    ours.count()
}

#[test]
fn a_terminal_that_is_closed_at_the_confirmation_lends_nothing() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let tmux = Tmux::run(&sandbox, &["connect", &url, TOKEN]);
    tmux.until(CONFIRM, 1);
    assert_eq!(processes(&url), 1);
    tmux.close();
    let began = Instant::now();
    while processes(&url) > 0 {
        assert!(began.elapsed() < portcullis_testkit::PATIENCE, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fake.count(), 0);
}

#[test]
fn what_is_asked_and_told_is_never_on_standard_output() {
    let sandbox = Sandbox::new();
    let out = sandbox.data().join("out");
    let begun = Begun {
        out: Some(&out),
        ..Begun::default()
    };
    let lent = Lent::begun(sandbox, Fake::start(), &begun);
    assert_eq!(lent.answered("gw_1", &["1", "Enter"]), None);
    assert!(lent.answered("gw_2", &["Escape"]).is_some());
    lent.tmux.until("connected to", 1);
    lent.tmux.keys(&["C-c"]);
    lent.tmux.until("ended with 0.", 1);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "");
}

#[test]
fn the_same_deed_asked_twice_is_one_question() {
    let lent = Lent::new();
    // The first holds the terminal, so that the others wait together.
    lent.fake.write("gw_0", "a.txt", "x");
    lent.tmux.until(ASKED, 1);
    for id in ["gw_1", "gw_2", "gw_3"] {
        lent.fake.write(id, "b.txt", "x");
    }
    until_asked(&lent, 4);
    lent.tmux.keys(&["4", "Enter"]);
    assert!(lent.fake.reply("gw_0").is_some());
    lent.tmux.until(ASKED, 2);
    lent.tmux.keys(&["2", "Enter"]);
    for id in ["gw_1", "gw_2", "gw_3"] {
        lent.fake.until(&format!("POST /gateway/response/{id}"));
    }
    assert_eq!(lent.tmux.count(ASKED), 2, "{}", lent.tmux.screen());
    assert_eq!(lent.written().as_deref(), Some("x"));
}

#[test]
fn allow_once_answers_the_one_question_that_was_shown() {
    let lent = Lent::new();
    lent.fake.write("gw_0", "a.txt", "x");
    lent.tmux.until(ASKED, 1);
    for id in ["gw_1", "gw_2"] {
        lent.fake.write(id, "b.txt", "x");
    }
    until_asked(&lent, 3);
    lent.tmux.keys(&["4", "Enter"]);
    lent.tmux.until(ASKED, 2);
    lent.tmux.keys(&["1", "Enter"]);
    // The other one is asked for itself, and a no to it is a no.
    lent.tmux.until(ASKED, 3);
    lent.tmux.keys(&["4", "Enter"]);
    let replies = ["gw_1", "gw_2"].map(|id| lent.fake.reply(id));
    let allowed = replies.iter().filter(|reason| reason.is_none()).count();
    assert_eq!(allowed, 1, "{replies:?}");
}

/// Whether a round shows anything: the keys in it were pressed while they could not
/// count, by the clock of the test itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Judged,
    TooSlow,
}

/// Plays rounds, each on a machine of its own, until one shows something.
#[track_caller]
fn judged(round: impl Fn() -> Round) {
    let mut rounds = (0..20).map(|_| round());
    assert!(rounds.any(|round| round == Round::Judged), "it is too slow");
}

/// A little less than the time in which no key is an answer to a question.
const UNREAD: Duration = Duration::from_millis(600);

/// A yes that was pressed within that time is none; one that is pressed later is.
fn a_yes_counts_once_it_is_asked(lent: &Lent, asked: usize) {
    lent.tmux.until(ASKED, asked);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(lent.fake.seen("POST /gateway/response/gw_1").len(), 0);
    lent.tmux.keys(&["1", "Enter"]);
    assert_eq!(lent.fake.reply("gw_1"), None);
    assert_eq!(lent.written().as_deref(), Some("x"));
}

#[test]
fn keys_pressed_before_a_question_can_be_read_are_no_answer_to_it() {
    judged(|| {
        let lent = Lent::new();
        let before = Instant::now();
        lent.fake.write("gw_1", "b.txt", "x");
        let shown = lent.tmux.shown_after(before, "An agent wants to", 1);
        lent.tmux.press(&["1", "Enter"]);
        if shown.elapsed() > UNREAD {
            return Round::TooSlow;
        }
        a_yes_counts_once_it_is_asked(&lent, 1);
        Round::Judged
    });
}

#[test]
fn a_line_somebody_was_writing_is_no_answer() {
    let lent = Lent::new();
    lent.fake.write("gw_1", "b.txt", "x");
    lent.tmux.until(ASKED, 1);
    let lines = ["check", "make check", "git stash pop 3", "jk", "sleep 1"];
    for line in lines {
        lent.tmux.keys(&[line, "Enter"]);
        lent.tmux.until("Letters choose nothing", 1);
    }
    lent.tmux.keys(&["Tab", "Tab", "Enter"]);
    assert_eq!(lent.fake.seen("POST /gateway/response/gw_1").len(), 0);
    assert_eq!(lent.written(), None);
    lent.tmux.point_at(4);
    lent.tmux.keys(&["Enter"]);
    let reason = lent.fake.reply("gw_1");
    assert_eq!(reason.as_deref(), Some("approval_denied"));
    lent.sandbox
        .run(&["rules", "list"])
        .with(0)
        .out_has("No answer");
}

#[test]
fn keys_meant_for_a_question_that_went_away_do_not_answer_the_next() {
    judged(meant_for_another);
}

fn meant_for_another() -> Round {
    let lent = Lent::new();
    lent.fake.write("gw_0", "a.txt", "x");
    lent.tmux.until(ASKED, 1);
    lent.fake.write("gw_1", "b.txt", "x");
    until_asked(&lent, 2);
    // Somebody answers the first at another terminal.
    let listed = lent.sandbox.run(&["approve", "list"]).with(0).out;
    let mut words = listed.split_whitespace();
    let first = words.find(|word| word.starts_with("q_"));
    let first = first.unwrap_or_else(|| panic!("{listed}"));
    let answer = ["approve", "answer", first, "deny_once"];
    let before = Instant::now();
    lent.sandbox.run(&answer).with(0);
    let gone = lent.tmux.shown_after(before, "Nobody waits", 1);
    lent.tmux.press(&["1", "Enter"]);
    if gone.elapsed() > UNREAD {
        return Round::TooSlow;
    }
    a_yes_counts_once_it_is_asked(&lent, 2);
    Round::Judged
}

#[test]
fn ctrl_c_twice_gets_out_of_a_flood_of_questions() {
    let lent = Lent::new();
    for n in 0..40 {
        lent.fake
            .write(&format!("gw_{n}"), &format!("{n}.txt"), "x");
    }
    lent.tmux.until(ASKED, 1);
    let mut last = Instant::now();
    lent.tmux.keys(&["C-c"]);
    // Each after the last one, until two were within the two seconds.
    for asked in 2..10 {
        lent.tmux.until(ASKED, asked);
        let this = Instant::now();
        lent.tmux.keys(&["C-c"]);
        let is_over = || lent.tmux.count("ended with 0.") > 0;
        while !is_over() && lent.tmux.count(ASKED) == asked {
            assert!(
                this.elapsed() < portcullis_testkit::PATIENCE,
                "nothing happens"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        if is_over() {
            break;
        }
        // The next question came: by our own clock they were too far apart.
        assert!(last.elapsed() > Duration::from_secs(2), "it goes on");
        last = this;
    }
    lent.tmux.until("ended with 0.", 1);
    lent.fake.until("POST /gateway/disconnect");
    let made = |n| lent.sandbox.dir().join(format!("{n}.txt")).exists();
    assert!((0..40).all(|n| !made(n)));
}

#[test]
fn ctrl_c_twice_gets_out_of_questions_that_are_gone_before_anybody_can_answer() {
    let lent = Lent::begun(Sandbox::new(), Fake::ours(), &Begun::default());
    let is_out = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each waits a fifth of a second, so that the next one is always deaf.
        scope.spawn(|| {
            let began = Instant::now();
            let flood = (0..).take_while(|_| !is_out.load(Ordering::Acquire));
            for n in flood.take_while(|_| began.elapsed() < Duration::from_mins(1)) {
                let arguments = json!({"filePath": format!("{n}.txt"), "content": "x"});
                let call = json!({"name": "write_file", "arguments": arguments});
                lent.fake
                    .send(&json!({"type": "filesystem-request", "payload": {
                    "requestId": format!("gw_{n}"), "toolCall": call,
                    "portcullis": {"deadlineMs": 400}}}));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        lent.tmux.until("Nobody waits", 3);
        lent.tmux.keys(&["C-c"]);
        lent.tmux.keys(&["C-c"]);
        let began = Instant::now();
        while lent.tmux.count("ended with 0.") == 0
            && began.elapsed() < portcullis_testkit::PATIENCE
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        is_out.store(true, Ordering::Release);
    });
    lent.tmux.until("ended with 0.", 1);
    lent.fake.until("POST /gateway/disconnect");
}

#[test]
fn a_terminal_that_is_held_up_holds_up_no_call() {
    let lent = Lent::new();
    lent.tmux.until("connected to", 1);
    lent.tmux.keys(&["C-s"]);
    for n in 0..20 {
        let id = format!("gw_{n}");
        lent.fake
            .call(&id, "read_file", json!({"filePath": "a.txt"}));
        assert_eq!(lent.fake.reply(&id), None);
    }
    lent.sandbox.run(&["status"]).with(0).out_has("connected");
    lent.tmux.keys(&["C-q", "C-c"]);
    lent.tmux.until("ended with 0.", 1);
}

/// Two writes of one file wait behind a question about another, so that they wait
/// together; that one is denied, and then the first of the two is answered so.
fn two_that_wait(lent: &Lent, contents: [&str; 2], answer: &str) {
    lent.fake.write("gw_0", "a.txt", "x");
    lent.tmux.until(ASKED, 1);
    for (id, content) in ["gw_1", "gw_2"].into_iter().zip(contents) {
        lent.fake.write(id, "b.txt", content);
    }
    until_asked(lent, 3);
    lent.tmux.keys(&["4", "Enter"]);
    lent.tmux.until(ASKED, 2);
    lent.tmux.keys(&[answer, "Enter"]);
}

/// Waits until so many questions are put, shown or not.
fn until_asked(lent: &Lent, count: usize) {
    let began = Instant::now();
    let listed = || lent.sandbox.run(&["approve", "list"]).with(0).out;
    while listed().matches("An agent wants to").count() < count {
        assert!(
            began.elapsed() < portcullis_testkit::PATIENCE,
            "{}",
            listed()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_no_for_once_is_said_to_the_very_same_deed_and_to_no_other() {
    let lent = Lent::new();
    two_that_wait(&lent, ["x", "x"], "4");
    for id in ["gw_1", "gw_2"] {
        let reason = lent.fake.reply(id);
        assert_eq!(reason.as_deref(), Some("approval_denied"), "{id}");
    }
    assert_eq!(lent.tmux.count(ASKED), 2, "{}", lent.tmux.screen());
    drop(lent);
    // The same file, and something else written to it.
    let lent = Lent::new();
    two_that_wait(&lent, ["x", "y"], "4");
    lent.tmux.until(ASKED, 3);
    let replied = |id: &str| {
        lent.fake
            .seen(&format!("POST /gateway/response/{id}"))
            .len()
    };
    assert_eq!(replied("gw_1") + replied("gw_2"), 1);
    lent.tmux.keys(&["1", "Enter"]);
    let replies = ["gw_1", "gw_2"].map(|id| lent.fake.reply(id));
    let allowed = replies.iter().filter(|reason| reason.is_none()).count();
    assert_eq!(allowed, 1, "{replies:?}");
}

#[test]
fn an_answer_that_lasts_is_said_to_whatever_is_asked_about_the_resource() {
    // For the session, for good, and never.
    for (answer, allows) in [("2", true), ("3", true), ("5", false)] {
        let lent = Lent::new();
        two_that_wait(&lent, ["x", "y"], answer);
        let replies = ["gw_1", "gw_2"].map(|id| lent.fake.reply(id));
        assert_eq!(lent.tmux.count(ASKED), 2, "{}", lent.tmux.screen());
        assert_eq!(lent.written().is_some(), allows);
        for reason in replies.iter().flatten() {
            // A yes was to a file that is not there: the slower of the two finds one.
            let was_slower = ["changed", "already_exists"].contains(&reason.as_str());
            assert_eq!(was_slower, allows, "{answer}: {replies:?}");
        }
        let done = replies.iter().filter(|reason| reason.is_none()).count();
        assert_eq!(done > 0, allows, "{answer}: {replies:?}");
    }
}

#[test]
fn a_yes_for_good_to_a_change_is_none_to_a_removal_that_waits() {
    let lent = Lent::new();
    lent.fake.write("gw_0", "c.txt", "x");
    lent.tmux.until(ASKED, 1);
    // Both are about the same file, and wait together.
    let adding = json!({"filePath": "a.txt", "content": "three\n"});
    lent.fake.call("gw_1", "append_file", adding);
    until_asked(&lent, 2);
    lent.fake.call("gw_2", "delete", json!({"path": "a.txt"}));
    until_asked(&lent, 3);
    lent.tmux.keys(&["4", "Enter"]);
    lent.tmux.until(ASKED, 2);
    lent.tmux.keys(&["3", "Enter"]);
    assert_eq!(lent.fake.reply("gw_1"), None);
    // It was not shown yet, so nobody has said a word to it.
    lent.tmux.until(ASKED, 3);
    lent.tmux.keys(&["Enter"]);
    let reason = lent.fake.reply("gw_2");
    assert_eq!(reason.as_deref(), Some("approval_denied"));
    assert_eq!(lent.sandbox.text("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn a_rule_about_an_odd_name_is_shown_as_it_is_stored_and_means_that_name() {
    let lent = Lent::new();
    let odd = "a [1] ü.txt";
    lent.fake.write("gw_1", odd, "x");
    lent.tmux.until(ASKED, 1);
    lent.tmux.keys(&["3", "Enter"]);
    assert_eq!(lent.fake.reply("gw_1"), None);
    let stored = Store::new(lent.sandbox.data()).rules().unwrap();
    let pattern = &stored.first().unwrap().rule.pattern;
    let listed = lent.sandbox.run(&["rules", "list"]).with(0).out;
    let line = listed.lines().find(|line| line.contains('ü')).unwrap();
    assert!(line.ends_with(pattern.as_str()), "{pattern}\n{listed}");
    // The very name, and none that it would match as a pattern.
    lent.fake.write("gw_2", odd, "y");
    assert_eq!(lent.fake.reply("gw_2"), None);
    assert_eq!(lent.sandbox.text(odd), "y");
    lent.fake.write("gw_3", "a 1 ü.txt", "x");
    lent.tmux.until(ASKED, 2);
    lent.tmux.keys(&["4", "Enter"]);
    assert!(lent.fake.reply("gw_3").is_some());
}
