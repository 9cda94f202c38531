//! Turns credentials into grants: what its principal is entitled to on each
//! root, as far as the credential's scopes go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use portcullis_gate::{ApprovedBook, Entitlements, Gate, Grant};
use portcullis_proto::{Principal, ScopeSet};
use portcullis_tools::Extensions;

use super::identity::Identity;
use super::limits::REQUESTS_PER_SECOND;
use super::pace::{Pace, Rate};
use super::shares::Holder;
use crate::issuer::are_of_one_voice;

impl Guest {
    /// Whether it has been granted what `identity` is for.
    fn has(&self, identity: &Identity) -> bool {
        self.whole && self.scopes == identity.scopes
    }

    /// What it counts for where there is a limit: one with no grant is one, too.
    fn weight(&self) -> usize {
        self.grants.len().max(1)
    }

    /// Takes back what it was granted, for deeds already permitted too.
    fn take_back(&self) {
        for grant in &self.grants {
            grant.revoke();
        }
    }
}

/// Who has been let in, and with which scopes.
pub struct Guests {
    gate: Arc<Gate>,
    entitled: Arc<Entitlements>,
    extensions: Option<Arc<Extensions>>,
    /// Looked at by every request, without a lock.
    known: ArcSwap<HashMap<Principal, Guest>>,
    /// Held by who changes it.
    changing: Mutex<()>,
    /// How fast each may ask.
    rate: Rate,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotIn {
    /// It asks too fast, and has to wait so long.
    TooFast(Duration),
    /// Its credential was revoked meanwhile.
    Gone,
    /// It stands for something else meanwhile.
    Changed(Identity),
}

/// Somebody who was let in.
#[derive(Clone)]
struct Guest {
    scopes: ScopeSet,
    pace: Arc<Pace>,
    /// What it was granted. These alone are taken back with its credential.
    grants: Vec<Arc<Grant>>,
    /// Whether it was granted all it is for: a full book grants nothing, and then
    /// it is tried again.
    whole: bool,
    /// The how manyth it is, for who has to go.
    number: u64,
}

/// How many grants all tokens of an issuer have at most, and those of one person:
/// there is no end to such tokens, and the book has one for everybody.
const ISSUED: usize = 2_048;
const ISSUED_OF_ONE: usize = 512;

impl std::fmt::Debug for Guests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guests").finish_non_exhaustive()
    }
}

impl Guests {
    /// Nobody has been let in yet.
    pub fn new(gate: Arc<Gate>, entitled: Arc<Entitlements>) -> Self {
        Self {
            gate,
            entitled,
            extensions: None,
            known: ArcSwap::default(),
            changing: Mutex::default(),
            rate: Rate::per_second(REQUESTS_PER_SECOND),
        }
    }

    /// With the extensions that work here.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Arc<Extensions>) -> Self {
        self.extensions = Some(extensions);
        self
    }

    /// With another limit to how fast each may ask.
    #[must_use]
    pub fn at_most(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }

    /// Lets `identity` in, unless it asks too fast, or is none any more when it
    /// has been granted what it is for.
    pub(super) fn let_in(
        &self,
        identity: &Identity,
        now_us: u64,
        now: impl FnOnce() -> Option<Identity>,
    ) -> Result<(), NotIn> {
        let step = || {
            let known = self.known.load();
            let guest = known.get(&identity.principal)?;
            let stepped = guest
                .has(identity)
                .then(|| guest.pace.step(self.rate, now_us));
            stepped.map(|stepped| stepped.map_err(NotIn::TooFast))
        };
        if let Some(stepped) = step() {
            return stepped;
        }
        self.welcome(identity);
        // Who was revoked before this look is caught by it; who is revoked after
        // it is a guest already, and caught by the review that follows.
        match now() {
            Some(now) if now.principal == identity.principal && now.scopes == identity.scopes => {
                step().unwrap_or(Ok(()))
            }
            now => {
                self.forget(identity);
                Err(now.map_or(NotIn::Gone, NotIn::Changed))
            }
        }
    }

    /// Takes back what was granted to `identity` as it was; another request may
    /// have let it in as it is.
    fn forget(&self, identity: &Identity) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = HashMap::clone(&self.known.load());
        let as_it_was = |guest: &Guest| guest.scopes == identity.scopes;
        if known.get(&identity.principal).is_some_and(as_it_was) {
            dismiss(&mut known, &identity.principal);
            self.known.store(Arc::new(known));
        }
    }

    /// Sees to it that `identity` has the grants its scopes stand for, and no
    /// others of this kind.
    pub fn welcome(&self, identity: &Identity) {
        let is_known = || {
            let known = self.known.load();
            let guest = known.get(&identity.principal);
            guest.is_some_and(|guest| guest.has(identity))
        };
        if is_known() {
            return;
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known() {
            return;
        }
        let mut known = HashMap::clone(&self.known.load());
        // Whose shares are one, have one pace.
        let holder = Holder::of(&identity.principal);
        let pace = known
            .iter()
            .find(|(principal, _)| Holder::of(principal) == holder)
            .map(|(_, guest)| Arc::clone(&guest.pace));
        dismiss(&mut known, &identity.principal);
        // An extension has what its manifest says, root by root, when it is put
        // to work, and nothing for its scopes.
        let wanted = match &identity.principal {
            Principal::User { .. } | Principal::Token { .. } => self
                .entitled
                .of(&identity.principal, identity.scopes.access()),
            Principal::Extension { .. } | Principal::Core { .. } | Principal::Automation { .. } => {
                Vec::new()
            }
        };
        make_room(&mut known, &identity.principal, wanted.len());
        let all = wanted.len();
        // A full book: without a grant the gate refuses, and says so.
        let grants: Vec<Arc<Grant>> = wanted
            .into_iter()
            .filter_map(|grant| self.gate.grants().issue(grant))
            .collect();
        let newest = known.values().map(|guest| guest.number).max();
        let guest = Guest {
            scopes: identity.scopes,
            pace: pace.unwrap_or_default(),
            whole: grants.len() == all,
            grants,
            number: newest.map_or(0, |newest| newest + 1),
        };
        known.insert(identity.principal.clone(), guest);
        self.known.store(Arc::new(known));
    }

    /// Takes back the grants of everyone whose credential `holds` no more, or
    /// holds with other scopes, for deeds already permitted too.
    pub fn review(&self, holds: impl Fn(&Principal) -> Option<ScopeSet>) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = HashMap::clone(&self.known.load());
        known.retain(|principal, guest| {
            let stays = holds(principal) == Some(guest.scopes);
            if !stays {
                guest.take_back();
            }
            stays
        });
        self.known.store(Arc::new(known));
    }

    /// Puts in force what was approved for extensions.
    pub fn approve(&self, approved: &Arc<ApprovedBook>) {
        let Some(extensions) = &self.extensions else {
            return;
        };
        let ended = extensions.put_in_force(approved);
        // Removing what they leave must hold nobody up who looks for revocations.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if !ended.is_empty() => drop(runtime.spawn_blocking(move || drop(ended))),
            Ok(_) | Err(_) => drop(ended),
        }
    }
}

/// Forgets `principal`, and takes back what it was granted.
fn dismiss(known: &mut HashMap<Principal, Guest>, principal: &Principal) {
    if let Some(guest) = known.remove(principal) {
        guest.take_back();
    }
}

/// Lets the oldest go until an issuer's token can have `wanted` grants more: of
/// the same person, then of whoever has most.
fn make_room(known: &mut HashMap<Principal, Guest>, newcomer: &Principal, wanted: usize) {
    if !are_of_one_voice(newcomer, newcomer) {
        return;
    }
    let mut issued: HashMap<Holder, Vec<(u64, usize, Principal)>> = HashMap::new();
    for (principal, guest) in known.iter() {
        if are_of_one_voice(principal, principal) {
            let of = issued.entry(Holder::of(principal)).or_default();
            of.push((guest.number, guest.weight(), principal.clone()));
        }
    }
    for of in issued.values_mut() {
        // The oldest is the last, and goes first.
        of.sort_unstable_by_key(|(number, ..)| std::cmp::Reverse(*number));
    }
    let weight =
        |of: &[(u64, usize, Principal)]| -> usize { of.iter().map(|(_, weight, _)| weight).sum() };
    let wanted = wanted.max(1);
    let own = Holder::of(newcomer);
    while let Some(of) = issued.get_mut(&own)
        && wanted + weight(of) > ISSUED_OF_ONE
        && let Some((.., oldest)) = of.pop()
    {
        dismiss(known, &oldest);
    }
    while wanted + issued.values().map(|of| weight(of)).sum::<usize>() > ISSUED
        && let Some(of) = issued.values_mut().max_by_key(|of| weight(of))
        && let Some((.., oldest)) = of.pop()
    {
        dismiss(known, &oldest);
    }
}

#[cfg(test)]
mod tests {
    use portcullis_gate::{GrantSource, RootEntry, RootSpec};
    use portcullis_policy::RootPolicy;
    use portcullis_proto::{AccessSet, RootId, RootKind};
    use portcullis_testkit::{Scratch, World};

    use super::super::identity::Via;
    use super::*;

    fn identity() -> Identity {
        Identity {
            principal: Principal::User { id: "ada".into() },
            user: Arc::from("ada"),
            scopes: ScopeSet::ALL,
            via: Via::Bearer,
        }
    }

    fn grants(gate: &Gate) -> usize {
        let held = gate.grants().list();
        held.iter()
            .filter(|grant| grant.principal == identity().principal)
            .count()
    }

    fn guests(world: &World, roots: usize) -> Guests {
        let roots = (0..roots).map(|n| {
            RootEntry::new(RootSpec {
                id: RootId::parse(&format!("root{n}")).unwrap(),
                kind: RootKind::Workspace,
                display_name: None,
                policy: RootPolicy::of(RootKind::Workspace),
                owner: None,
                trusted: true,
            })
        });
        let entitled = Entitlements::new(roots.collect(), Vec::new());
        Guests::new(Arc::clone(&world.gate), Arc::new(entitled))
    }

    fn world() -> World {
        World::workspace().over(Scratch::in_memory(""))
    }

    #[test]
    fn who_is_revoked_while_it_is_let_in_is_left_with_nothing() {
        let world = world();
        let guests = guests(&world, 1);
        let ada = identity();
        assert_eq!(guests.let_in(&ada, 0, || None), Err(NotIn::Gone));
        assert_eq!(grants(&world.gate), 0);
        assert_eq!(guests.let_in(&ada, 0, || Some(identity())), Ok(()));
        assert_eq!(grants(&world.gate), 1);
        // Known, it is looked at by the reviews alone.
        assert_eq!(guests.let_in(&ada, 0, || None), Ok(()));
        guests.review(|_| None);
        assert_eq!(grants(&world.gate), 0);
    }

    #[test]
    fn who_has_other_scopes_meanwhile_is_let_in_as_it_is_now() {
        let world = world();
        let guests = guests(&world, 1);
        let now = Identity {
            scopes: ScopeSet::of(&[portcullis_proto::Scope::FsRead]),
            ..identity()
        };
        // Another request lets it in as it is while this one still has it as it was.
        let meanwhile = || {
            guests.let_in(&now, 0, || Some(now.clone())).unwrap();
            Some(now.clone())
        };
        let told = guests.let_in(&identity(), 0, meanwhile);
        assert_eq!(told, Err(NotIn::Changed(now.clone())));
        assert_eq!(grants(&world.gate), 1, "what the other was granted stays");
        assert_eq!(guests.let_in(&now, 0, || None), Ok(()));
    }

    #[test]
    fn tokens_without_end_leave_room_for_everybody_else() {
        let world = world();
        let guests = guests(&world, 16);
        let issued = |user: &str, n: usize| Identity {
            principal: Principal::Token {
                user: user.into(),
                id: format!("jwt_{n}").into(),
            },
            ..identity()
        };
        for n in 0..300 {
            for user in ["eve", "bob"] {
                let one = issued(user, n);
                guests.let_in(&one, 0, || Some(one.clone())).unwrap();
            }
        }
        let held = world.gate.grants().list().len();
        assert_eq!(held, 2 * ISSUED_OF_ONE);
        // The newest are in, and so is whoever comes now, with all there is.
        let newest = issued("eve", 299);
        assert_eq!(guests.let_in(&newest, 0, || None), Ok(()));
        guests.let_in(&identity(), 0, || Some(identity())).unwrap();
        assert_eq!(grants(&world.gate), 16);
    }

    #[test]
    fn who_met_a_full_book_is_granted_what_it_is_for_once_there_is_room() {
        let world = world();
        let guests = guests(&world, 1);
        let root = RootId::parse("other").unwrap();
        let fill = || {
            let source = GrantSource::Manifest;
            let nobody = Principal::User {
                id: "nobody".into(),
            };
            Grant::new(nobody, root.clone(), AccessSet::ALL, None, source)
        };
        while world.gate.grants().issue(fill()).is_some() {}
        guests.let_in(&identity(), 0, || Some(identity())).unwrap();
        assert_eq!(grants(&world.gate), 0);
        world
            .gate
            .grants()
            .revoke(|grant| grant.source == GrantSource::Manifest);
        guests.let_in(&identity(), 0, || Some(identity())).unwrap();
        assert_eq!(grants(&world.gate), 1);
    }
}
