//! Which machine a request means: the one it names, or the one of the calls before.

use portcullis_gate::Caller;
use portcullis_proto::{Failure, Reason, Subject};

use super::super::server::{Asked, Server};
use super::query::{Asks as _, query};
use crate::gateway::{Conversation, Meant, Purpose};

/// The header a machine is named in.
pub(super) const HEADER: &str = "portcullis-machine";

query! {
    /// What every route about files takes.
    pub(super) struct MachineQuery {
        /// Which machine: a name `/status` tells, or `here` for the server's own
        /// files. Default: the one of the calls before. The same as the header
        /// `Portcullis-Machine`.
        "machine" machine: Option<String>,
    }
}

/// The machine that is meant, where there is any; why not, where it is named or was
/// meant by the calls before.
pub(super) async fn meant(
    server: &Server,
    asked: &Asked,
    (subject, what): (&Subject, Purpose),
) -> Result<Option<Meant>, Failure> {
    let machines = &server.parts.machines;
    let who = Conversation::of(subject, None);
    let name = named(asked)?;
    let meant = machines.meant(&asked.identity, &who, name.as_deref(), what);
    match meant.await {
        // Where nothing is done there, nothing has to be there.
        Err(why) if why.reason() == Reason::MachineGone && what == Purpose::Look => Ok(None),
        meant => meant,
    }
}

/// The caller, whose name for the call is one for the machine and the workspace
/// it names: as it says them, since neither need be there when it asks again.
pub(super) fn naming(caller: Caller, asked: &Asked) -> Caller {
    let Some(call) = caller.call_name() else {
        return caller;
    };
    let machine = named(asked).ok().flatten();
    let name = placed(call, machine.as_deref(), asked.workspace.as_deref());
    caller.naming(name.into())
}

/// A name for a call in the place it names. No two places make the same of it: a
/// line ends where none of the three can end one.
fn placed(call: &str, machine: Option<&str>, workspace: Option<&str>) -> String {
    match (machine, workspace) {
        (None, None) => call.to_owned(),
        (machine, workspace) => format!("{call}\n{machine:?}\n{workspace:?}"),
    }
}

/// Named twice, it could mean either, unless both say the same.
fn named(asked: &Asked) -> Result<Option<String>, Failure> {
    let bad = |what: &'static str| Failure::new(Reason::BadArguments, what);
    let mut said = asked.head.headers.get_all(HEADER).iter();
    let header = said
        .next()
        .map(|value| value.to_str().map(str::to_owned))
        .transpose()
        .map_err(|_| bad("`Portcullis-Machine` is no name of a machine."))?;
    if said.next().is_some() {
        return Err(bad("`Portcullis-Machine` is there twice."));
    }
    let query = MachineQuery::read(&asked.head.uri)?.machine;
    match (header, query) {
        (Some(header), Some(query)) if header != query => {
            Err(bad("`Portcullis-Machine` and `machine` name two machines."))
        }
        (header, query) => Ok(header.or(query)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_in_one_place_is_a_name_in_another() {
        let places = [
            ("a", None, None),
            ("a", Some("b"), None),
            ("a", None, Some("b")),
            ("a on b", None, None),
            ("a on b", Some("c"), None),
            ("a", Some("b on c"), None),
            ("a", Some("b"), Some("c")),
            ("a", Some("b in c"), None),
            ("a", Some("b\"\nSome(\"c"), None),
            ("a", None, Some("b\"\nSome(\"c")),
        ];
        let names: Vec<String> = places
            .iter()
            .map(|(call, machine, workspace)| placed(call, *machine, *workspace))
            .collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[at + 1..].contains(name), "{name:?}");
        }
        assert_eq!(names[0], "a", "nowhere, it is what MCP has it be");
    }
}
