//! The sockets a server listens on: bound here, or handed over by who started
//! us.
#![allow(
    clippy::disallowed_methods,
    reason = "listeners are bound here alone, and served by portcullis_server"
)]

use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::problem::Problem;

/// Binds the address, and says what to do where that is not possible.
pub(crate) fn bind(host: IpAddr, port: u16) -> Result<TcpListener, Problem> {
    let address = SocketAddr::new(host, port);
    TcpListener::bind(address).map_err(|error| {
        let problem = Problem::new(format!("{address} cannot be listened on: {error}."));
        if error.kind() == std::io::ErrorKind::AddrInUse {
            return problem.hint(
                "Another program, or another portcullis serve, listens there. Name another port: portcullis serve --port 0 takes one that is free.",
            );
        }
        problem.hint("Name an address of this machine: portcullis serve --host 127.0.0.1")
    })
}
