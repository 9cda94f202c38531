//! What differs between operating systems, under the same names.
//!
//! Only Linux is built and tested; `macos.rs` and `windows.rs` do not exist
//! yet, and a build for them stops here instead of falling back to anything.

#[cfg(not(target_os = "linux"))]
compile_error!("only Linux is supported yet: the other platforms' openers are not written");

mod lease;
mod linux;
mod notices;
pub(crate) mod probe;

pub(crate) use lease::has_writer;
pub(crate) use linux::{
    BENEATH, child_meta, handle_meta, is_named, list_buffer, mount_of, open_child, open_walk,
    open_whole, rename_new, running_clock, stamping_clock, still_named, where_is,
};
pub(crate) use notices::{Notice, Notices, Told, Waker};
