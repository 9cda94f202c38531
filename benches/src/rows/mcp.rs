//! End to end over standard input and output, against the reference server.

use serde_json::json;

use crate::Outcome;
use crate::node::reference_server;
use crate::rounds::Cost;
use crate::rows::list::{DIR, ENTRIES};
use crate::scratch::{SMALL, Scratch};
use crate::server::Server;
use crate::setup::Setup;
use crate::table::{self, Row};

/// What the reference server calls a list that looks at each entry, as ours does.
const WITH_SIZES: &str = "list_directory_with_sizes";

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
        || Ok(ours.cost(times, "read_file", || our_read.clone())?.cpu),
        || {
            Ok(peer
                .cost(times, "read_text_file", || their_read.clone())?
                .cpu)
        },
    )?;

    let times = setup.effort.operations(100);
    let our_list = json!({"dirPath": DIR, "maxResults": ENTRIES});
    let their_list = json!({"path": scratch.root().join(DIR)});
    let lists = setup.effort.duel(
        || Ok(ours.cost(times, "list_files", || our_list.clone())?.cpu),
        || Ok(peer.cost(times, WITH_SIZES, || their_list.clone())?.cpu),
    )?;
    let our_names = json!({"dirPath": DIR, "maxResults": ENTRIES, "metadata": false});
    let names = setup.effort.duel(
        || Ok(ours.cost(times, "list_files", || our_names.clone())?.cpu),
        || {
            Ok(peer
                .cost(times, "list_directory", || their_list.clone())?
                .cpu)
        },
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
            format!(
                "the same for list_files of 1,000 with metadata, against \
                 list_directory_with_sizes; names alone, against list_directory: {:.2}×",
                names.1 / names.0
            ),
        ),
    ])
}

/// Changing one line of 4 KiB. Ours is on the disk when the reply comes, theirs
/// is not: the reference server syncs nothing. What both cost themselves is
/// seen in memory, where that takes no time.
pub(crate) fn edit(setup: &Setup) -> Outcome<Vec<Row>> {
    let (ours, theirs) = edited(setup, &Scratch::in_memory()?)?;
    let (our_disk, their_disk) = edited(setup, &Scratch::new()?)?;
    Ok(vec![Row::times_cheaper(
        "mcp-edit",
        (ours.cpu, theirs.cpu),
        2.0,
        format!(
            "CPU of the server per edit_file of one line of 4 KiB, audited, locked and kept for \
             undo, against edit_file of the reference server, in memory; on the wall there {}, \
             and on the disk, which ours waits for twice and theirs never does, {}",
            table::wall(ours, theirs),
            table::wall(our_disk, their_disk)
        ),
    )])
}

fn edited(setup: &Setup, scratch: &Scratch) -> Outcome<(Cost, Cost)> {
    for file in ["ours.txt", "theirs.txt"] {
        let counted = format!("{}{}", line(0), "one of the other lines.\n".repeat(168));
        std::fs::write(scratch.root().join(file), counted)?;
    }
    let mut ours = Server::writing(setup, scratch)?.ready()?;
    let mut peer = reference_server(setup, scratch)?;
    let theirs = scratch.root().join("theirs.txt");
    let times = setup.effort.operations(100);
    let (mut our_count, mut their_count) = (0, 0);
    setup.effort.duel(
        || {
            ours.cost(times, "edit_file", || {
                our_count += 1;
                json!({"filePath": "ours.txt", "oldString": line(our_count - 1),
                       "newString": line(our_count)})
            })
        },
        || {
            peer.cost(times, "edit_file", || {
                their_count += 1;
                json!({"path": theirs, "edits": [{"oldText": line(their_count - 1),
                                                  "newText": line(their_count)}]})
            })
        },
    )
}

/// The line that is changed, as the `count`th edit leaves it.
fn line(count: u32) -> String {
    format!("changed {count:08} times.\n")
}
