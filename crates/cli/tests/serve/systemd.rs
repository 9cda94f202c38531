//! Under a service manager: a socket that is handed over, and being told how
//! the server is.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{Came, Sandbox};
use crate::served::{PATIENCE, Served, signal};

/// A shell gets the socket as its standard input, and hands it on as systemd
/// does: as handle 3, under the process's own number.
const HAND_OVER: &str =
    r#"exec 3<&0 </dev/null; LISTEN_PID=${AS_PID:-$$} LISTEN_FDS=${COUNT:-1} exec "$0" "$@""#;

fn handing_over(sandbox: &Sandbox, socket: impl Into<OwnedFd>, args: &[&str]) -> Command {
    let wanted = sandbox.command(args);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", HAND_OVER])
        .arg(wanted.get_program())
        .args(wanted.get_args())
        .env_clear()
        .envs(
            wanted
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(sandbox.dir())
        .stdin(socket.into());
    command
}

/// Who a service manager is, to its service.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// The next thing it is told that is `wanted`.
    fn hears(&self, wanted: &str) -> String {
        loop {
            let mut told = [0; 4096];
            let len = self.0.recv(&mut told).expect(wanted);
            let told = String::from_utf8(told.get(..len).unwrap().to_vec()).unwrap();
            if told.lines().any(|line| line == wanted) {
                return told;
            }
        }
    }
}

#[test]
fn a_handed_socket_is_served_and_the_manager_is_told() {
    let sandbox = Sandbox::new();
    let path = sandbox.data().join("../manager");
    let manager = Manager::at(&path);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // It comes before there is a server, and waits for one.
    let mut early = TcpStream::connect(address).unwrap();
    write!(
        early,
        "GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut command = handing_over(&sandbox, socket, &["serve", "--dir", "."]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000");
    let server = Served::of(&sandbox, command);
    assert_eq!(server.address(), address.to_string());
    let ready = manager.hears("READY=1");
    assert!(
        ready.contains(&format!("STATUS=Listens at http://{address}")),
        "{ready}"
    );
    let mut reply = String::new();
    early.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    manager.hears("WATCHDOG=1");
    manager.hears("WATCHDOG=1");
    signal(server.pid(), "-TERM");
    manager.hears("STOPPING=1");
    server.end();
}

#[test]
fn a_server_that_is_stuck_stops_saying_that_it_is_well() {
    let sandbox = Sandbox::new();
    let path = sandbox.data().join("../manager");
    let manager = Manager::at(&path);
    let mut command = sandbox.command(&["serve", "--dir", ".", "--port", "0"]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000");
    let server = Served::of(&sandbox, command);
    manager.hears("WATCHDOG=1");
    signal(server.pid(), "-STOP");
    // What was on its way when it stopped may still come.
    manager
        .0
        .set_read_timeout(Some(std::time::Duration::from_millis(400)))
        .unwrap();
    let mut told = [0; 64];
    let heard = (0..4)
        .take_while(|_| manager.0.recv(&mut told).is_ok())
        .count();
    signal(server.pid(), "-CONT");
    assert!(heard < 4, "it is stopped, and says that it is well");
    manager.0.set_read_timeout(Some(PATIENCE)).unwrap();
    manager.hears("WATCHDOG=1");
}

#[test]
fn a_socket_for_another_process_is_left_alone() {
    let sandbox = Sandbox::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = socket.local_addr().unwrap();
    let mut command = handing_over(&sandbox, socket, &["serve", "--dir", ".", "--port", "0"]);
    command.env("AS_PID", "1");
    let server = Served::of(&sandbox, command);
    assert_ne!(server.address(), other.to_string());
}

#[track_caller]
fn check_refused(socket: impl Into<OwnedFd>, count: &str, why: &str) {
    let sandbox = Sandbox::new();
    let mut command = handing_over(&sandbox, socket, &["serve", "--dir", "."]);
    let came: Came = command.env("COUNT", count).output().unwrap().into();
    came.with(1).err_has(why).err_has("hint: ");
}

#[test]
fn what_cannot_be_listened_on_is_refused_with_the_way_out() {
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    check_refused(listener(), "2", "2 sockets were handed over");
    check_refused(
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        "1",
        "cannot be listened on",
    );
    // Accept=yes hands over a connection instead of where they come in.
    let there = listener();
    let connected = TcpStream::connect(there.local_addr().unwrap()).unwrap();
    check_refused(connected, "1", "Accept=no");
}

#[test]
fn the_unit_starts_what_there_is() {
    let unit = include_str!("../../../../dist/systemd/portcullis.service");
    let sandbox = Sandbox::new();
    let data = sandbox.data();
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .unwrap()
        .replace("${STATE_DIRECTORY}", data.to_str().unwrap());
    let words: Vec<&str> = line.split_whitespace().collect();
    let (program, args) = words.split_first().unwrap();
    assert!(program.ends_with("/portcullis"));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Served::of(&sandbox, handing_over(&sandbox, socket, args));
    server.ask("GET /health", &[], "").with(200);
}
