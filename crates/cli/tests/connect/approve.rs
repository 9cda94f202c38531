//! `portcullis approve` at another terminal than the one that lends.

use std::time::Duration;

use crate::prompts::{ASKED, Lent};
use crate::tmux::Tmux;

const PROMPT: &str = "Your answer";
const HOW: &str = "Esc leaves it unanswered";
const LETTERS: &str = "Letters choose nothing";

#[test]
fn letters_and_enter_answer_nothing_and_a_number_still_does() {
    let lent = Lent::new();
    let lines = ["d", "y", "Allow", "deny once"];
    for (n, letters) in lines.into_iter().enumerate() {
        let id = format!("gw_{n}");
        lent.fake.write(&id, "b.txt", &id);
        lent.tmux.until(ASKED, n + 1);
        let there = Tmux::run(&lent.sandbox, &["approve"]);
        there.until(PROMPT, 1);
        there.until(HOW, 1);
        there.keys(&[letters, "Enter", "Enter"]);
        there.until(LETTERS, 1);
        let response = format!("POST /gateway/response/{id}");
        assert_eq!(lent.fake.seen(&response).len(), 0, "{letters}");
        there.point_at(1);
        there.keys(&["Enter"]);
        there.until("ended with 0.", 1);
        assert_eq!(lent.fake.reply(&id), None, "{letters}");
        assert_eq!(lent.written(), Some(id));
        let screen = there.screen();
        assert!(screen.contains("Allow once: q_"), "{letters}\n{screen}");
    }
}

#[test]
fn enter_by_habit_is_a_no_and_escape_leaves_it_unanswered() {
    let lent = Lent::new();
    lent.fake.write("gw_1", "b.txt", "x");
    lent.tmux.until(ASKED, 1);
    let left = Tmux::run(&lent.sandbox, &["approve"]);
    left.until(HOW, 1);
    left.keys(&["Escape"]);
    left.until("ended with 0.", 1);
    assert_eq!(lent.fake.seen("POST /gateway/response/gw_1").len(), 0);
    let there = Tmux::run(&lent.sandbox, &["approve"]);
    there.until(HOW, 1);
    there.keys(&["Enter"]);
    there.until("Deny once: q_", 1);
    assert_eq!(lent.fake.reply("gw_1").as_deref(), Some("approval_denied"));
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
