//! What a server sends a daemon, of any bytes and cut anywhere: frames, bounded,
//! the same however they come, and events that mean what they say.
//!
//! Run: `cargo +nightly fuzz run events` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_link::{
    Confirmation, Event, Frame, Frames, Gathered, Reply, Request, SeedReply, bounds, event_frame,
};

fn read(pieces: &[&[u8]]) -> Vec<Frame> {
    let mut frames = Frames::default();
    let mut told = Vec::new();
    for piece in pieces {
        if frames.take(piece, |frame| told.push(frame)).is_err() {
            break;
        }
    }
    told
}

/// Whether two events are the same. A number with a fraction may be another in its
/// last place when it is read again: arguments are compared by their shape.
fn is_same(one: &Event, other: &Event) -> bool {
    match (one, other) {
        (Event::FilesystemRequest(one), Event::FilesystemRequest(other)) => {
            let tool = |request: &Request| request.tool_call.as_ref().map(|far| far.name.clone());
            let operation =
                |request: &Request| request.operation.as_ref().map(|one| one.operation.clone());
            one.id == other.id
                && tool(one) == tool(other)
                && operation(one) == operation(other)
                && one.portcullis == other.portcullis
        }
        (one, other) => one == other,
    }
}

fuzz_target!(|input: &[u8]| {
    // The first byte says where the stream is cut.
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = read(&[bytes]);
    let step = usize::from(*cut).max(1);
    let pieces: Vec<&[u8]> = bytes.chunks(step).collect();
    assert_eq!(read(&pieces), whole, "a cut makes a difference");
    let mut gathered = Gathered::default();
    for frame in whole {
        let Frame::Event { data, .. } = frame else {
            continue;
        };
        // What is no text becomes three times as long at most.
        assert!(data.len() <= 3 * bytes.len() && data.len() <= bounds::MAX_MESSAGE);
        if let Ok(event) = serde_json::from_str::<Event>(&data) {
            let written = serde_json::to_string(&event).expect("an event is written");
            let frame = event_frame(Some(7), &written);
            let Some(Frame::Event { id, data }) = read(&[frame.as_bytes()]).pop() else {
                panic!("an event that was written is none");
            };
            assert_eq!(id, Some(7));
            let again: Event = serde_json::from_str(&data).expect("an event is read");
            assert!(is_same(&again, &event), "{again:?} is not {event:?}");
        }
        // The other way round: what a daemon sends.
        if let Ok(reply) = serde_json::from_str::<Reply>(&data)
            && let Some(chunk) = &reply.chunk
        {
            drop(gathered.add(chunk));
            assert!(gathered.held() <= bounds::MAX_MESSAGE);
        }
        drop(serde_json::from_str::<SeedReply>(&data));
        if let Some(question) = Confirmation::parse(&data) {
            assert_eq!(Confirmation::parse(&question.text()), Some(question));
        }
    }
});
