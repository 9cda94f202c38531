//! `portcullis settings`: the settings file, changed only when somebody says so.

use portcullis_files::{OwnPlace, PrivateDir, read_own_text, write_own_text};
use portcullis_proto::{Failure, Reason};

use crate::args::{Everywhere, SettingsCommand};
use crate::environment::Environment;
use crate::out::{Mark, Out, shown};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings::{self, Imported, NotImported, is_template};
use crate::wiring::open_data;

/// The largest settings file that is read.
const MAX_FILE: u64 = 4 << 20;
const NAME: &str = "settings.json";
/// Where the settings there were are kept: under this name, and where it is taken
/// under the next that is not. What was kept once stays.
const BEFORE: &str = "settings.json.before-import";
/// How many are kept.
const MAX_BEFORE: u32 = 100;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &SettingsCommand,
) -> Result<Ending, Problem> {
    let SettingsCommand::Import { file, replace } = command;
    if everywhere.settings.is_some() || env.settings.is_some() {
        return Err(Problem::usage(
            "An import writes the settings of the data directory, and nobody reads those while --settings or PORTCULLIS_SETTINGS names others. Nothing was changed.",
        )
        .hint("env -u PORTCULLIS_SETTINGS portcullis settings import, without --settings"));
    }
    let from = match (file, &env.home) {
        (Some(file), _) => settings::absolute(env, file)?,
        (None, Some(home)) => home.join(".n8n-gateway/settings.json"),
        (None, None) => {
            return Err(Problem::usage("There is no home directory to look in.")
                .hint("Name the file: portcullis settings import FILE"));
        }
    };
    let Some(text) = read_own_text(&from, MAX_FILE)? else {
        return Err(
            Problem::new(format!("There is no file at {}.", from.display()))
                .hint("Name the file: portcullis settings import FILE"),
        );
    };
    let Imported { text, left_out } = settings::import(&text).map_err(|why| match why {
        NotImported::Damaged(line, column, what) => Problem::new(format!(
            "{}:{line}:{column}: {what}.",
            from.display()
        ))
        .hint(format!("Mend line {line}. Nothing was changed.")),
        NotImported::LosesDenial(what) => Problem::new(format!(
            "A denial there cannot be said here, and would be lost: {}.",
            shown(&what)
        ))
        .hint("Take it out of that file if it may be lost, or write the settings by hand. Nothing was changed."),
    })?;
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let there = settings::text_at(&data.path().join(NAME))?;
    let there = there.filter(|text| !is_template(text));
    if there.is_some() && !replace {
        return Err(
            Problem::new("There are settings already. Nothing was changed.").hint(
                "portcullis settings import --replace keeps them as settings.json.before-import",
            ),
        );
    }
    Recorded::by("cli/settings", &data).change("settings.json import", || {
        if let Some(there) = &there {
            keep(&data, there)?;
        }
        let written = write_own_text(&data, NAME, &text, OwnPlace::Any)?;
        written
            .then_some(())
            .ok_or_else(|| Failure::from(Reason::Io))
    })?;
    let mut out = Out::stdout();
    let to = data.path().join(NAME);
    out.line(Mark::Yes.with(format_args!("{} → {}", from.display(), to.display())))?;
    for what in &left_out {
        out.line(Mark::Warn.with(format_args!(
            "left out, as it cannot be said here: {}",
            shown(what)
        )))?;
    }
    Ok(Ending::Fine)
}

/// Keeps a text where nothing else is kept.
fn keep(data: &PrivateDir, text: &str) -> Result<(), Failure> {
    for n in 1..=MAX_BEFORE {
        let name = match n {
            1 => BEFORE.to_owned(),
            more => format!("{BEFORE}-{more}"),
        };
        if write_own_text(data, &name, text, OwnPlace::Free)? {
            return Ok(());
        }
    }
    Err(Failure::new(
        Reason::AlreadyExists,
        "There is no name left to keep the settings under. Nothing was changed.",
    )
    .hint(format!("Remove what {BEFORE}-2 and those after it keep.")))
}
