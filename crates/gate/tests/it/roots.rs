//! The seven kinds of root: what each gives to whom unasked, and what it could
//! ever be granted. The table is the review.

use std::fmt::Write as _;

use portcullis_gate::{RootEntry, RootSpec};
use portcullis_policy::RootPolicy;
use portcullis_proto::{Access, AccessSet, Principal, Reason, RootId, RootKind, Verb};

use crate::rig::{alone, rig};

fn principals() -> [(&'static str, Principal); 6] {
    let extension = |id: &str| Principal::Extension { id: id.into() };
    [
        ("core", Principal::Core { id: "tools".into() }),
        ("user", Principal::User { id: "ada".into() }),
        (
            "token",
            Principal::Token {
                user: "ada".into(),
                id: "t".into(),
            },
        ),
        ("extension", extension("notes")),
        (
            "automation",
            Principal::Automation {
                id: "nightly".into(),
            },
        ),
        ("owner", extension("owner")),
    ]
}

/// r w d l m a t s: read, write, delete, list, move, archive, watch, metadata (stat).
fn letters(set: AccessSet) -> String {
    Access::ALL
        .into_iter()
        .zip("rwdlmats".chars())
        .map(|(access, letter)| if set.has(access) { letter } else { '-' })
        .collect()
}

fn root(kind: RootKind) -> std::sync::Arc<RootEntry> {
    RootEntry::new(RootSpec {
        id: RootId::parse("r").unwrap(),
        kind,
        display_name: None,
        policy: RootPolicy::of(kind),
        owner: Some(principals()[5].1.clone()),
        trusted: true,
    })
}

#[test]
fn each_kind_gives_each_principal_what_the_table_says() {
    const TABLE: &str = "\
kind               core      user      token     extension automation owner     grantable
workspace          r--l--ts  r--l--ts  r--l--ts  r--l--ts  r--l--ts  rwdlmats  rwdlmats
extension-storage  --------  --------  --------  --------  --------  rwdlmats  rwdlmats
artifact           rwdlmats  r--l---s  r--l---s  r--l---s  r--l---s  rwdlmats  rwdlmats
temp               --------  --------  --------  --------  --------  rwdlmats  rwdlmats
knowledge          --------  --------  --------  --------  --------  rwdlmats  rwdlmats
downloads          rwdlmats  r--l---s  r--l---s  r--l---s  r--l---s  rwdlmats  rwdlmats
secret             --------  --------  --------  --------  --------  rwd-m--s  rwd-m--s
";
    let mut table = format!("{:<19}", "kind");
    for (name, _) in principals() {
        write!(table, "{name:<9} ").unwrap();
    }
    table += "grantable\n";
    for kind in RootKind::ALL {
        let root = root(kind);
        write!(table, "{:<19}", kind.as_str()).unwrap();
        for (_, principal) in principals() {
            write!(table, "{}  ", letters(root.ambient(&principal))).unwrap();
        }
        let grantable: AccessSet = Access::ALL
            .into_iter()
            .filter(|access| root.grantable(*access))
            .collect();
        writeln!(table, "{}", letters(grantable)).unwrap();
    }
    assert_eq!(table, TABLE, "\n{table}");
}

#[test]
fn a_policy_gives_nobody_more_than_its_kind_ever_grants() {
    let mut policy = RootPolicy::of(RootKind::Secret);
    policy.ambient = AccessSet::ALL;
    let root = RootEntry::new(RootSpec {
        id: RootId::parse("r").unwrap(),
        kind: RootKind::Secret,
        display_name: None,
        policy,
        owner: None,
        trusted: true,
    });
    for (_, principal) in principals() {
        assert_eq!(letters(root.ambient(&principal)), "rwd-m--s");
    }
}

#[test]
fn a_grant_to_list_secrets_is_none_whoever_issued_it() {
    let secrets = || {
        rig(|setup| {
            setup.kind = RootKind::Secret;
            setup.policy = RootPolicy::of(RootKind::Secret);
            setup.granted = AccessSet::ALL;
        })
    };
    for verb in [Verb::List, Verb::Tree, Verb::Glob] {
        let rig = secrets();
        assert_eq!(
            rig.reason(&alone(), verb, ""),
            Some(Reason::NoGrant),
            "{verb}"
        );
        assert_eq!(rig.resolved(), 0);
        rig.only_closing();
    }
    assert_eq!(secrets().reason(&alone(), Verb::Read, "token"), None);
}

#[test]
fn a_root_shows_its_name_where_nobody_gave_it_another() {
    assert_eq!(root(RootKind::Temp).display_name(), "r");
}
