//! The files that the operator names by a flag, a variable or the settings.
//! Where one stands inside a root, no agent changes it, and keys are not read.

use std::path::{Path, PathBuf};

use portcullis_files::{OperatorFile, OperatorRole};

use crate::args::{ConnectArgs, ServeArgs};
use crate::environment::Environment;
use crate::problem::Problem;
use crate::settings::{HookSetting, absolute};

/// A file as it was named: perhaps relative to the working directory.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    what: &'static str,
    path: PathBuf,
    role: OperatorRole,
}

impl Named {
    fn of(what: &'static str, path: Option<&PathBuf>, role: OperatorRole) -> Option<Self> {
        let path = path?.clone();
        Some(Self { what, path, role })
    }
}

/// What `serve` was started with.
pub(crate) fn by_serve(args: &ServeArgs) -> Vec<Named> {
    use OperatorRole::{Fixed, Key};
    [
        Named::of("the TLS key", args.tls_key.as_ref(), Key),
        Named::of("the TLS certificate", args.tls_cert.as_ref(), Fixed),
        Named::of("the issuer's key file", args.oauth.keys.as_ref(), Key),
        Named::of(
            "the gateway's key file",
            args.gateway.key_file.as_ref(),
            Key,
        ),
        Named::of(
            "the collector's certificate",
            args.operating.otlp_ca.as_ref(),
            Fixed,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What `connect` was started with.
pub(crate) fn by_connect(args: &ConnectArgs) -> Vec<Named> {
    args.ca
        .iter()
        .filter_map(|file| Named::of("a certificate authority", Some(file), OperatorRole::Fixed))
        .collect()
}

/// All that was named: by flags, by variables, and as hooks.
pub(crate) fn all(
    env: &Environment,
    flags: &[Named],
    hooks: &[HookSetting],
) -> Result<Vec<OperatorFile>, Problem> {
    let variables = [
        ("the collector's certificate", &env.otel.certificate),
        ("a certificate authority", &env.gateway.ca),
        (
            "the system's certificates",
            &env.gateway.system_certificates,
        ),
    ];
    let variables = variables
        .into_iter()
        .filter_map(|(what, path)| Named::of(what, path.as_ref(), OperatorRole::Fixed));
    let mut all = Vec::new();
    for named in flags.iter().cloned().chain(variables) {
        all.push(OperatorFile {
            what: named.what.to_owned(),
            path: absolute(env, &named.path)?,
            role: named.role,
        });
    }
    all.extend(hooks.iter().flat_map(by_hook));
    Ok(all)
}

/// A hook's program, and every word of its arguments that may name a file: an
/// interpreter is given the program that counts.
fn by_hook(hook: &HookSetting) -> Vec<OperatorFile> {
    let what = format!("the hook {:?}", hook.id);
    let file = |path: &str, role| OperatorFile {
        what: what.clone(),
        // Hooks run in the topmost directory.
        path: Path::new("/").join(path),
        role,
    };
    let mut words = hook.command.iter();
    let program = words.next().map(|path| file(path, OperatorRole::Fixed));
    let arguments = words
        .flat_map(|word| words_of(word))
        .map(|word| file(word, OperatorRole::Argument));
    program.into_iter().chain(arguments).collect()
}

/// An argument as it is, what follows a `=` in it, and the words of a line that
/// a shell is given.
fn words_of(argument: &str) -> impl Iterator<Item = &str> {
    let split = argument.split(|c: char| c.is_whitespace() || "=;&|()<>\"'`".contains(c));
    let value = argument.split_once('=').map(|(_, value)| value);
    std::iter::once(argument)
        .chain(value)
        .chain(split)
        .filter(|word| !word.is_empty() && !word.contains('\0'))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::args::{Command, Typed};

    /// Every flag of `command` that takes a file, each with a path of its own.
    fn file_flags(command: &str) -> Vec<String> {
        let typed = Typed::command();
        let command = typed.find_subcommand(command).unwrap();
        let takes_file = |arg: &&clap::Arg| {
            let names = arg.get_value_names().unwrap_or_default();
            names.iter().any(|name| name.as_str() == "FILE")
        };
        let flags = command.get_arguments().filter(takes_file);
        flags
            .filter_map(|arg| arg.get_long().map(str::to_owned))
            .collect()
    }

    #[test]
    fn every_file_a_flag_names_is_protected() {
        for command in ["serve", "connect"] {
            let flags = file_flags(command);
            assert!(!flags.is_empty());
            let mut line = vec!["portcullis".to_owned(), command.to_owned()];
            if command == "serve" {
                line.push("--oauth-issuer=https://login.example".to_owned());
            }
            line.extend(flags.iter().map(|flag| format!("--{flag}=/files/{flag}")));
            let typed = Typed::try_parse_from(line).unwrap().command;
            let named = if let Command::Serve(args) = &typed {
                by_serve(args)
            } else if let Command::Connect(args) = &typed {
                by_connect(args)
            } else {
                panic!("{typed:?}")
            };
            let mut paths: Vec<_> = named.into_iter().map(|named| named.path).collect();
            let mut want: Vec<_> = flags
                .iter()
                .map(|flag| Path::new("/files").join(flag))
                .collect();
            paths.sort();
            want.sort();
            assert_eq!(paths, want, "{command}");
        }
    }

    #[test]
    fn the_files_in_a_hooks_arguments_are_found() {
        let words = |argument: &'static str| words_of(argument).collect::<Vec<_>>();
        assert!(words("/w/my hook.py").contains(&"/w/my hook.py"));
        assert!(words("--rules=/w/a=b.json").contains(&"/w/a=b.json"));
        let line = words("cd /w && . ./env.sh; exec '/w/hook.sh' <\"/w/in\"");
        for word in ["/w", "./env.sh", "/w/hook.sh", "/w/in"] {
            assert!(line.contains(&word), "{word}: {line:?}");
        }
    }
}
