//! A linked machine's files, as the file routes ask for them.
//!
//! A machine of ours is asked with an operation of our own dialect: the daemon
//! runs the same method that would run here, and its text is passed on as it is.
//! Of another machine's tools is made what they can say: see `by_tools`.

use std::sync::Arc;

use portcullis_gate::{Caller, Relay};
use portcullis_link::{Dialect, Operation, bounds};
use portcullis_proto::{Failure, Group, Json, Reason, RootId, RootKind, Scope};
use portcullis_tools::{Machine as _, MachineAsk, Workspace};

use super::about::Lends;
use super::again::Named;
use super::by_tools::typed;
use super::calls::Asked;
use super::link::Link;
use super::result::Returned;
use super::spelling::ROOT;
use super::there::{MAX_TOLD, There};

/// The most an operation may bring: what is put around it has to fit as well.
const MAX_BROUGHT: usize = bounds::MAX_MESSAGE - 64 * 1024;

impl There {
    /// The machine that is meant without a word.
    fn first(&self) -> Option<&Arc<Link>> {
        self.links.first()
    }

    /// What the machine lends beside its tools.
    pub(super) fn lends(&self) -> Option<Lends> {
        self.first()?.about().files.clone()
    }

    /// The one workspace of the machine that is meant.
    pub(super) fn workspace(&self) -> Option<Workspace> {
        let about = self.first()?.about();
        let unsaid = || {
            Some(Lends {
                root: RootId::parse(ROOT)?,
                kind: RootKind::Workspace,
                trusted: true,
            })
        };
        let Lends {
            root,
            kind,
            trusted,
        } = about.files.clone().or_else(unsaid)?;
        Some(Workspace::linked(root, kind, &about.root, trusted))
    }

    /// Asks the machine that is meant: the body of the reply.
    pub(super) async fn ask(&self, caller: &Caller, ask: MachineAsk) -> Result<Json, Failure> {
        let Some(link) = self.first() else {
            return Err(self.refuse(caller, ask.about(), self.without_files()));
        };
        // Surfaces have looked; a machine of somebody's is worth a second look.
        if !self.scopes.has(Scope::of_group(ask.verb().group())) {
            return Err(self.refuse(caller, ask.about(), Reason::NoGrant.into()));
        }
        let about = link.about();
        match (about.dialect, &about.files) {
            (Dialect::Ours, Some(_)) => self.pass_to_ours(caller, link, &ask).await,
            (Dialect::Ours | Dialect::Shipped | Dialect::Seed, _) => {
                self.by_tools(caller, link, ask).await
            }
        }
    }

    async fn pass_to_ours(
        &self,
        caller: &Caller,
        link: &Arc<Link>,
        ask: &MachineAsk,
    ) -> Result<Json, Failure> {
        let (operation, args) = ask.spelled();
        let mut relay = self
            .gateway
            .gate
            .relay(caller, &told(&link.about().name, ask))?;
        let brings = args.to_string().len();
        if brings > MAX_BROUGHT {
            return Err(relay.failed(too_much()));
        }
        // What only looks is looked at anew.
        let group = ask.verb().group();
        let named = (group == Group::FilesystemWrite)
            .then(|| Named::of(caller, &operation, &args, Scope::of_group(group)))
            .flatten();
        let asked = Asked::Operation(Operation { operation, args });
        let passed = self.pass_on(&mut relay, link, asked, named).await;
        body_of(relay, passed)
    }
}

/// The body a route replies with to what an operation came to, put on the record.
pub(super) fn body_of(relay: Relay, passed: Result<Returned, Failure>) -> Result<Json, Failure> {
    let returned = match passed {
        Ok(returned) => returned,
        Err(why) => return Err(relay.failed(why)),
    };
    let bytes = returned.bytes();
    if returned.is_error() {
        relay.failed_there(bytes);
        return Err(if returned.is_of_tools() {
            typed(&returned)
        } else {
            returned.failure()
        });
    }
    match returned.into_body() {
        Ok(body) => {
            relay.answered(bytes);
            Ok(body)
        }
        Err(why) => Err(relay.failed(why)),
    }
}

/// Machine, what is asked for and of what, for the record.
pub(super) fn told(machine: &str, ask: &MachineAsk) -> String {
    let about = ask.about();
    let end = about.floor_char_boundary(MAX_TOLD);
    let about = about.get(..end).unwrap_or_default();
    format!("{machine} {} {about}", ask.verb().as_str())
        .trim_end()
        .to_owned()
}

fn too_much() -> Failure {
    Failure::new(
        Reason::TooLarge,
        "It brings more than a link carries at once (16 MiB, as it is spelled).",
    )
    .hint("Write it in parts with /file/append.")
}
