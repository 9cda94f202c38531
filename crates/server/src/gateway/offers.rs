//! What many machines offer alike, kept once.
//!
//! Daemons of one version offer the same tools. As values the schemas of twenty
//! tools take more memory than all else of a link, many times over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ring::digest::{Context, SHA256};

use super::surface::Offer;

/// The offers of every link, by what they say.
#[derive(Default)]
pub(super) struct Offers(Mutex<HashMap<Vec<u8>, Weak<Offer>>>);

impl Offers {
    /// The one there is that says the same, or this one from now on.
    pub(super) fn share(&self, offer: Offer) -> Arc<Offer> {
        let said = said(&offer);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(&said).and_then(Weak::upgrade) {
            return same;
        }
        known.retain(|_, offer| offer.strong_count() > 0);
        let offer = Arc::new(offer);
        known.insert(said, Arc::downgrade(&offer));
        offer
    }
}

/// The digest of all that an offer says.
fn said(offer: &Offer) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    let tools = serde_json::to_vec(&offer.tools).unwrap_or_default();
    let categories = serde_json::to_vec(&offer.categories).unwrap_or_default();
    for part in [tools, categories] {
        context.update(&part.len().to_le_bytes());
        context.update(&part);
    }
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use portcullis_link::Category;

    use super::*;

    fn offer(name: &str) -> Offer {
        Offer {
            tools: Vec::new(),
            categories: vec![Category {
                name: name.to_owned(),
                enabled: true,
                write_access: None,
            }],
        }
    }

    #[test]
    fn the_same_is_kept_once_and_what_nobody_offers_any_more_is_let_go() {
        let offers = Offers::default();
        let (one, same, other) = (
            offers.share(offer("a")),
            offers.share(offer("a")),
            offers.share(offer("b")),
        );
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &other));
        drop((one, same, other));
        let _third = offers.share(offer("c"));
        assert_eq!(offers.0.lock().unwrap().len(), 1);
    }
}
