//! The same scenarios through every surface: the same verdict, and the same
//! lines in the record.
//!
//! `scenarios` says what is done and what comes of it; `DIFFERENCES` holds what
//! one surface does otherwise, on purpose and with its reason. A difference that
//! is not listed fails the test, and so does a listed one that is gone.

mod deeds;
mod differences;
mod scenarios;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use portcullis_files::Record;
use portcullis_gate::{Answer, Decision, Surface as Spoken};
use portcullis_policy::{Effect, Modes, PatternSet, Rule, RuleSet, Rules};
use portcullis_proto::{Group, Mode, Scope};

use self::differences::DIFFERENCES;
use self::scenarios::scenarios;
use crate::lent::{How, Lent};
use crate::surfaces::{Deed, Manner, Surface, Told, line};
use crate::world::{PATIENCE, Running, World, now_ms};

/// How long a question waits where nobody is to answer it.
const SHORT: Duration = Duration::from_millis(250);

/// Under which rules.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// Everything is allowed.
    Allowed,
    /// Changes are asked about.
    Asked,
    /// Reads are asked about.
    ReadsAsked,
    /// Changes are off.
    ChangesOff,
    /// Everything is off.
    Off,
    /// Nobody trusts the workspace.
    Untrusted,
    /// A rule denies what is below `src`.
    RuleDenies,
    /// Changes are asked about, but a rule allows what is below `src`.
    RuleAllows,
    /// The root serves nothing but `src`, and of that no `*.key`.
    Globs,
}

/// Who is there to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    /// Nobody, and the call does not wait.
    Nobody,
    /// Somebody who says yes while the call waits.
    Yes,
    /// Somebody who says no while the call waits.
    No,
    /// Somebody who might, and does not in time.
    Silent,
    /// Somebody who says yes when the call has ended; it is made again.
    Later,
    /// The same, and it is made a third time with the same answer.
    LaterTwice,
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    pub(crate) person: Person,
    pub(crate) deed: Deed,
    /// What an agent is told.
    pub(crate) verdict: &'static str,
    /// The lines of the record that tell how it ended.
    pub(crate) lines: &'static [&'static str],
}

/// One surface that does otherwise, on purpose.
pub(crate) struct Difference {
    pub(crate) scenario: &'static str,
    pub(crate) surface: Surface,
    pub(crate) verdict: &'static str,
    pub(crate) lines: &'static [&'static str],
    pub(crate) why: &'static str,
}

fn rule(effect: Effect, group: Group, pattern: &str) -> Rule {
    Rule {
        effect,
        group,
        root: None,
        pattern: pattern.to_owned(),
        covers_protected: false,
        exact_path: false,
        source: "a rule".into(),
    }
}

fn world(setting: Setting) -> World {
    let modes = |read, write| {
        Modes::recommended()
            .with(Group::FilesystemRead, read)
            .with(Group::FilesystemWrite, write)
    };
    let under = |modes, rules| {
        World::under(Rules {
            modes,
            stored: RuleSet::compile(rules).unwrap(),
        })
    };
    let world = match setting {
        Setting::Allowed => under(modes(Mode::Allow, Mode::Allow), Vec::new()),
        Setting::Asked => under(modes(Mode::Allow, Mode::Ask), Vec::new()),
        Setting::ReadsAsked => under(modes(Mode::Ask, Mode::Ask), Vec::new()),
        Setting::ChangesOff => under(modes(Mode::Allow, Mode::Deny), Vec::new()),
        Setting::Off => under(modes(Mode::Deny, Mode::Allow), Vec::new()),
        Setting::Untrusted => under(modes(Mode::Allow, Mode::Allow), Vec::new()).untrusted(),
        Setting::RuleDenies => {
            let deny = rule(Effect::Deny, Group::FilesystemRead, "src/**");
            under(modes(Mode::Allow, Mode::Allow), vec![deny])
        }
        Setting::RuleAllows => {
            let allow = rule(Effect::Allow, Group::FilesystemWrite, "src/**");
            under(modes(Mode::Allow, Mode::Ask), vec![allow])
        }
        Setting::Globs => {
            under(modes(Mode::Allow, Mode::Allow), Vec::new()).with_policy(|policy| {
                policy.allowed = PatternSet::compile(&["src/**"]).unwrap();
                policy.denied = PatternSet::compile(&["src/*.key"]).unwrap();
            })
        }
    };
    deeds::plant(&world.scratch);
    world
}

/// Answers the one question there is, as soon as there is one.
fn answer(world: &World, decision: Decision) {
    let until = Instant::now() + PATIENCE;
    let answer = Answer {
        decision,
        surface: Spoken::Terminal,
        by: "a person".into(),
    };
    loop {
        if let Some(question) = world.store.pending(1, now_ms()).unwrap().pop() {
            let said = world.store.answer(&question.id, &answer, now_ms());
            assert_eq!(format!("{:?}", said.unwrap()), "Answered");
            return;
        }
        assert!(Instant::now() < until, "nothing was asked");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Does it, with whoever is there.
fn told(world: &World, server: &Running, surface: Surface, scenario: &Scenario) -> Told {
    let token = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let ask = |manner: &Manner| surface.ask(server, &token, &scenario.deed, manner);
    let waiting = Manner {
        waits: true,
        brings: None,
    };
    let during = |decision| {
        std::thread::scope(|scope| {
            let call = scope.spawn(|| ask(&waiting));
            answer(world, decision);
            call.join().unwrap()
        })
    };
    let is_there = || world.store.watcher_heartbeat("w", now_ms()).unwrap();
    match scenario.person {
        Person::Nobody => ask(&Manner::default()),
        Person::Yes => {
            is_there();
            during(Decision::AllowOnce)
        }
        Person::No => {
            is_there();
            during(Decision::DenyOnce)
        }
        Person::Silent => {
            is_there();
            ask(&waiting)
        }
        Person::Later | Person::LaterTwice => {
            let first = ask(&Manner::default());
            let Some(id) = first.question.clone() else {
                return first;
            };
            answer(world, Decision::AllowOnce);
            let bringing = Manner {
                waits: false,
                brings: Some(id),
            };
            let second = ask(&bringing);
            match scenario.person {
                Person::LaterTwice => ask(&bringing),
                Person::Nobody | Person::Yes | Person::No | Person::Silent | Person::Later => {
                    second
                }
            }
        }
    }
}

/// What came of it: what was told, and what is on the record.
fn seen(surface: Surface, scenario: &Scenario) -> (String, Vec<String>) {
    let mut world = world(scenario.setting);
    if scenario.person == Person::Silent {
        world = world.patient_for(SHORT);
    }
    let server = world.start();
    let told = told(&world, &server, surface, scenario);
    server.join();
    let lines = world.closings().iter().map(line).collect();
    (told.verdict, lines)
}

/// The same over a link: asked of a server, done by a machine that is lent to it
/// and under its rules. What the server refuses by itself is on its own record.
fn seen_over_a_link(scenario: &Scenario) -> (String, Vec<String>) {
    let mut near = World::new(Mode::Allow);
    if scenario.person == Person::Silent {
        near = near.patient_for(SHORT);
    }
    let far = world(scenario.setting);
    let server = near.start();
    let lent = Lent::to(&near, &server, &far, How::named("laptop"));
    let told = told(&near, &server, Surface::Rest, scenario);
    lent.end();
    server.join();
    let is_own = |record: &&Record| {
        let operation = record.operation.as_deref();
        !matches!(operation, Some("relay" | "administer"))
    };
    let own = near.closings();
    let mut lines: Vec<String> = own.iter().filter(is_own).map(line).collect();
    lines.extend(far.closings().iter().map(line));
    // Of two records, neither says what came first.
    lines.sort();
    (told.verdict, lines)
}

/// How a machine that lets its server ask records what is asked about: the call
/// ends with the question, and what comes with a yes is another one.
fn over_a_link(scenario: &Scenario) -> Vec<String> {
    let parked = |line: &str| {
        let (what, rest) = line.split_once(": ").unwrap();
        let by = rest.rsplit_once(" by ").unwrap().1;
        format!("{what}: parked approval_pending by {by}")
    };
    let lines = || scenario.lines.iter().map(|line| (*line).to_owned());
    match scenario.person {
        Person::Nobody => lines().collect(),
        Person::Yes => scenario
            .lines
            .iter()
            .flat_map(|line| [parked(line), (*line).to_owned()])
            .collect(),
        Person::No | Person::Silent => scenario.lines.iter().map(|line| parked(line)).collect(),
        // Brought later, the call is made as it was and ends with its question.
        Person::Later | Person::LaterTwice => {
            let parked = lines().filter(|line| line.contains(": parked "));
            parked
                .flat_map(|line| [line.clone(), line])
                .chain(lines().filter(|line| !line.contains(": parked ")))
                .collect()
        }
    }
}

#[test]
fn a_machine_that_is_lent_gives_the_same_verdicts_kinds_and_lines() {
    let mut wrong = Vec::new();
    for scenario in &scenarios() {
        let (verdict, lines) = seen_over_a_link(scenario);
        let mut wanted = over_a_link(scenario);
        wanted.sort();
        if verdict != scenario.verdict || lines != wanted {
            wrong.push(format!(
                "{}\n    {verdict} {lines:?}\n    wanted {} {wanted:?}",
                scenario.name, scenario.verdict
            ));
        }
    }
    println!("{} scenarios over a link", scenarios().len());
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_surface_gives_the_same_verdicts_kinds_and_lines() {
    let scenarios = scenarios();
    let names: BTreeSet<&str> = scenarios.iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), scenarios.len(), "two scenarios of one name");
    for difference in &DIFFERENCES {
        assert!(names.contains(difference.scenario), "{}", difference.why);
    }
    let (mut wrong, mut found) = (Vec::new(), 0);
    for scenario in &scenarios {
        for surface in Surface::ALL {
            let (verdict, lines) = seen(surface, scenario);
            let listed = DIFFERENCES
                .iter()
                .find(|one| one.scenario == scenario.name && one.surface == surface);
            let wanted = (scenario.verdict, scenario.lines);
            let (verdict_wanted, lines_wanted) =
                listed.map_or(wanted, |one| (one.verdict, one.lines));
            if let Some(one) = listed {
                assert_ne!(
                    (one.verdict, one.lines),
                    wanted,
                    "{}: no difference",
                    one.scenario
                );
                found += 1;
            }
            if verdict != verdict_wanted || lines != lines_wanted {
                let listed = listed.map_or("", |one| one.why);
                wrong.push(format!(
                    "{} [{surface:?}] {listed}\n    {verdict} {lines:?}\n    wanted {verdict_wanted} {lines_wanted:?}",
                    scenario.name
                ));
            }
        }
    }
    println!(
        "{} scenarios through {} surfaces, {} differences on purpose",
        scenarios.len(),
        Surface::ALL.len(),
        DIFFERENCES.len()
    );
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(
        found,
        DIFFERENCES.len(),
        "one scenario and surface is listed twice"
    );
    assert!(scenarios.len() >= 60);
}
