//! The file routes, as the OpenAPI document tells them.

use portcullis_tools::replies::{
    ArchiveReply, BytesReply, ChangeReply, DeleteReply, EditReply, ExtractReply, FileReply,
    GlobReply, InspectReply, ListReply, SearchReply, StatReply, TreeReply, UndoListReply,
    UndoReply, UploadReply, WriteReply,
};
use serde_json::json;

use super::super::machines::StatusReply;
use super::super::openapi::{Described, Shapes};
use super::super::routes::Files;
use super::capabilities::CapabilitiesReply;
use super::changes::WatchQuery;
use super::files::{BytesQuery, EditBody, GlobQuery, ListQuery, PathQuery, ReadQuery, WriteBody};
use super::machine::MachineQuery;
use super::tools::{
    AppendBody, EditsBody, ExtractBody, OverwriteBody, PathBody, SearchQuery, TreeQuery, UndoBody,
};

/// What every route about files takes and may answer.
fn told<'a>(shapes: &'a mut Shapes, summary: &'static str) -> Described<'a> {
    let text = || json!({"type": "string"});
    Described::of(shapes, summary)
        .judged()
        .header(
            "Portcullis-Conversation",
            "The conversation it is part of: what is allowed for a session is allowed in it.",
            text(),
        )
        .header("Portcullis-Run", "The run it is part of.", text())
        .header(
            "Portcullis-Machine",
            "Which machine: a name `/status` tells, or `here` for the server's own files. \
             Without it the newest link is meant, and without any the server's own.",
            text(),
        )
        .asking::<MachineQuery>()
        .failing(&[400, 500, 503])
}

/// One that looks at what is there.
fn looks<'a>(shapes: &'a mut Shapes, summary: &'static str) -> Described<'a> {
    asks(told(shapes, summary))
        .header(
            "X-Qwen-Client-Id",
            "The id a client of qwen serve gave itself. It says nothing here.",
            json!({"type": "string", "pattern": "^[A-Za-z0-9._:-]{0,128}$"}),
        )
        .failing(&[404])
}

/// One that changes something.
fn changes<'a>(shapes: &'a mut Shapes, summary: &'static str) -> Described<'a> {
    asks(told(shapes, summary)).failing(&[404, 409])
}

/// One that may have to ask a person first.
fn asks(described: Described<'_>) -> Described<'_> {
    described
        .header(
            "Prefer",
            "`wait=N`: wait up to N seconds, at most 55, where a person has to be asked.",
            json!({"type": "string"}),
        )
        .header(
            "Portcullis-Question",
            "`questionId` of an earlier reply to the same request, once it is answered.",
            json!({"type": "string"}),
        )
}

pub(in crate::http) fn described(files: Files, shapes: &mut Shapes) -> Described<'_> {
    match files {
        Files::Capabilities => told(shapes, "What this server can do")
            .giving::<CapabilitiesReply>(200, "Its features, limits and workspaces."),
        Files::Status => told(shapes, "What was found here, and why")
            .giving::<StatusReply>(200, "Who you are to it, and which machine it serves."),
        Files::ReadFile => looks(shapes, "Text of a file")
            .asking::<ReadQuery>()
            .giving::<FileReply>(200, "The file, or a window of it.")
            .failing(&[409, 413, 422]),
        Files::ReadBytes => looks(shapes, "Bytes of a file, in base64")
            .asking::<BytesQuery>()
            .giving::<BytesReply>(200, "Some bytes."),
        Files::Download => {
            let bytes = || {
                [(
                    "application/octet-stream",
                    json!({"type": "string", "format": "binary"}),
                )]
            };
            looks(shapes, "A file as it is")
                .asking::<PathQuery>()
                .header(
                    "Range",
                    "One range of bytes. What says nothing known is no range.",
                    json!({"type": "string"}),
                )
                .giving_as(200, "All of it.", &bytes())
                .giving_as(206, "The bytes that were asked for.", &bytes())
                .failing(&[416])
        }
        Files::Stat => looks(shapes, "What stands at a path")
            .asking::<PathQuery>()
            .giving::<StatReply>(200, "Type, size, time and version."),
        Files::List => looks(shapes, "Names in a directory")
            .asking::<ListQuery>()
            .giving::<ListReply>(200, "Names, sorted."),
        Files::Glob => looks(shapes, "Names below a directory")
            .asking::<GlobQuery>()
            .giving::<GlobReply>(200, "Paths that match."),
        Files::Tree => looks(shapes, "A directory as a tree")
            .asking::<TreeQuery>()
            .giving::<TreeReply>(200, "The tree, as text and structured."),
        Files::Search => looks(shapes, "Lines that match, below a directory")
            .asking::<SearchQuery>()
            .about("With `Accept: text/event-stream`: events `progress`, `handled`, and `result` or `error`.")
            .giving::<SearchReply>(200, "The lines, and what was left out.")
            .or_streaming(),
        Files::Watch => looks(shapes, "Changes below a directory, as they happen")
            .asking::<WatchQuery>()
            .streaming("Events `begun`, `changes` and `ended`."),
        Files::WriteFile => changes(shapes, "Makes or replaces a file of text")
            .taking::<WriteBody>()
            .giving::<WriteReply>(200, "It was replaced.")
            .giving::<WriteReply>(201, "It was made.")
            .failing(&[422]),
        Files::EditFile => changes(shapes, "Replaces one piece of text in a file")
            .taking::<EditBody>()
            .giving::<EditReply>(200, "It was replaced.")
            .failing(&[422]),
        Files::EditMany => changes(shapes, "Makes several edits of a file, all or none")
            .taking::<EditsBody>()
            .giving::<ChangeReply>(200, "All were made.")
            .failing(&[422]),
        Files::Append => changes(shapes, "Adds text to the end of a file")
            .taking::<AppendBody>()
            .giving::<ChangeReply>(200, "It was added.")
            .failing(&[422]),
        Files::Upload => changes(shapes, "Puts bytes into a new file")
            .about("Nothing that is there is replaced: a taken name gets a number.")
            .asking::<PathQuery>()
            .taking_as(
                "application/octet-stream",
                json!({"type": "string", "format": "binary"}),
            )
            .giving::<UploadReply>(201, "It is there, under the path told.")
            .failing(&[408, 413, 415]),
        Files::Delete => changes(
            shapes,
            "Deletes a file, or a directory and what is below it",
        )
        .taking::<PathBody>()
        .giving::<DeleteReply>(200, "It is gone, and can be undone where `undo` is there."),
        Files::Move => changes(shapes, "Moves a file or a directory")
            .taking::<OverwriteBody>()
            .giving::<ChangeReply>(200, "It was moved."),
        Files::Copy => changes(shapes, "Copies a file")
            .taking::<OverwriteBody>()
            .giving::<ChangeReply>(200, "It was copied."),
        Files::MakeDirectory => changes(shapes, "Makes a directory and those above it")
            .taking::<PathBody>()
            .giving::<ChangeReply>(200, "It is there."),
        Files::InspectArchive => looks(shapes, "What is in an archive")
            .asking::<PathQuery>()
            .giving::<InspectReply>(200, "Its entries, and what unpacking would refuse.")
            .failing(&[413]),
        Files::ExtractArchive => changes(shapes, "Unpacks an archive into a new directory")
            .taking::<ExtractBody>()
            .giving::<ExtractReply>(200, "All of it was unpacked."),
        Files::CreateArchive => changes(shapes, "Packs what is below a directory")
            .taking::<OverwriteBody>()
            .giving::<ArchiveReply>(200, "It was packed."),
        Files::UndoList => looks(shapes, "What you changed and can take back")
            .giving::<UndoListReply>(200, "Changes, the newest first."),
        Files::Undo => changes(shapes, "Takes a change back")
            .taking::<UndoBody>()
            .giving::<UndoReply>(200, "It was taken back."),
    }
}
