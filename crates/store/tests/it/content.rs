//! Rules, trust, questions, watchers and nonces, in one process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_gate::{Answer, Decision, Keeper, Surface};
use portcullis_policy::{Effect, Rule, RuleSet};
use portcullis_proto::{Failure, Group, Principal, Reason};
use portcullis_store::{RuleId, Said, Stage, Store, Trouble};
use portcullis_testkit::promised;

use crate::kit::{Dir, NOW, answer, id, question, raw, rule};

const DAY: u64 = 24 * 60 * 60 * 1000;

#[test]
fn rules_come_back_exactly_as_they_were_kept() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let mut kept = Vec::new();
    for (at, group) in Group::ALL.into_iter().enumerate() {
        kept.push(Rule {
            group,
            root: None,
            covers_protected: at % 2 == 0,
            exact_path: at % 2 == 0,
            source: format!("settings.json:{at} – \u{1f512} 'quoted\"").into(),
            ..rule(Effect::Deny, &format!("src/{at}/**/*.[ch]"))
        });
    }
    kept.push(rule(Effect::Allow, "/exact \u{e9} name"));
    for one in &kept {
        store.keep(one).unwrap();
    }
    assert_eq!(store.load().unwrap(), kept);
    assert_eq!(Store::new(dir.path()).load().unwrap(), kept);
    RuleSet::compile(store.load().unwrap()).unwrap();
}

#[test]
fn a_rule_said_twice_is_one_rule_and_an_id_is_never_given_again() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let first = store.keep_rule(&rule(Effect::Allow, "a")).unwrap();
    assert_eq!(store.keep_rule(&rule(Effect::Allow, "a")).unwrap(), first);
    let second = store.keep_rule(&rule(Effect::Deny, "a")).unwrap();
    assert_eq!(RuleId::parse(&second.to_string()), Some(second));
    assert_eq!(RuleId::parse("-1"), None);
    assert!(store.remove_rule(second).unwrap());
    assert!(!store.remove_rule(second).unwrap());
    assert!(store.keep_rule(&rule(Effect::Deny, "b")).unwrap() > second);
    let patterns: Vec<_> = store
        .load()
        .unwrap()
        .into_iter()
        .map(|r| r.pattern)
        .collect();
    assert_eq!(patterns, ["a", "b"]);
}

#[test]
fn what_cannot_be_loaded_is_not_kept() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    for pattern in ["a[", &"x".repeat(20_000)] {
        let error = store.keep_rule(&rule(Effect::Deny, pattern)).unwrap_err();
        assert_eq!(error.trouble(), Trouble::Invalid, "{error:?}");
    }
    assert_eq!(store.load().unwrap(), []);
}

#[test]
fn there_are_at_most_ten_thousand_rules() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let last = store.keep_rule(&rule(Effect::Allow, "first")).unwrap();
    // The rest in one go: ten thousand syncs are not what is tested.
    let by_hand = raw(&dir);
    by_hand.execute_batch(
        "INSERT INTO rules (effect, tool_group, root, pattern, covers_protected, source, kept_at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
         SELECT 'allow', 'shell', NULL, 'p' || i, 0, 's', 0 FROM n",
    )
    .unwrap();
    let error = store.keep_rule(&rule(Effect::Deny, "more")).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Full);
    assert!(error.next_step().unwrap().contains("rules remove"));
    // One that is there already is no new one.
    assert_eq!(
        store.keep_rule(&rule(Effect::Allow, "first")).unwrap(),
        last
    );
    assert!(store.remove_rule(last).unwrap());
    store.keep_rule(&rule(Effect::Deny, "more")).unwrap();
    assert_eq!(store.load().unwrap().len(), 10_000);
}

#[test]
fn a_rule_nobody_understands_fails_them_all() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    store.keep(&rule(Effect::Deny, "a")).unwrap();
    let by_hand = raw(&dir);
    by_hand
        .execute_batch("UPDATE rules SET effect = 'maybe'")
        .unwrap();
    assert_eq!(store.load().unwrap_err().trouble(), Trouble::Damaged);
}

#[test]
fn the_version_changes_with_rules_and_trust_and_not_with_questions() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let other = Store::new(dir.path());
    assert_eq!(store.version().unwrap(), 0);
    let mut last = 0;
    let mut changed = |changes: bool, what: &str| {
        let now = store.version().unwrap();
        assert_eq!(now != last, changes, "{what}");
        assert_eq!(other.version().unwrap(), now, "{what}");
        last = now;
    };
    let kept = store.keep_rule(&rule(Effect::Deny, "a")).unwrap();
    changed(true, "a rule was kept");
    store.keep_rule(&rule(Effect::Deny, "a")).unwrap();
    changed(false, "the same rule was kept");
    store.trust_add("/w", 1, 2).unwrap();
    changed(true, "trust was given");
    store.ask(&question("q")).unwrap();
    store.watcher_heartbeat("w", NOW).unwrap();
    assert!(store.use_once("n", NOW + 1, NOW).unwrap());
    changed(false, "a question was asked");
    assert!(store.remove_rule(kept).unwrap());
    changed(true, "a rule was removed");
    assert!(store.trust_remove("/w").unwrap());
    changed(true, "trust was taken back");
}

#[test]
fn trust_is_in_the_directory_and_not_in_its_name() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    assert!(!store.is_trusted("/w", 1, 2).unwrap());
    store.trust_add("/w", u64::MAX, u64::MAX - 1).unwrap();
    assert!(store.is_trusted("/w", u64::MAX, u64::MAX - 1).unwrap());
    assert!(!store.is_trusted("/w", u64::MAX, 2).unwrap(), "replaced");
    assert!(
        !store.is_trusted("/w", 1, u64::MAX - 1).unwrap(),
        "mounted over"
    );
    assert!(
        !store.is_trusted("/x", u64::MAX, u64::MAX - 1).unwrap(),
        "renamed"
    );
    store.trust_add("/w", 1, 3).unwrap();
    assert!(!store.is_trusted("/w", u64::MAX, u64::MAX - 1).unwrap());
    let listed: Vec<_> = store.trusted().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].path.as_str(), listed[0].dev, listed[0].ino),
        ("/w", 1, 3)
    );
    assert!(store.trust_remove("/w").unwrap());
    assert!(!store.trust_remove("/w").unwrap());
    assert!(!store.is_trusted("/w", 1, 3).unwrap());
}

#[test]
fn a_question_comes_back_as_it_was_asked_and_its_answer_counts_once() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let asked = question("q");
    store.ask(&asked).unwrap();
    assert_eq!(store.ask(&asked).unwrap_err().trouble(), Trouble::Invalid);
    assert_eq!(
        store.pending(10, NOW).unwrap(),
        std::slice::from_ref(&asked)
    );
    assert_eq!(store.poll(&asked.id, NOW).unwrap(), Stage::Pending);
    assert_eq!(store.take(&asked.id).unwrap(), None);

    let yes = answer(Decision::AllowOnce, "ada");
    let no = answer(Decision::DenyOnce, "eve");
    assert_eq!(store.answer(&asked.id, &yes, NOW).unwrap(), Said::Answered);
    assert_eq!(
        store.answer(&asked.id, &no, NOW).unwrap(),
        Said::AlreadyAnswered
    );
    assert_eq!(store.pending(10, NOW).unwrap(), []);
    assert_eq!(
        store.poll(&asked.id, NOW).unwrap(),
        Stage::Answered(yes.clone())
    );
    let taken = store.take(&asked.id).unwrap();
    assert_eq!(taken, Some((asked.digest, yes.clone())));
    assert_eq!(store.take(&asked.id).unwrap(), None);
    assert_eq!(
        store.answer(&asked.id, &no, NOW).unwrap(),
        Said::AlreadyAnswered
    );
    assert_eq!(store.poll(&asked.id, NOW).unwrap(), Stage::Used(yes));

    // The same attempt may have to ask a second time.
    store.ask(&asked).unwrap();
    assert_eq!(store.poll(&asked.id, NOW).unwrap(), Stage::Pending);
    assert_eq!(store.take(&asked.id).unwrap(), None);
}

#[test]
fn one_who_asks_without_end_leaves_room_for_the_others() {
    let dir = Dir::in_memory();
    let store = Store::new(dir.path());
    // Whatever credential of theirs asks.
    let of = |user: &str, n: usize| {
        let mut asked = question(&format!("q_{user}_{n}"));
        asked.subject.principal = Principal::Token {
            user: user.into(),
            id: format!("t{}", n % 7).into(),
        };
        asked
    };
    for n in 0..1_000 {
        store.ask(&of("eve", n)).unwrap();
    }
    let full = |n| store.ask(&of("eve", n)).unwrap_err().trouble();
    assert_eq!(full(1_000), Trouble::Full);
    store.ask(&of("ada", 0)).unwrap();
    assert_eq!(store.pending_of("ada", 10, NOW).unwrap(), [of("ada", 0)]);
    assert_eq!(store.pending_of("eve", 2_000, NOW).unwrap().len(), 1_000);
    assert_eq!(store.count_pending(NOW).unwrap(), 1_001);
    // An answer nobody has come for holds its place; one that was used does not.
    let no = answer(Decision::DenyOnce, "ada");
    let said = store.answer(&of("eve", 0).id, &no, NOW).unwrap();
    assert_eq!(said, Said::Answered);
    assert_eq!(full(1_000), Trouble::Full);
    assert!(store.take(&of("eve", 0).id).unwrap().is_some());
    store.ask(&of("eve", 1_000)).unwrap();
    // Nor does what is too old.
    let mut later = of("eve", 1_001);
    later.asked_at = later.deadline;
    later.deadline += 1;
    store.ask(&later).unwrap();
}

#[test]
fn an_answer_nobody_comes_for_holds_for_a_day_after_the_deadline() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let asked = question("q");
    store.ask(&asked).unwrap();
    let yes = answer(Decision::AllowOnce, "ada");
    assert_eq!(store.answer(&asked.id, &yes, NOW).unwrap(), Said::Answered);
    let day = asked.deadline + DAY;
    let stage = |now| store.poll(&asked.id, now).unwrap();
    assert_eq!(stage(day - 1), Stage::Answered(yes));
    assert_eq!(stage(day), Stage::Expired);
}

#[test]
fn a_lasting_answer_is_kept_when_it_is_said() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    for (decision, surface, kept) in [
        (Decision::AllowOnce, Surface::Console, None),
        (Decision::AlwaysAllow, Surface::Mcp, None),
        (Decision::AlwaysAllow, Surface::Console, Some(Effect::Allow)),
        (Decision::AlwaysDeny, Surface::Terminal, Some(Effect::Deny)),
    ] {
        let mut asked = question(&format!("q_{}_{}", decision.as_str(), surface.as_str()));
        asked.offered = Decision::ALL.to_vec();
        store.ask(&asked).unwrap();
        let before = store.load().unwrap().len();
        let said = Answer {
            surface,
            ..answer(decision, "ada")
        };
        assert_eq!(store.answer(&asked.id, &said, NOW).unwrap(), Said::Answered);
        let rules = store.load().unwrap();
        match kept {
            Some(effect) => {
                let rule = rules.last().unwrap();
                assert_eq!(rules.len(), before + asked.facts.resources.len());
                assert_eq!(rule.effect, effect);
                assert_eq!(&*rule.source, format!("answer:{}", asked.id));
            }
            None => assert_eq!(rules.len(), before, "{decision:?} {surface:?}"),
        }
    }
}

#[test]
fn a_lasting_answer_is_kept_for_the_directory_that_was_asked_about() {
    let dir = Dir::new();
    // Who asks knows where its roots begin, who answers need not.
    let asks_at = |place: Option<&str>| {
        let store = Store::new(dir.path());
        let root = question("q").facts.resources[0].root.clone();
        if let Some(place) = place {
            store.stands_at([(&root, place.to_owned())]);
        }
        store
    };
    for (n, place) in [Some("/w/a"), Some("/w/b"), Some("/w/a"), None]
        .into_iter()
        .enumerate()
    {
        let mut asked = question(&format!("q_{n}"));
        asked.offered = Decision::ALL.to_vec();
        asks_at(place).ask(&asked).unwrap();
        let said = Answer {
            surface: Surface::Terminal,
            ..answer(Decision::AlwaysAllow, "ada")
        };
        let answered = asks_at(Some("/elsewhere")).answer(&asked.id, &said, NOW);
        assert_eq!(answered.unwrap(), Said::Answered);
    }
    let of_one = question("q").facts.resources.len();
    let kept: Vec<_> = asks_at(None).rules().unwrap();
    let kept: Vec<_> = kept.iter().step_by(of_one).collect();
    let places: Vec<_> = kept.iter().map(|rule| rule.place.as_deref()).collect();
    assert_eq!(places, [Some("/w/a"), Some("/w/b"), None]);
    // The gate's own keeping says the same.
    asks_at(Some("/w/b")).keep(&kept[0].rule).unwrap();
    assert_eq!(asks_at(None).rules().unwrap().len(), kept.len() * of_one);
}

#[test]
fn only_what_is_offered_in_time_is_an_answer() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let yes = answer(Decision::AllowOnce, "ada");
    assert_eq!(store.poll(&id("q"), NOW).unwrap(), Stage::Unknown);
    assert_eq!(store.answer(&id("q"), &yes, NOW).unwrap(), Said::Unknown);
    let asked = question("q");
    store.ask(&asked).unwrap();
    for decision in [
        Decision::AllowSession,
        Decision::AlwaysAllow,
        Decision::AlwaysDeny,
    ] {
        let said = store
            .answer(&asked.id, &answer(decision, "ada"), NOW)
            .unwrap();
        assert_eq!(said, Said::NotOffered);
    }
    let late = store.answer(&asked.id, &yes, asked.deadline).unwrap();
    assert_eq!(late, Said::Expired);
    assert_eq!(
        store.poll(&asked.id, asked.deadline).unwrap(),
        Stage::Expired
    );
    assert_eq!(store.pending(10, asked.deadline).unwrap(), []);
    let in_time = store.answer(&asked.id, &yes, asked.deadline - 1).unwrap();
    assert_eq!(in_time, Said::Answered);
}

#[test]
fn what_nobody_waits_for_any_more_is_no_answer() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let yes = answer(Decision::AllowOnce, "ada");
    for name in ["before", "after"] {
        store.ask(&question(name)).unwrap();
    }
    assert_eq!(
        store.answer(&id("after"), &yes, NOW).unwrap(),
        Said::Answered
    );
    assert_eq!(
        store
            .withdraw(&[id("before"), id("after"), id("none")])
            .unwrap(),
        2
    );
    assert_eq!(
        store.answer(&id("before"), &yes, NOW).unwrap(),
        Said::Expired
    );
    for name in ["before", "after"] {
        assert_eq!(store.poll(&id(name), NOW).unwrap(), Stage::Withdrawn);
        assert_eq!(store.take(&id(name)).unwrap(), None);
    }
}

#[test]
fn of_eight_who_answer_at_once_one_wins() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    for round in 0..25 {
        let asked = question(&format!("q{round}"));
        store.ask(&asked).unwrap();
        let won = AtomicUsize::new(0);
        let winner = AtomicUsize::new(usize::MAX);
        std::thread::scope(|scope| {
            for me in 0..8 {
                let (asked, won, winner) = (&asked, &won, &winner);
                // Connections of their own, as other processes have.
                let store = Store::new(dir.path());
                scope.spawn(move || {
                    let mine = answer(Decision::ALL[(me % 2) * 3], &me.to_string());
                    match store.answer(&asked.id, &mine, NOW).unwrap() {
                        Said::Answered => {
                            won.fetch_add(1, Ordering::SeqCst);
                            winner.store(me, Ordering::SeqCst);
                        }
                        Said::AlreadyAnswered => {}
                        other @ (Said::Expired | Said::NotOffered | Said::Unknown) => {
                            panic!("{other:?}")
                        }
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::SeqCst), 1);
        let (_, recorded) = store.take(&asked.id).unwrap().unwrap();
        assert_eq!(recorded.by, winner.load(Ordering::SeqCst).to_string());
    }
}

#[test]
fn questions_are_forgotten_a_day_after_their_deadline() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let asked = question("q");
    store.ask(&asked).unwrap();
    assert_eq!(store.prune(asked.deadline + DAY).unwrap(), 0);
    assert_eq!(store.prune(asked.deadline + DAY + 1).unwrap(), 1);
    assert_eq!(store.poll(&asked.id, NOW).unwrap(), Stage::Unknown);
}

#[test]
fn a_hundred_thousand_questions_are_the_most_and_one_that_waits_is_never_dropped() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    store.ask(&question("first")).unwrap();
    let by_hand = raw(&dir);
    let fill = |state: &str| {
        by_hand
            .execute_batch(&format!(
                "DELETE FROM questions WHERE id <> 'first';
             INSERT INTO questions (id, state, digest, body, offered, deadline)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)
             SELECT 'x' || i, '{state}', '', '', '', {} FROM n",
                NOW + 1
            ))
            .unwrap();
    };
    fill("pending");
    let error = store.ask(&question("more")).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Full);
    fill("used");
    store.ask(&question("more")).unwrap();
    assert_eq!(store.poll(&id("first"), NOW).unwrap(), Stage::Pending);
    let count: i64 = by_hand
        .query_row("SELECT count(*) FROM questions", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 99_001);
}

#[test]
fn a_watcher_counts_for_five_seconds() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    assert!(!store.has_watcher(NOW).unwrap());
    store.watcher_heartbeat("w", NOW).unwrap();
    assert!(store.has_watcher(NOW + 4_999).unwrap());
    assert!(!store.has_watcher(NOW + 5_000).unwrap());
    assert!(
        !store.has_watcher(NOW - 5_001).unwrap(),
        "the clock was set back"
    );
    store.watcher_heartbeat("v", NOW + 6_000).unwrap();
    store.watcher_gone("v").unwrap();
    assert!(!store.has_watcher(NOW + 6_000).unwrap());
}

#[test]
fn a_nonce_counts_once_and_not_after_its_time() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    assert!(store.use_once("n", NOW + 10, NOW).unwrap());
    assert!(!store.use_once("n", NOW + 10, NOW).unwrap());
    assert!(!store.use_once("n", NOW + 10, NOW + 10).unwrap());
    assert!(!store.use_once("late", NOW, NOW).unwrap());
    assert!(store.use_once("m", NOW + 99, NOW + 50).unwrap());
    let kept: i64 = raw(&dir)
        .query_row("SELECT count(*) FROM nonces", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1, "what expired is not kept");
    for bad in ["", &"n".repeat(257)] {
        assert_eq!(
            store.use_once(bad, NOW + 9, NOW).unwrap_err().trouble(),
            Trouble::Invalid
        );
    }
}

#[test]
fn a_failure_of_the_store_is_operational_and_shows_no_path() {
    let store = Store::new("/nonexistent/data");
    let error = store.keep_rule(&rule(Effect::Deny, "a")).unwrap_err();
    assert!(!error.detail().is_empty());
    let failure = Failure::from(error);
    assert_eq!(failure.reason(), Reason::Io);
    assert!(!failure.message().contains('/'));
    assert!(
        store
            .keep(&rule(Effect::Deny, "a"))
            .is_err_and(|said| !said.contains('/'))
    );
}

#[test]
fn reads_are_short_enough_to_run_where_they_are_needed() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let start = Instant::now();
    store.keep_rule(&rule(Effect::Deny, "first")).unwrap();
    let made = start.elapsed();
    drop(store);
    let store = Store::new(dir.path());
    let start = Instant::now();
    store.version().unwrap();
    let opened = start.elapsed();
    let each = |count: u32, act: &mut dyn FnMut(u32)| {
        let start = Instant::now();
        (0..count).for_each(act);
        start.elapsed() / count
    };
    let version = each(1000, &mut |_| {
        store.version().unwrap();
    });
    let keep = each(50, &mut |at| {
        store.keep(&rule(Effect::Deny, &at.to_string())).unwrap();
    });
    let ask = each(200, &mut |at| {
        store.ask(&question(&format!("q{at}"))).unwrap();
    });
    let watched = each(1000, &mut |_| {
        store.has_watcher(NOW).unwrap();
    });
    println!(
        "made in {made:?}, opened in {opened:?}; version {version:?}, has_watcher {watched:?}, \
         ask {ask:?}, keep (synced) {keep:?}"
    );
    assert!(version < promised(Duration::from_millis(1)), "{version:?}");
    assert!(watched < promised(Duration::from_millis(1)), "{watched:?}");
}
