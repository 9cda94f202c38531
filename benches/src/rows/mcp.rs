//! End to end over standard input and output, against the reference server.

use serde_json::json;

use crate::Outcome;
use crate::node::reference_server;
use crate::rows::list::{DIR, ENTRIES};
use crate::scratch::{SMALL, Scratch};
use crate::server::Server;
use crate::setup::Setup;
use crate::table::Row;

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?
        .with_small_file()?
        .with_files(DIR, ENTRIES)?;
    let mut ours = Server::portcullis(setup, &scratch)?.ready()?;
    let mut peer = reference_server(setup, &scratch)?;

    let times = setup.effort.operations(2_000);
    let our_read = json!({"filePath": SMALL});
    let their_read = json!({"path": scratch.root().join(SMALL)});
    let reads = setup.effort.duel(
        || ours.cost(times, "read_file", &our_read),
        || peer.cost(times, "read_text_file", &their_read),
    )?;

    let times = setup.effort.operations(100);
    let our_list = json!({"dirPath": DIR, "maxResults": ENTRIES});
    let their_list = json!({"path": scratch.root().join(DIR)});
    let lists = setup.effort.duel(
        || ours.cost(times, "list_files", &our_list),
        || peer.cost(times, "list_directory_with_sizes", &their_list),
    )?;
    Ok(vec![
        Row::times_cheaper(
            "mcp-read",
            reads,
            5.0,
            "CPU of the server per read_file of 4 KiB, one after the other, against \
             read_text_file of @modelcontextprotocol/server-filesystem",
        ),
        Row::times_cheaper(
            "mcp-list",
            lists,
            5.0,
            "the same for list_files of 1,000 with metadata, against list_directory_with_sizes",
        ),
    ])
}
