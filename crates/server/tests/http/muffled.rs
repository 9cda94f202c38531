//! A proxy that holds streams back for ever: what is asked of a machine reaches it all
//! the same, since it looks for events where streams bring nothing.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use portcullis_proto::{Mode, Scope};
use serde_json::json;

use crate::daemon::{call, text};
use crate::lent::{How, Lent};
use crate::world::World;

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What it kept to itself.
#[derive(Default)]
struct Kept {
    streams: AtomicUsize,
    bytes: AtomicUsize,
}

/// Passes on what is short, and of a stream of events its head alone; where it listens.
fn muffler(server: SocketAddr, kept: &Arc<Kept>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kept = Arc::clone(kept);
    // It listens until the test is over, and the process with it.
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, kept) = (client.unwrap(), Arc::clone(&kept));
            thread::spawn(move || {
                // Either side may go at any time.
                drop(pass(client, server, &kept));
            });
        }
    });
    port
}

fn pass(mut client: TcpStream, server: SocketAddr, kept: &Kept) -> io::Result<()> {
    let mut there = TcpStream::connect(server)?;
    let mut some = vec![0; 64 * 1024];
    let read = client.read(&mut some)?;
    let is_stream = some.starts_with(b"GET /rest/instance-ai/gateway/events");
    there.write_all(&some[..read])?;
    let (mut up, mut back) = (client.try_clone()?, there.try_clone()?);
    thread::spawn(move || {
        io::copy(&mut up, &mut back).ok();
        back.shutdown(Shutdown::Both).ok();
    });
    if is_stream {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = there.read(&mut some[..1])?;
            if read == 0 {
                return Ok(());
            }
            head.push(some[0]);
        }
        client.write_all(&head)?;
        kept.streams.fetch_add(1, Ordering::Relaxed);
        loop {
            match there.read(&mut some)? {
                0 => return client.shutdown(Shutdown::Both),
                read => kept.bytes.fetch_add(read, Ordering::Relaxed),
            };
        }
    }
    io::copy(&mut there, &mut client)?;
    client.shutdown(Shutdown::Both)
}

#[test]
fn behind_a_proxy_that_holds_streams_back_calls_come_by_looking_for_them() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let token = near.token("ada", &AGENT);
    let server = near.start();
    let kept = Arc::new(Kept::default());
    let how = How {
        via: Some(muffler(server.address, &kept)),
        // Two streams have 40 seconds each to bring something.
        is_hurried: true,
        ..How::named("laptop")
    };
    let lent = Lent::to(&near, &server, &far, how);
    // Asked while a stream is still waited for, and after that was given up.
    for content in ["one\n", "two\n"] {
        let append = json!({"filePath": "log.txt", "content": content});
        let done = call(&server, &token, "append_file", &append);
        assert_ne!(done["isError"], true, "{done}");
    }
    let read = call(
        &server,
        &token,
        "read_file",
        &json!({"filePath": "log.txt"}),
    );
    assert!(text(&read).contains("one\ntwo"), "{read}");
    let there = std::fs::read_to_string(far.scratch.at("log.txt")).unwrap();
    assert_eq!(there, "one\ntwo\n");
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert_eq!(count(&kept.streams), 2, "two are tried, and no more");
    assert!(count(&kept.bytes) > 0, "the first call was said there");
    lent.end();
}
