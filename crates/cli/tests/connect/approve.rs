//! `portcullis approve` at another terminal than the one that lends.

use std::time::Duration;

use crate::prompts::{ASKED, Lent};
use crate::tmux::Tmux;

const PROMPT: &str = "Your answer";

#[test]
fn letters_decide_nothing_and_enter_by_habit_is_a_no() {
    let lent = Lent::new();
    for (n, letters) in ["d", "y", "al", "once"].into_iter().enumerate() {
        let id = format!("gw_{n}");
        lent.fake.write(&id, "b.txt", "x");
        lent.tmux.until(ASKED, n + 1);
        let there = Tmux::run(&lent.sandbox, &["approve"]);
        there.until(PROMPT, 1);
        there.keys(&[letters, "Enter"]);
        there.until("ended with 0.", 1);
        let reason = lent.fake.reply(&id);
        assert_eq!(reason.as_deref(), Some("approval_denied"), "{letters}");
        let screen = there.screen();
        assert!(screen.contains("Deny once: q_"), "{letters}\n{screen}");
    }
    assert_eq!(lent.written(), None);
}

#[test]
fn what_was_typed_before_the_question_was_there_is_no_answer_to_it() {
    let lent = Lent::new();
    let there = Tmux::run(&lent.sandbox, &["approve", "--watch"]);
    there.until("Watching for questions", 1);
    there.keys(&["Up", "Up", "Up", "Enter"]);
    lent.fake.write("gw_1", "b.txt", "x");
    there.until(PROMPT, 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(lent.fake.seen("POST /gateway/response/gw_1").len(), 0);
    there.keys(&["Up", "Up", "Up", "Enter"]);
    assert_eq!(lent.fake.reply("gw_1"), None);
    assert_eq!(lent.written().as_deref(), Some("x"));
}
