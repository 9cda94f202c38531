//! The sockets there are: those a server listens on, bound here or handed over
//! by who started us, and the one to a collector that its operator named.
#![allow(
    clippy::disallowed_methods,
    reason = "listeners are bound and connections made here alone; portcullis_server speaks over them"
)]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use listenfd::ListenFd;
use tokio::net::TcpStream as AsyncTcpStream;

use crate::problem::Problem;

/// The socket to listen on: one that who started us handed over (`LISTEN_FDS`),
/// or else the address, bound here.
///
/// Called before there is a second thread: what was handed over is taken out
/// of the environment.
pub(crate) fn handed_over_or_at(host: IpAddr, port: u16) -> Result<TcpListener, Problem> {
    match handed_over()? {
        Some(listener) => Ok(listener),
        None => bind(host, port),
    }
}

fn handed_over() -> Result<Option<TcpListener>, Problem> {
    let mut handed = ListenFd::from_env();
    match handed.len() {
        0 => return Ok(None),
        1 => {}
        more => {
            return Err(Problem::new(format!(
                "{more} sockets were handed over, and one is served."
            ))
            .hint("Leave one ListenStream= in the socket unit."));
        }
    }
    let unusable = |why: String| {
        Problem::new(format!(
            "The socket that was handed over cannot be listened on: {why}."
        ))
        .hint("Hand over a listening TCP socket: ListenStream=127.0.0.1:7654 and Accept=no.")
    };
    let listener = handed
        .take_tcp_listener(0)
        .map_err(|error| unusable(error.to_string()))?
        .ok_or_else(|| unusable("it is gone".to_owned()))?;
    // Somebody at the other end: a connection, not where they come in.
    let same = TcpStream::from(OwnedFd::from(listener.try_clone()?));
    if same.peer_addr().is_ok() {
        return Err(unusable("it is a connection".to_owned()));
    }
    Ok(Some(listener))
}

/// Connects to the first address of `host` that answers. For where an operator
/// says, never for what an agent can name.
pub(crate) async fn dial(host: &str, port: u16) -> std::io::Result<AsyncTcpStream> {
    let stream = AsyncTcpStream::connect((host, port)).await?;
    // Messages are written whole; waiting for more would only delay them.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Binds the address, and says what to do where that is not possible.
fn bind(host: IpAddr, port: u16) -> Result<TcpListener, Problem> {
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
