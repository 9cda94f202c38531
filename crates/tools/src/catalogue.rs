//! Every tool there is, with its schemas. Built when first asked for: schemas
//! are no part of a fast start.

use std::sync::OnceLock;

use portcullis_proto::{Group, ToolSpec, ToolTraits};
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::{
    append_file, changed, create_archive, create_directory, delete, edit_file, extract_archive,
    get_file_tree, glob, grep, inspect_archive, list_files, read_file, relocate, search_files,
    stat, write_file,
};

/// The tools that look at files, in the order agents see them.
pub(crate) fn looking() -> &'static [ToolSpec] {
    static SPECS: OnceLock<Vec<ToolSpec>> = OnceLock::new();
    SPECS.get_or_init(|| {
        vec![
            looks::<get_file_tree::Arguments, get_file_tree::Reply>(
                "get_file_tree",
                "Directory tree",
                "Show a shallow directory tree as indented text. Start low and drill into subdirectories. Paths are relative to the root.",
            ),
            looks::<list_files::Arguments, list_files::Reply>(
                "list_files",
                "List files",
                "List the files and directories in a directory, sorted and paged. With recursive or pattern, list what is below it.",
            ),
            looks::<read_file::Arguments, read_file::Reply>(
                "read_file",
                "Read file",
                "Read a window of a file: lines of text from a line number, from the end, or from a cursor; or raw bytes. Works on files of any size.",
            ),
            looks::<stat::Arguments, stat::Reply>(
                "stat",
                "File status",
                "Tell type, size, time, mode and version of one file or directory.",
            ),
            looks::<glob::Arguments, list_files::Reply>(
                "glob",
                "Find files",
                "Find files and directories below a directory by a glob such as **/*.rs.",
            ),
            looks::<search_files::Arguments, search_files::Reply>(
                "search_files",
                "Search files",
                "Search the contents of the files below a directory for a regular expression, or with literal for a text. Takes a glob on files. Replies with the lines that match, and says when there is more.",
            ),
            looks::<grep::Arguments, search_files::Reply>(
                "grep",
                "Grep",
                "Search a file, a directory or a glob for lines that match a regular expression, with lines around them. Skips hidden and ignored files unless told otherwise.",
            ),
            looks::<inspect_archive::Arguments, inspect_archive::Reply>(
                "inspect_archive",
                "Inspect archive",
                "Tell what is in an archive (zip, tar, tar.gz, tar.bz2, tar.xz, tar.zst) and what unpacking it would refuse, without unpacking anything.",
            ),
        ]
    })
}

/// The tools that change files, in the order agents see them.
pub(crate) fn changing() -> &'static [ToolSpec] {
    static SPECS: OnceLock<Vec<ToolSpec>> = OnceLock::new();
    SPECS.get_or_init(|| {
        vec![
            changes::<write_file::Arguments, changed::Reply>(
                "write_file",
                "Write file",
                "Create a file, or replace all of its content; directories above it are made. A file that somebody else changed since you read it is left alone. Replies with a diff, the new version and a name to undo it by.",
                AGAIN_IS_ONCE,
            ),
            changes::<edit_file::Arguments, changed::Reply>(
                "edit_file",
                "Edit file",
                "Replace exact text in a file; everything else stays byte for byte. Text that is not there, or is there more than once, is refused with line numbers. Takes one edit, or a list of edits made together.",
                LOSES,
            ),
            changes::<append_file::Arguments, changed::Reply>(
                "append_file",
                "Append to file",
                "Add text to the end of a file, or make the file.",
                ADDS,
            ),
            changes::<create_directory::Arguments, changed::Reply>(
                "create_directory",
                "Create directory",
                "Make a directory and those above it. One that is there stays as it is.",
                ToolTraits {
                    idempotent: true,
                    ..ADDS
                },
            ),
            changes::<delete::Arguments, delete::Reply>(
                "delete",
                "Delete",
                "Delete a file, or a directory and all that is below it. The root itself cannot be deleted.",
                AGAIN_IS_ONCE,
            ),
            changes::<relocate::Arguments, changed::Reply>(
                "move",
                "Move",
                "Move or rename a file or directory; directories above the new path are made. A file that is there is replaced, unless overwrite is false.",
                LOSES,
            ),
            changes::<relocate::Arguments, changed::Reply>(
                "copy_file",
                "Copy file",
                "Copy a file to a new path; directories above it are made. A file that is there is replaced, unless overwrite is false.",
                AGAIN_IS_ONCE,
            ),
            changes::<extract_archive::Arguments, extract_archive::Reply>(
                "extract_archive",
                "Extract archive",
                "Unpack an archive (zip, tar, tar.gz, tar.bz2, tar.xz, tar.zst) into a directory that is not there yet: all of it, or nothing. Links, devices, and names that lead out or collide are refused.",
                ADDS,
            ),
            changes::<create_archive::Arguments, create_archive::Reply>(
                "create_archive",
                "Create archive",
                "Pack what is below a directory into a zip or tar.gz. Secret files, what rules deny, links and special files are left out and counted.",
                AGAIN_IS_ONCE,
            ),
        ]
    })
}

/// A tool that adds and takes nothing away.
const ADDS: ToolTraits = ToolTraits {
    read_only: false,
    destructive: false,
    idempotent: false,
    open_world: false,
};
/// A tool that can lose something.
const LOSES: ToolTraits = ToolTraits {
    destructive: true,
    ..ADDS
};
/// One that can lose something, once: doing it again changes nothing more.
const AGAIN_IS_ONCE: ToolTraits = ToolTraits {
    idempotent: true,
    ..LOSES
};

fn changes<A: JsonSchema, R: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    traits: ToolTraits,
) -> ToolSpec {
    ToolSpec {
        group: Group::FilesystemWrite,
        traits,
        ..looks::<A, R>(name, title, description)
    }
}

fn looks<A: JsonSchema, R: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        title: title.into(),
        description: description.into(),
        group: Group::FilesystemRead,
        traits: ToolTraits::LOOKS,
        input_schema: schema::<A>(Contract::Deserialize),
        output_schema: Some(or_failure(schema::<R>(Contract::Serialize))),
    }
}

/// A result's schema that a failure fits as well: some clients hold a failed
/// call's structured content to the output schema too.
fn or_failure(mut schema: Value) -> Value {
    let text = json!({"type": "string"});
    let failure = [
        ("errorKind", &text),
        ("reason", &text),
        ("category", &text),
        ("error", &text),
        ("hint", &text),
        ("status", &json!({"type": "integer"})),
    ];
    if let Some(root) = schema.as_object_mut() {
        let required = root.remove("required").unwrap_or_default();
        if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
            properties.extend(failure.map(|(name, kind)| (name.to_owned(), kind.clone())));
        }
        root.insert(
            "anyOf".to_owned(),
            json!([{"required": required}, {"required": ["errorKind", "reason", "category", "error", "status"]}]),
        );
    }
    schema
}

/// A schema with everything inlined: some clients follow no reference. The contract
/// decides which members are required: what may be left out of a reply is not the
/// same as what may be left out of arguments.
fn schema<T: JsonSchema>(contract: Contract) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.contract = contract;
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.transforms.push(Box::new(RecursiveTransform(
        // Rust's number formats mean nothing to validators, which say so loudly.
        |schema: &mut Schema| drop(schema.remove("format")),
    )));
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}

/// The members a reply of `tool` may have, and those it must have, by its schema.
#[cfg(test)]
pub(crate) fn members(tool: &str) -> (Vec<String>, Vec<String>) {
    let spec = looking().iter().find(|spec| spec.name == tool).unwrap();
    let schema = spec.output_schema.as_ref().unwrap();
    let of_failure = names(&or_failure(json!({"properties": {}}))["properties"]);
    let mut may = names(&schema["properties"]);
    may.retain(|name| !of_failure.contains(name));
    let mut must: Vec<String> =
        serde_json::from_value(schema["anyOf"][0]["required"].clone()).unwrap();
    must.sort();
    (may, must)
}

/// The names of an object's members, sorted.
#[cfg(test)]
pub(crate) fn names(object: &Value) -> Vec<String> {
    let mut names: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, required: &[&str], destructive: bool, idempotent: bool) {
        let spec = changing().iter().find(|spec| spec.name == name).unwrap();
        let wants: Vec<&str> = spec.input_schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(wants, required, "{name}");
        assert_eq!(spec.group, Group::FilesystemWrite, "{name}");
        let traits = ToolTraits {
            read_only: false,
            destructive,
            idempotent,
            open_world: false,
        };
        assert_eq!(spec.traits, traits, "{name}");
    }

    #[test]
    fn tools_that_change_take_the_names_daemons_have_shipped() {
        check("write_file", &["filePath", "content"], true, true);
        check("edit_file", &["filePath"], true, false);
        check("append_file", &["filePath", "content"], false, false);
        check("create_directory", &["dirPath"], false, true);
        check("delete", &["path"], true, true);
        check("move", &["sourcePath", "destinationPath"], true, false);
        check("copy_file", &["sourcePath", "destinationPath"], true, true);
        check(
            "extract_archive",
            &["archivePath", "destinationPath"],
            false,
            false,
        );
        check("create_archive", &["dirPath", "archivePath"], true, true);
        let edit = changing().iter().find(|spec| spec.name == "edit_file");
        let known = &edit.unwrap().input_schema["properties"];
        for name in ["oldString", "newString", "replaceAll", "edits"] {
            assert!(known.get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_schema_is_an_object_and_takes_a_failure() {
        for spec in looking().iter().chain(changing()) {
            let output = spec.output_schema.as_ref().unwrap();
            for schema in [&spec.input_schema, output] {
                assert_eq!(schema["type"], "object", "{}", spec.name);
            }
            let known = &output["properties"];
            assert!(known.get("errorKind").is_some(), "{}", spec.name);
        }
    }
}
