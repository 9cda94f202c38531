//! Which machine a conversation stays with: that of its first call.
//!
//! What is chosen once is chosen until the agent names another machine. It is kept
//! in the store as well, because a conversation outlives the server. An MCP session
//! does not: one that begins after others of the same credential were lost goes on
//! where they were, and where they disagree its first call has to name the machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Failure, Reason, Subject};
use portcullis_store::{Binding, Store};

use super::link::Link;
use super::there::HERE;

/// How long calls without a conversation stay together, and how long after its last
/// call the next session goes on where a lost one was.
const IDLE_MS: u64 = 60 * 60 * 1_000;
/// How long a conversation is remembered after its last call.
const KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// How often a last call is noted in the store: after a restart an hour can be so
/// much shorter.
const NOTED_MS: u64 = 5 * 60 * 1_000;
/// How many conversations of one credential are remembered. The one that was
/// silent longest goes first.
const MAX_OF_ONE: usize = 1_024;

/// Whose calls stay with one machine: those of a conversation, of an MCP session, or
/// of a credential that names neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    owner: Arc<str>,
    kind: Kind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Named,
    Session,
    Credential,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Named, Self::Session, Self::Credential];

    const fn letter(self) -> char {
        match self {
            Self::Named => 'c',
            Self::Session => 's',
            Self::Credential => 't',
        }
    }
}

impl Conversation {
    /// The conversation `subject` names, else its MCP session, else all it does
    /// without either.
    pub fn of(subject: &Subject, session: Option<&str>) -> Self {
        let (kind, name) = match (&subject.conversation_id, session) {
            (Some(conversation), _) => (Kind::Named, conversation.as_str()),
            (None, Some(session)) => (Kind::Session, session),
            (None, None) => (Kind::Credential, ""),
        };
        Self {
            owner: subject.label().into(),
            kind,
            name: name.to_owned(),
        }
    }

    /// As it is kept. No two are the same: the owner's length says where it ends.
    fn key(&self) -> String {
        let (owner, letter) = (&self.owner, self.kind.letter());
        format!("{letter}{}:{owner}{}", owner.len(), self.name)
    }
}

/// What a key of `owner` says.
fn parsed(key: &str, owner: &str) -> Option<(Kind, String)> {
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| key.starts_with(kind.letter()))?;
    let prefix = format!("{}{}:{owner}", kind.letter(), owner.len());
    Some((kind, key.strip_prefix(&prefix)?.to_owned()))
}

/// Where a conversation stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the machine the server runs on.
    Here,
    /// On a linked one.
    Link { id: Arc<str>, name: Arc<str> },
    /// Sessions that were lost were on several: the agent has to say.
    Unclear,
}

impl Place {
    pub(crate) fn of(link: &Link) -> Self {
        Self::Link {
            id: Arc::clone(&link.id),
            name: link.about().name.as_str().into(),
        }
    }

    /// What the machine is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Here => HERE,
            Self::Link { name, .. } => name,
            Self::Unclear => "",
        }
    }

    /// Why nothing is done where that is gone; `names` are there.
    pub(crate) fn gone(&self, names: &[String]) -> Failure {
        let others = match names {
            [] => String::new(),
            names => format!(", or name another with `machine`: {}", names.join(", ")),
        };
        match self {
            Self::Here | Self::Link { .. } => Failure::new(
                Reason::MachineGone,
                format!(
                    "The machine {} is gone, and this conversation works with it. Nothing was done, here or there.",
                    self.name()
                ),
            )
            .hint(format!("Call it again when {} is back{others}.", self.name())),
            Self::Unclear => Failure::new(
                Reason::MachineGone,
                "Earlier sessions of this credential worked with several machines, and this one has not said which. Nothing was done.",
            )
            .hint(format!("Say which with `machine`: {}.", names.join(", "))),
        }
    }
}

#[derive(Clone, Debug)]
struct Bound {
    place: Place,
    /// When the last call was, in milliseconds since 1970.
    seen: u64,
    /// When that was noted in the store.
    noted: u64,
}

impl Bound {
    const fn is_over(&self, kind: Kind, now: u64) -> bool {
        let silent = now.saturating_sub(self.seen);
        match kind {
            Kind::Credential => silent >= IDLE_MS,
            Kind::Named | Kind::Session => silent >= KEPT_MS,
        }
    }
}

/// The conversations of one credential.
type Own = HashMap<(Kind, String), Bound>;

/// What is to be written down of a choice.
#[derive(Debug, Default)]
pub(super) struct Note {
    kept: Option<Binding>,
    forgotten: Vec<String>,
}

impl Note {
    /// Writes it down. What cannot be holds for as long as this server runs.
    pub(super) async fn keep(self, store: &Store) {
        if self.kept.is_none() && self.forgotten.is_empty() {
            return;
        }
        let store = store.clone();
        let keep = move || match &self.kept {
            Some(kept) => store.keep_binding(kept, &self.forgotten),
            None => store.forget_bindings(&self.forgotten),
        };
        drop(tokio::task::spawn_blocking(keep).await);
    }
}

/// Every conversation that stays somewhere.
#[derive(Default)]
pub(super) struct Bindings {
    of: Mutex<HashMap<Arc<str>, Own>>,
}

impl Bindings {
    /// Those of the server before this one. Waits for the disk.
    pub(super) fn load(store: &Store, now: u64) -> Self {
        let mut of: HashMap<Arc<str>, Own> = HashMap::new();
        let mut over = Vec::new();
        for kept in store.bindings().unwrap_or_default() {
            let place = match kept.machine {
                None => Place::Here,
                Some(id) => Place::Link {
                    id: id.into(),
                    name: kept.name.into(),
                },
            };
            let bound = Bound {
                place,
                seen: kept.seen_at,
                noted: kept.seen_at,
            };
            match parsed(&kept.key, &kept.owner) {
                Some((kind, name)) if !bound.is_over(kind, now) => {
                    let own = of.entry(kept.owner.into()).or_default();
                    own.insert((kind, name), bound);
                }
                Some(_) | None => over.push(kept.key),
            }
        }
        // What stays there is looked at by the next server.
        drop(store.forget_bindings(&over));
        Self { of: Mutex::new(of) }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Own>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where `who` stays, if it does already.
    pub(super) fn look(&self, who: &Conversation, now: u64) -> Option<Place> {
        let all = self.all();
        let bound = all
            .get(&who.owner)?
            .get(&(who.kind, who.name.clone()))
            .filter(|bound| !bound.is_over(who.kind, now))?;
        Some(bound.place.clone())
    }

    /// Where `who` stays, at `first` where this is its first call.
    pub(super) fn stay(&self, who: &Conversation, first: &Place, now: u64) -> (Place, Note) {
        let place = self.look(who, now);
        let place = place.unwrap_or_else(|| first.clone());
        let note = self.bind(who, &place, now);
        (place, note)
    }

    /// From now on `who` stays at `place`.
    pub(super) fn bind(&self, who: &Conversation, place: &Place, now: u64) -> Note {
        let mut all = self.all();
        let own = all.entry(Arc::clone(&who.owner)).or_default();
        let key = (who.kind, who.name.clone());
        let before = own.get(&key);
        let is_noted = before.is_some_and(|before| {
            before.place == *place && now.saturating_sub(before.noted) < NOTED_MS
        });
        let noted = match before {
            Some(before) if is_noted => before.noted,
            Some(_) | None => now,
        };
        let bound = Bound {
            place: place.clone(),
            seen: now,
            noted,
        };
        own.insert(key, bound);
        let mut note = Note::default();
        while own.len() > MAX_OF_ONE {
            let oldest = own.iter().min_by_key(|(_, bound)| bound.seen);
            let Some((oldest, _)) = oldest.map(|(key, bound)| (key.clone(), bound.seen)) else {
                break;
            };
            own.remove(&oldest);
            let (kind, name) = oldest;
            let owner = Arc::clone(&who.owner);
            note.forgotten
                .push(Conversation { owner, kind, name }.key());
        }
        drop(all);
        if !is_noted && *place != Place::Unclear {
            note.kept = Some(Binding {
                key: who.key(),
                owner: who.owner.to_string(),
                machine: match place {
                    Place::Link { id, .. } => Some(id.to_string()),
                    Place::Here | Place::Unclear => None,
                },
                name: place.name().to_owned(),
                seen_at: now,
            });
        }
        note
    }

    /// A session began: it goes on where those of the same credential were that were
    /// lost within the hour. `is_open` tells which were not.
    pub(super) fn begin_session(
        &self,
        who: &Conversation,
        is_open: &dyn Fn(&str) -> bool,
        now: u64,
    ) -> Note {
        let lost: Vec<Place> = {
            let all = self.all();
            let own = all.get(&who.owner).into_iter().flatten();
            own.filter(|((kind, name), bound)| {
                *kind == Kind::Session
                    && *name != who.name
                    && now.saturating_sub(bound.seen) < IDLE_MS
                    && !is_open(name)
            })
            .map(|(_, bound)| bound.place.clone())
            .collect()
        };
        match lost.split_first() {
            None => Note::default(),
            Some((first, others)) if others.iter().all(|other| other == first) => {
                self.bind(who, first, now)
            }
            Some(_) => self.bind(who, &Place::Unclear, now),
        }
    }

    /// A session was ended in order: nothing goes on where it was.
    pub(super) fn end_session(&self, who: &Conversation) -> Note {
        let mut all = self.all();
        if let Some(own) = all.get_mut(&who.owner) {
            own.remove(&(who.kind, who.name.clone()));
        }
        Note {
            kept: None,
            forgotten: vec![who.key()],
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::{ConversationId, Principal};

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn who(conversation: Option<&str>, session: Option<&str>) -> Conversation {
        let principal = Principal::Token {
            user: "ada".into(),
            id: "1".into(),
        };
        let mut subject = Subject::of(principal);
        subject.conversation_id = conversation.map(ConversationId::new);
        Conversation::of(&subject, session)
    }

    fn at(name: &str) -> Place {
        Place::Link {
            id: format!("m_{name}").into(),
            name: name.into(),
        }
    }

    #[test]
    fn a_conversation_stays_and_a_credential_stays_until_an_hour_of_silence() {
        let bindings = Bindings::default();
        for (who, kept) in [
            (who(Some("talk"), Some("session")), true),
            (who(None, Some("session")), true),
            (who(None, None), false),
        ] {
            let first = at("laptop");
            assert_eq!(bindings.stay(&who, &first, NOW).0, first);
            let soon = NOW + IDLE_MS - 1;
            assert_eq!(bindings.stay(&who, &Place::Here, soon).0, first);
            let later = soon + IDLE_MS;
            let want = if kept { first } else { Place::Here };
            assert_eq!(bindings.stay(&who, &Place::Here, later).0, want, "{who:?}");
        }
    }

    #[test]
    fn only_what_is_new_is_noted_and_a_last_call_now_and_then() {
        let bindings = Bindings::default();
        let talk = who(Some("talk"), None);
        let is_noted = |now| bindings.stay(&talk, &Place::Here, now).1.kept.is_some();
        assert!(is_noted(NOW));
        assert!(!is_noted(NOW + 1));
        assert!(!is_noted(NOW + NOTED_MS - 1));
        assert!(is_noted(NOW + NOTED_MS));
        let moved = bindings.bind(&talk, &at("laptop"), NOW + NOTED_MS + 1);
        assert_eq!(moved.kept.unwrap().machine.as_deref(), Some("m_laptop"));
    }

    #[test]
    fn the_conversation_that_was_silent_longest_makes_room() {
        let bindings = Bindings::default();
        let talk = |n: usize| who(Some(&format!("talk {n}")), None);
        let times = NOW..;
        for (n, now) in (0..=MAX_OF_ONE).zip(times) {
            let note = bindings.bind(&talk(n), &at("laptop"), now);
            assert_eq!(note.forgotten.len(), usize::from(n == MAX_OF_ONE));
        }
        assert_eq!(bindings.look(&talk(0), NOW), None);
        assert_eq!(bindings.look(&talk(1), NOW), Some(at("laptop")));
    }

    #[test]
    fn a_session_goes_on_where_the_lost_ones_of_its_credential_were() {
        let bindings = Bindings::default();
        let session = |name: &str| who(None, Some(name));
        bindings.bind(&session("a"), &at("laptop"), NOW);
        // While it is open, another one is another conversation.
        bindings.begin_session(&session("b"), &|name| name == "a", NOW);
        assert_eq!(bindings.look(&session("b"), NOW), None);
        bindings.begin_session(&session("c"), &|_| false, NOW);
        assert_eq!(bindings.look(&session("c"), NOW), Some(at("laptop")));
        // Lost ones that disagree say nothing.
        bindings.bind(&session("d"), &Place::Here, NOW);
        bindings.begin_session(&session("e"), &|_| false, NOW);
        assert_eq!(bindings.look(&session("e"), NOW), Some(Place::Unclear));
        // Nor does one that was ended in order, or an hour ago.
        for ended in ["a", "c", "d", "e"] {
            bindings.end_session(&session(ended));
        }
        bindings.bind(&session("f"), &Place::Here, NOW);
        bindings.begin_session(&session("g"), &|_| false, NOW + IDLE_MS);
        assert_eq!(bindings.look(&session("g"), NOW), None);
    }

    #[test]
    fn a_key_says_whose_it_is_and_no_two_are_the_same() {
        let all = [
            who(Some("x"), None),
            who(None, Some("x")),
            who(None, None),
            who(Some(""), None),
        ];
        for one in &all {
            let read = parsed(&one.key(), &one.owner);
            assert_eq!(read, Some((one.kind, one.name.clone())));
        }
        assert_eq!(parsed(&all[0].key(), "token:ada/11"), None);
    }
}
