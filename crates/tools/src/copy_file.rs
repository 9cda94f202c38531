//! `copy_file`: a file's content under another name.

use portcullis_files::{Authority, WriteMode, WriteOptions};
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
    let way = way(authority, caller, Verb::Copy, arguments)?;
    let options = WriteOptions {
        mode: if way.overwrite {
            WriteMode::Overwrite
        } else {
            WriteMode::Create
        },
        ..WriteOptions::default()
    };
    let changed = way
        .from
        .copy_to(
            &way.source,
            &way.expect,
            &way.to,
            &way.destination,
            &options,
        )
        .await?;
    let reply = Reply::of_change(changed).from(RelPath::parse(&way.source)?.shown());
    let text = reply.text("copied");
    Ok((reply, text))
}
