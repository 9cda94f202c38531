//! What was typed about the fixed key of daemons.

use std::path::PathBuf;

use clap::Args;

#[derive(Clone, Debug, Args)]
pub(crate) struct GatewayArgs {
    /// A file with a fixed key that daemons may come with, instead of pairing: 16 to 256 characters
    /// [default: the variable PORTCULLIS_GATEWAY_API_KEY, if set]
    #[arg(long = "gateway-key-file", value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Whose machines come with the fixed key [default: the first user]
    #[arg(long = "gateway-user", value_name = "NAME")]
    pub(crate) user: Option<String>,
}
