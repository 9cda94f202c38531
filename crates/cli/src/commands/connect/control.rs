//! Answers `portcullis status` and `portcullis disconnect`, over a socket that
//! only the owner reaches.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::screen::Screen;

/// The longest word that is asked.
const MAX_WORD: u64 = 64;
/// How long who asks may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers one after the other, for as long as the link lasts.
pub(super) async fn answer(listener: UnixListener, screen: Arc<Screen>, ending: CancellationToken) {
    loop {
        match listener.accept().await {
            // Who is slow is not waited for, and who goes away is not missed.
            Ok((stream, _)) => drop(timeout(PATIENCE, one(stream, &screen, &ending)).await),
            Err(_) => tokio::time::sleep(PATIENCE).await,
        }
    }
}

async fn one(
    mut stream: UnixStream,
    screen: &Screen,
    ending: &CancellationToken,
) -> std::io::Result<()> {
    let (reading, mut writing) = stream.split();
    let mut word = String::new();
    BufReader::new(reading.take(MAX_WORD))
        .read_line(&mut word)
        .await?;
    let mut ends = None;
    let told = match word.trim() {
        "status" => screen.status(),
        "disconnect" => {
            screen.note("asked to disconnect");
            ends = Some(ending.clone().drop_guard());
            screen.status()
        }
        _ => return Ok(()),
    };
    let answered = writing.write_all(format!("{told}\n").as_bytes()).await;
    // After the answer, however that went: who asked hears of it first.
    drop(ends);
    answered
}
