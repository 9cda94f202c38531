//! Two threads between us and a server: one writes requests, one reads bounded lines.
//!
//! Invariants:
//! - writing never blocks the driver, so a server that stops reading cannot deadlock it;
//! - no line longer than the limit is ever held in memory;
//! - both threads end by themselves when the server's process group is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Room for replies that wait to be judged; a chatty server waits when it is full.
const WAITING_LINES: usize = 4096;

/// What the reading thread has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// One line, without its end.
    Line(Vec<u8>),
    /// A line went over the limit; nothing after it is read.
    TooLong,
    /// The server closed its output.
    Closed,
}

/// Sends whole request lines to the server from a thread of its own.
pub(crate) fn write_lines(mut stdin: impl Write + Send + 'static) -> Sender<Vec<u8>> {
    let (sender, waiting) = channel::<Vec<u8>>();
    std::thread::spawn(move || {
        while let Ok(mut bytes) = waiting.recv() {
            bytes.extend(waiting.try_iter().flatten());
            if stdin
                .write_all(&bytes)
                .and_then(|()| stdin.flush())
                .is_err()
            {
                return;
            }
        }
    });
    sender
}

/// Reads lines from the server on a thread of its own.
pub(crate) fn read_lines(stdout: impl Read + Send + 'static, limit: usize) -> Receiver<Incoming> {
    let (sender, receiver) = sync_channel(WAITING_LINES);
    std::thread::spawn(move || forward(BufReader::with_capacity(1 << 16, stdout), limit, &sender));
    receiver
}

fn forward(mut stdout: impl BufRead, limit: usize, sender: &SyncSender<Incoming>) {
    loop {
        let incoming = next_line(&mut stdout, limit);
        let last = !matches!(incoming, Incoming::Line(_));
        if sender.send(incoming).is_err() || last {
            return;
        }
    }
}

fn next_line(stdout: &mut impl BufRead, limit: usize) -> Incoming {
    let mut line = Vec::new();
    let ceiling = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match stdout.take(ceiling).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => Incoming::Closed,
        Ok(_) if line.last() == Some(&b'\n') => {
            line.pop();
            Incoming::Line(line)
        }
        Ok(_) if line.len() > limit => Incoming::TooLong,
        Ok(_) => Incoming::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wire: &'static [u8], limit: usize, want: &[Incoming]) {
        let got: Vec<_> = read_lines(wire, limit).iter().collect();
        assert_eq!(got, want);
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        check(
            b"one\ntwo\n",
            10,
            &[
                Incoming::Line(b"one".to_vec()),
                Incoming::Line(b"two".to_vec()),
                Incoming::Closed,
            ],
        );
        check(
            b"12345\n",
            5,
            &[Incoming::Line(b"12345".to_vec()), Incoming::Closed],
        );
        check(b"123456\n", 5, &[Incoming::TooLong]);
        check(b"torn", 5, &[Incoming::Closed]);
    }
}
