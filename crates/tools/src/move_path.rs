//! `move`: another name for a file or directory.

use portcullis_files::{Authority, MoveOptions};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, RelPath, Verb};
use serde_json::Value;

use crate::changed::Reply;
use crate::relocate::way;

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let way = way(authority, caller, Verb::Move, arguments)?;
    let options = MoveOptions {
        overwrite: way.overwrite,
        source: way.expect,
    };
    let changed = way
        .from
        .move_to(&way.source, &way.to, &way.destination, &options)
        .await?;
    let reply = Reply::of_change(changed).from(RelPath::parse(&way.source)?.shown());
    let text = reply.text("moved");
    Ok((reply, text))
}
