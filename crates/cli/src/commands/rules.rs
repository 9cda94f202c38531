//! `portcullis rules`: answers that were given for good.

use portcullis_proto::{Failure, Reason, RootId};
use portcullis_store::{RuleId, Store};

use crate::args::{Everywhere, RulesCommand};
use crate::environment::Environment;
use crate::out::{Mark, Out, moment, shown};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings;
use crate::wiring::open_data;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &RulesCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let store = Store::new(data.path());
    match command {
        RulesCommand::List => list(&store),
        RulesCommand::Remove { id } => remove(&store, &Recorded::by("cli/rules", &data), id),
    }
}

fn list(store: &Store) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    let rules = store.rules()?;
    if rules.is_empty() {
        out.line("No answer was given for good yet. Rules you wrote yourself stand in the settings file: portcullis policy test")?;
        return Ok(Ending::Fine);
    }
    let rows: Vec<Vec<String>> = rules
        .iter()
        .map(|stored| {
            let rule = &stored.rule;
            vec![
                stored.id.to_string(),
                rule.effect.as_str().to_owned(),
                rule.group.to_string(),
                rule.root.as_ref().map_or("any", RootId::as_str).to_owned(),
                if rule.covers_protected { "yes" } else { "no" }.to_owned(),
                moment(
                    u64::try_from(stored.kept_at)
                        .unwrap_or(0)
                        .saturating_mul(1000),
                ),
                shown(&rule.source).into_owned(),
                stored
                    .place
                    .as_deref()
                    .map_or("any".into(), shown)
                    .into_owned(),
                shown(&rule.pattern).into_owned(),
            ]
        })
        .collect();
    out.table(
        &[
            "ID",
            "EFFECT",
            "GROUP",
            "ROOT",
            "PROTECTED",
            "SINCE",
            "FROM",
            "BELOW",
            "PATTERN",
        ],
        &rows,
    )?;
    out.blank()?;
    out.line("Take one back: portcullis rules remove ID")?;
    Ok(Ending::Fine)
}

fn remove(store: &Store, record: &Recorded, typed: &str) -> Result<Ending, Problem> {
    let id = RuleId::parse(typed).ok_or_else(|| {
        Problem::usage(format!("{typed:?} is not the number of a rule."))
            .hint("portcullis rules list")
    })?;
    record.change(&format!("rule remove {id}"), || {
        if store.remove_rule(id)? {
            return Ok(());
        }
        let what = format!("There is no rule {id}.");
        Err(Failure::new(Reason::NotFound, what).hint("portcullis rules list"))
    })?;
    let mut out = Out::stdout();
    out.line(Mark::Yes.with(format_args!(
        "rule {id} is gone; running servers stop using it within 100 ms"
    )))?;
    Ok(Ending::Fine)
}
