//! Lending a machine: its owner makes a link, looks at it, and ends it.

use std::sync::Arc;

use portcullis_link::{Created, Event, Status};
use portcullis_proto::{Failure, Principal, Reason};
use serde_json::json;

use super::super::links::{Spoken, instant};
use super::super::reply::{self, Reply};
use super::super::server::{Asked, Server};
use super::{caller, refuse};
use crate::answers::off_the_reactor;

/// `POST …/gateway/create-link`.
pub(super) async fn create(server: &Arc<Server>, asked: &Asked) -> Reply {
    if let Principal::Extension { .. } = asked.identity.principal {
        let why = Failure::new(Reason::NoGrant, "A machine is lent by a person.");
        return refuse(server, asked, "link create", why);
    }
    let gateway = Arc::clone(&server.parts.gateway);
    let (gate, asker) = (Arc::clone(&server.parts.gate), caller(asked));
    let user = Arc::clone(&asked.identity.user);
    let made = off_the_reactor(&server.parts.store, move |_| {
        Ok(gate.administer(&asker, "link create", || Ok(gateway.pairing(&user)?)))
    });
    match made.await {
        Ok(Ok(pairing)) => {
            let token = pairing.token.expose();
            let left = pairing
                .expires_at
                .saturating_sub(server.parts.clock.now_ms());
            Spoken::at(asked.route.path).done(&Created {
                command: format!("portcullis connect {} {token}", server.parts.url),
                token: token.to_owned(),
                expires_at: instant(pairing.expires_at),
                ttl_seconds: left.div_ceil(1000),
            })
        }
        Ok(Err(why)) | Err(why) => reply::failure(&why),
    }
}

/// `GET …/gateway/status`: the machine that is meant where none is named.
pub(super) fn status(server: &Arc<Server>, asked: &Asked) -> Reply {
    let links = server.parts.gateway.of(&asked.identity.user);
    let status = links.first().map_or_else(Status::default, |link| {
        let about = link.about();
        Status {
            connected: true,
            connected_at: Some(instant(about.since_ms)),
            directory: Some(about.root.clone()),
            host_identifier: Some(about.host.clone()),
            tool_categories: about.offer.categories.clone(),
        }
    });
    Spoken::at(asked.route.path).done(&status)
}

/// `POST …/gateway/disconnect-session`: every machine of who asks.
pub(super) async fn end(server: &Arc<Server>, asked: &Asked) -> Reply {
    let gateway = Arc::clone(&server.parts.gateway);
    let (gate, asker) = (Arc::clone(&server.parts.gate), caller(asked));
    let user = Arc::clone(&asked.identity.user);
    let ended = off_the_reactor(&server.parts.store, move |store| {
        Ok(gate.administer(&asker, "link disconnect", || {
            for machine in store.machines(Some(&user))? {
                gateway.disconnect(&user, &machine.id, Some(&Event::GatewayDisconnect))?;
            }
            Ok(())
        }))
    });
    match ended.await {
        Ok(Ok(())) => {
            let told = json!({"linked": false});
            server.tell_owner(&asked.identity.user, "machine", "all", &told);
            Spoken::at(asked.route.path).done(&json!({"ok": true}))
        }
        Ok(Err(why)) | Err(why) => reply::failure(&why),
    }
}
