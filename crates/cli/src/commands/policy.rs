//! `portcullis policy`: which rule decides, whether the rules agree with their
//! own examples, and what can ask at all.

use portcullis_gate::Caller;
use portcullis_policy::{Class, Effect, Rule, Verdict};
use portcullis_proto::{Access, Failure, Group, Mode, Principal, RelPath, RootId, Subject, Verb};

use crate::args::{Everywhere, ExplainArgs, PolicyCommand, VerbFlag};
use crate::environment::Environment;
use crate::out::{BOLD, FAINT, Mark, Out, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings::{self, DefaultDir, Overrides, Writing};
use crate::wiring::{Purpose, World};

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &PolicyCommand,
) -> Result<Ending, Problem> {
    match command {
        PolicyCommand::Explain(args) => explain(everywhere, env, args),
        PolicyCommand::Test => test(everywhere, env),
        PolicyCommand::Asks => asks(everywhere, env),
    }
}

fn explain(
    everywhere: &Everywhere,
    env: &Environment,
    args: &ExplainArgs,
) -> Result<Ending, Problem> {
    let overrides = Overrides {
        dir: args.dir.clone(),
        permissions: args.permissions.clone(),
        writing: if args.write {
            Writing::Allowed
        } else {
            Writing::Unsaid
        },
        default_dir: DefaultDir::Working,
        ..Overrides::default()
    };
    let settings = settings::resolve(everywhere, env, &overrides)?;
    let world = World::open(&settings, Purpose::Look)?;
    let named = match &args.root {
        None => None,
        Some(name) => Some(
            RootId::parse(name)
                .ok_or_else(|| Problem::usage(format!("{name:?} cannot name a root.")))?,
        ),
    };
    let authority = &world.authority;
    let located = authority.locate(named.as_ref(), &args.path)?;
    let caller = Caller::new(Subject::of(principal(&args.subject)?), "cli/policy/explain");
    // Asking for a scope gives the caller what the root's kind gives unasked.
    let scope = authority.scope(&caller, Some(&located.root))?;
    let entry = scope.declared().entry();
    let mut out = Out::stdout();
    let verb = verb(args.verb);
    let target = format!("{verb} {}:{}", located.root, shown(&located.alleged));
    let path = match RelPath::parse(&located.alleged) {
        Ok(path) => path,
        Err(bad) => {
            let failure = Failure::from(bad);
            out.line(format_args!("{}  {target}", Mark::No.with("denied")))?;
            out.line(format_args!("  by       the path itself: {failure}"))?;
            out.line("  change   no rule can: only paths inside a root are judged")?;
            return Ok(Ending::Fine);
        }
    };
    let told = authority.gate().explain(&caller, verb, entry, path);
    let (mark, by) = match &told.verdict {
        Verdict::Allow(source) => (Mark::Yes.with("allowed"), source.to_string()),
        Verdict::Ask(asking) => (Mark::Ask.with("asks you"), asking.source.to_string()),
        Verdict::Deny(denial) => (
            Mark::No.with("denied"),
            format!("{} ({})", denial.source, denial.reason),
        ),
    };
    out.line(format_args!(
        "{mark}  {target}  {}",
        paint(FAINT, format!("as {}", args.subject))
    ))?;
    out.line(format_args!("  by       {}", shown(&by)))?;
    out.line(format_args!("  change   {}", shown(&told.change)))?;
    for steps in &told.steps {
        out.line(paint(FAINT, "  in order"))?;
        for step in steps {
            out.line(format_args!("    {:<20} {}", step.stage, shown(&step.said)))?;
        }
    }
    if !settings.file_exists {
        out.line(paint(
            FAINT,
            "  There is no settings file: the recommended settings hold.",
        ))?;
    }
    Ok(Ending::Fine)
}

const fn verb(flag: VerbFlag) -> Verb {
    match flag {
        VerbFlag::Read => Verb::Read,
        VerbFlag::Stat => Verb::Stat,
        VerbFlag::List => Verb::List,
        VerbFlag::Tree => Verb::Tree,
        VerbFlag::Glob => Verb::Glob,
        VerbFlag::Search => Verb::Search,
        VerbFlag::Inspect => Verb::Inspect,
        VerbFlag::Watch => Verb::Watch,
        VerbFlag::Write => Verb::Write,
        VerbFlag::Edit => Verb::Edit,
        VerbFlag::Append => Verb::Append,
        VerbFlag::Mkdir => Verb::Mkdir,
        VerbFlag::Move => Verb::Move,
        VerbFlag::Copy => Verb::Copy,
        VerbFlag::Remove => Verb::Remove,
        VerbFlag::Chmod => Verb::Chmod,
        VerbFlag::Extract => Verb::Extract,
        VerbFlag::Archive => Verb::Archive,
        VerbFlag::Undo => Verb::Undo,
    }
}

/// `user:ada`, `token:ada/laptop` and their kin.
fn principal(typed: &str) -> Result<Principal, Problem> {
    let unknown = || {
        Problem::usage(format!("{typed:?} names nobody."))
            .hint("Write user:NAME, extension:NAME, automation:NAME, core:NAME or token:USER/NAME.")
    };
    let (kind, id) = typed
        .split_once(':')
        .filter(|(_, id)| !id.is_empty())
        .ok_or_else(unknown)?;
    Ok(match kind {
        "user" => Principal::User { id: id.into() },
        "extension" => Principal::Extension { id: id.into() },
        "automation" => Principal::Automation { id: id.into() },
        "core" => Principal::Core { id: id.into() },
        "token" => {
            let (user, id) = id.split_once('/').ok_or_else(unknown)?;
            Principal::Token {
                user: user.into(),
                id: id.into(),
            }
        }
        _ => return Err(unknown()),
    })
}

/// Rules load only if they agree with their examples, so resolving the settings
/// is the test; what is left is to show them.
fn test(everywhere: &Everywhere, env: &Environment) -> Result<Ending, Problem> {
    let settings = settings::resolve(everywhere, env, &Overrides::default())?;
    let mut out = Out::stdout();
    let mut rows: Vec<Vec<String>> = settings.all_rules().iter().map(row).collect();
    let data = crate::wiring::open_data(&settings.data_dir)?;
    let store = portcullis_store::Store::new(data.path());
    rows.extend(store.rules()?.iter().map(|stored| {
        let mut row = row(&stored.rule);
        if let (Some(place), Some(pattern)) = (&stored.place, row.get_mut(3)) {
            *pattern = format!("{pattern} below {}", shown(place));
        }
        row
    }));
    if rows.is_empty() {
        out.line("There are no rules: modes and protected classes decide.")?;
    } else {
        out.table(&["EFFECT", "GROUP", "ROOT", "PATTERN", "FROM"], &rows)?;
        out.blank()?;
    }
    let count = rows.len();
    out.line(Mark::Yes.with(format_args!(
        "{count} rule{} loaded, and every example agrees",
        if count == 1 { "" } else { "s" }
    )))?;
    Ok(Ending::Fine)
}

fn row(rule: &Rule) -> Vec<String> {
    let effect = match rule.effect {
        Effect::Allow => "✓ allow",
        Effect::Deny => "✗ deny",
    };
    let root = rule.root.as_ref().map_or("any", RootId::as_str);
    let protected = if rule.covers_protected {
        " (protected too)"
    } else {
        ""
    };
    vec![
        effect.to_owned(),
        rule.group.to_string(),
        root.to_owned(),
        format!("{}{protected}", shown(&rule.pattern)),
        shown(&rule.source).into_owned(),
    ]
}

fn asks(everywhere: &Everywhere, env: &Environment) -> Result<Ending, Problem> {
    let settings = settings::resolve(everywhere, env, &Overrides::default())?;
    let mut out = Out::stdout();
    out.line(paint(BOLD, "What an agent may not do without your yes"))?;
    out.blank()?;
    out.line(paint(BOLD, "Protected classes, whatever the mode"))?;
    let secret = [".env", "id_ed25519", "server.pem", ".aws/credentials"];
    class(
        &mut out,
        Class::Secret,
        "reading or changing credentials",
        Access::Read,
        &secret,
    )?;
    let exec = [
        ".git/hooks/pre-commit",
        ".github/workflows/ci.yml",
        ".bashrc",
        ".mcp.json",
    ];
    class(
        &mut out,
        Class::AutoExec,
        "changing what runs later",
        Access::Write,
        &exec,
    )?;
    out.blank()?;
    out.line(paint(BOLD, "Tool groups"))?;
    for group in Group::ALL {
        let here = match group {
            Group::FilesystemRead => "",
            Group::FilesystemWrite => "  off, unless a server is started with --write",
            Group::Shell | Group::Computer | Group::Browser => "  not available here",
        };
        let mode = settings.modes.of(group);
        let says = match mode {
            Mode::Deny => Mark::No.with("deny    the agent does not see it"),
            Mode::Ask => Mark::Ask.with("ask     every use, until you remember an answer"),
            Mode::Allow => Mark::Yes.with("allow   only the classes above ask"),
        };
        out.line(format_args!(
            "  {:<16} {says}{}",
            group.as_str(),
            paint(FAINT, here)
        ))?;
    }
    out.blank()?;
    out.line(paint(BOLD, "Hooks"))?;
    if settings.hooks.is_empty() {
        out.line("  none; a hook can ask, or deny, and never allow more")?;
    }
    for hook in &settings.hooks {
        out.line(format_args!(
            "  {:<16} can ask about anything",
            shown(&hook.id)
        ))?;
    }
    out.blank()?;
    out.line("Nobody there to ask is a no. To be there: portcullis approve --watch")?;
    Ok(Ending::Fine)
}

/// One class, with examples that are checked against the code as they are shown.
fn class(
    out: &mut Out,
    class: Class,
    about: &str,
    access: Access,
    examples: &[&str],
) -> Result<(), Problem> {
    let examples: Vec<&str> = examples
        .iter()
        .copied()
        .filter(|path| {
            RelPath::parse(path).is_ok_and(|path| Class::of(&path, access) == Some(class))
        })
        .collect();
    out.line(format_args!(
        "  {:<16} {about}: {}, …",
        class.as_str(),
        examples.join(", ")
    ))
}
