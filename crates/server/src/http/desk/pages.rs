//! The two pages a person needs before there is a console: to sign in with a
//! link, and to answer a question an agent's reply links to.
//!
//! They hold nothing by themselves: what they show they ask for like any other
//! program, with the person's cookie. The secret of a link stands behind its #,
//! which a browser sends to nobody.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use http::{HeaderValue, StatusCode};

use super::super::reply::{self, Reply};

const SIGN_IN: &str = include_str!("sign_in.html");
const APPROVE: &str = include_str!("approve.html");

fn page(html: &'static str) -> Reply {
    let mut reply = reply::written(StatusCode::OK, Bytes::from_static(html.as_bytes()));
    let headers = reply.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    );
    reply
}

pub(crate) fn sign_in() -> Reply {
    page(SIGN_IN)
}

pub(crate) fn approve() -> Reply {
    page(APPROVE)
}
