//! Who is at the other end of a connection within this machine, as the kernel
//! tells it.
//!
//! A port on loopback is open to every user of a machine, and what a browser says of
//! itself anybody can say. Whose socket it is nobody can.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use portcullis_files::read_own_text;

/// The connections of this machine; those of a socket that speaks both families
/// stand in the second.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The most that is read of one: some 50,000 connections.
const MAX_TABLE: u64 = 8 << 20;
const STATUS: &str = "/proc/self/status";
const MAX_STATUS: u64 = 64 << 10;
/// Root, who may do everything here anyhow.
const ROOT: u32 = 0;

/// Whether who connected from there to here is of the user we run as, or root.
/// What is not known is nobody of ours.
pub(crate) fn is_own(from: SocketAddr, to: SocketAddr) -> bool {
    let read = |path: &str, most| read_own_text(Path::new(path), most).ok().flatten();
    let owner = TABLES.into_iter().find_map(|table| {
        let table = read(table, MAX_TABLE)?;
        owner_in(&table, from, to)
    });
    let ourselves = read(STATUS, MAX_STATUS).and_then(|status| user_in(&status));
    owner.is_some_and(|owner| owner == ROOT || Some(owner) == ourselves)
}

/// The user of the socket from there to here.
fn owner_in(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (spelled(from), spelled(to));
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (words.next()?, words.next()?);
        if !from.iter().any(|from| from == local) || !to.iter().any(|to| to == remote) {
            return None;
        }
        let (user, socket) = (words.nth(4)?, words.nth(1)?);
        // One that was closed is nobody's any more, and is told as root's.
        (socket != "0").then(|| user.parse().ok()).flatten()
    })
}

/// How the kernel spells an address, in either table.
fn spelled(address: SocketAddr) -> [String; 2] {
    let words = |octets: &[u8]| {
        let words = octets.as_chunks::<4>().0.iter();
        let words = words.map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
        words.collect::<Vec<_>>().concat()
    };
    let (own, mapped) = match address.ip() {
        IpAddr::V4(ip) => (words(&ip.octets()), words(&ip.to_ipv6_mapped().octets())),
        IpAddr::V6(ip) => (words(&ip.octets()), words(&ip.octets())),
    };
    [own, mapped].map(|ip| format!("{ip}:{:04X}", address.port()))
}

/// The user a process acts as.
fn user_in(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A line as the kernel writes it.
    fn line(from: SocketAddr, to: SocketAddr, family: usize, rest: &str) -> String {
        let (from, to) = (&spelled(from)[family], &spelled(to)[family]);
        format!("   7: {from} {to} 01 00000000:00000000 00:00000000 00000000  {rest}\n")
    }

    #[test]
    fn a_socket_is_of_who_opened_it_and_a_closed_one_nobodys() {
        let [from, to, other] = ["127.0.0.1:50000", "127.0.0.1:7655", "127.0.0.1:50001"]
            .map(|address| address.parse::<SocketAddr>().unwrap());
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n";
        for family in [0, 1] {
            // Both ends stand in the table: the other's is asked for.
            let ours = line(to, from, family, "0        0 11 1 0");
            let theirs = line(from, to, family, "1001        0 12 1 0");
            let table = format!("{head}{ours}{theirs}");
            assert_eq!(owner_in(&table, from, to), Some(1001));
            assert_eq!(owner_in(&table, other, to), None);
            let closed = line(from, to, family, "0        0 0 1 0");
            assert_eq!(owner_in(&format!("{head}{ours}{closed}"), from, to), None);
        }
        assert_eq!(owner_in("", from, to), None);
        let status = "Name:\tx\nUid:\t1000\t1002\t1000\t1000\n";
        assert_eq!(user_in(status), Some(1002));
    }

    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "a connection is what is looked at"
    )]
    fn a_connection_of_our_own_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let near = TcpStream::connect(to).unwrap();
        let (_far, from) = listener.accept().unwrap();
        assert!(is_own(from, to));
        drop(near);
        assert!(!is_own(from, to), "who is gone is nobody");
    }
}
