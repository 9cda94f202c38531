//! Every prompt, at a real terminal.

use crate::fake::{Fake, TOKEN};
use crate::sandbox::Sandbox;
use crate::tmux::Tmux;

const CONFIRM: &str = "Lend this machine?";
const ASKED: &str = "Esc denies once";

/// A machine that is lent, confirmed with Yes.
struct Lent {
    sandbox: Sandbox,
    fake: Fake,
    tmux: Tmux,
}

impl Lent {
    fn new() -> Self {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        let tmux = Tmux::run(&sandbox, &["connect", &fake.url(), TOKEN]);
        tmux.until(CONFIRM, 1);
        tmux.keys(&["Up", "Up", "Enter"]);
        fake.linked();
        Self {
            sandbox,
            fake,
            tmux,
        }
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

    fn written(&self) -> Option<String> {
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
        "filesystemWrite",
        "not available here",
    ] {
        assert!(screen.contains(part), "no {part} in\n{screen}");
    }
    assert!(!screen.contains(TOKEN));
    assert_eq!(fake.count(), 0, "nothing is said before the yes");
    tmux.keys(&["Up", "Up", "Enter"]);
    let init = fake.linked();
    assert_eq!(init["rootPath"], dir);
    assert_eq!(init["toolCategories"][0]["writeAccess"], true);
    tmux.until("connected to", 1);
    // Ctrl-C with no question open ends it in order.
    tmux.keys(&["C-c"]);
    tmux.until("ended with 0.", 1);
    assert_eq!(fake.seen("POST /gateway/disconnect").len(), 1);
}

#[test]
fn no_and_everything_that_is_no_answer_connect_nothing() {
    // Letters neither search nor move.
    let letters = &["y", "Enter"];
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
    let tmux = Tmux::run(&sandbox, &["connect", &fake.url(), TOKEN]);
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

#[test]
fn the_same_deed_asked_twice_is_one_question() {
    let lent = Lent::new();
    // The first holds the terminal, so that the others wait together.
    lent.fake.write("gw_0", "a.txt", "x");
    lent.tmux.until(ASKED, 1);
    for id in ["gw_1", "gw_2", "gw_3"] {
        lent.fake.write(id, "b.txt", "x");
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
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
    std::thread::sleep(std::time::Duration::from_millis(500));
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

#[test]
fn keys_meant_for_a_question_that_went_away_do_not_answer_the_next() {
    let lent = Lent::new();
    lent.fake.write("gw_0", "a.txt", "x");
    lent.tmux.until(ASKED, 1);
    lent.fake.write("gw_1", "b.txt", "x");
    std::thread::sleep(std::time::Duration::from_millis(500));
    // Somebody answers the first at another terminal.
    let listed = lent.sandbox.run(&["approve", "list"]).with(0).out;
    let mut words = listed.split_whitespace();
    let first = words.find(|word| word.starts_with("q_"));
    let first = first.unwrap_or_else(|| panic!("{listed}"));
    let answer = ["approve", "answer", first, "deny_once"];
    lent.sandbox.run(&answer).with(0);
    lent.tmux.until("Nobody waits", 1);
    lent.tmux.keys(&["1", "Enter"]);
    lent.tmux.until(ASKED, 2);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(lent.fake.seen("POST /gateway/response/gw_1").len(), 0);
    lent.tmux.keys(&["1", "Enter"]);
    assert_eq!(lent.fake.reply("gw_1"), None);
    assert_eq!(lent.written().as_deref(), Some("x"));
}
