//! The sockets there are: those a server listens on, bound here or handed over
//! by who started us; the ones to a collector or a server that a person named;
//! and the one in the data directory by which a daemon is asked how it is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "listeners are bound and connections made here alone; portcullis_server speaks over them"
)]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// The socket of a daemon, in the data directory, which is closed to others.
const CONTROL: &str = "connect.sock";
/// How long who asks a daemon waits for its answer.
const CONTROL_PATIENCE: Duration = Duration::from_secs(5);

/// A socket that is taken away when it is dropped.
pub(crate) struct Control {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        // One that stays is found to be nobody's by who comes next.
        std::fs::remove_file(&self.path).ok();
    }
}

/// Listens for `status` and `disconnect`; nothing where another daemon does.
pub(crate) fn control(data: &Path) -> std::io::Result<Option<Control>> {
    let path = data.join(CONTROL);
    match UnixStream::connect(&path) {
        Ok(_) => return Ok(None),
        // Left behind by one that was killed.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(&path)?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(Some(Control { listener, path }))
}

/// Asks the daemon of this data directory; nothing where there is none.
pub(crate) fn ask_daemon(data: &Path) -> std::io::Result<Option<UnixStream>> {
    match UnixStream::connect(data.join(CONTROL)) {
        Ok(stream) => {
            stream.set_read_timeout(Some(CONTROL_PATIENCE))?;
            stream.set_write_timeout(Some(CONTROL_PATIENCE))?;
            Ok(Some(stream))
        }
        Err(error) => {
            use std::io::ErrorKind::{ConnectionRefused, NotFound};
            let is_nobody = matches!(error.kind(), NotFound | ConnectionRefused);
            if is_nobody { Ok(None) } else { Err(error) }
        }
    }
}

/// The door on this machine alone where pages may ask.
pub(crate) fn door(port: u16) -> Result<TcpListener, Problem> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let listener = TcpListener::bind(address).map_err(|error| {
        Problem::new(format!("{address} cannot be listened on: {error}.")).hint(
            "Another daemon may wait there already. Name the server instead: portcullis connect URL TOKEN",
        )
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
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
