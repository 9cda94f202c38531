//! What was typed about an OAuth issuer whose tokens count.

use std::path::PathBuf;

use clap::Args;

use super::accounts::url;

#[derive(Clone, Debug, Args)]
pub(crate) struct OAuthArgs {
    /// Take the tokens (JWTs) this OAuth issuer gives out, and tell MCP clients so. A token counts
    /// for the user of that name here, with the scopes both have
    #[arg(
        id = "oauth_issuer",
        long = "oauth-issuer",
        value_name = "URL",
        requires = "oauth_keys",
        value_parser = url
    )]
    pub(crate) issuer: Option<String>,
    /// The issuer's public keys: its JWK set. Nothing is fetched; refresh the file with a timer
    /// (curl -fsS JWKS_URL -o keys.new && mv keys.new keys.json), and it counts within a second
    #[arg(
        id = "oauth_keys",
        long = "oauth-keys",
        value_name = "FILE",
        requires = "oauth_issuer"
    )]
    pub(crate) keys: Option<PathBuf>,
    /// Who tokens have to be for (aud) [default: the address of /mcp, by --public-url if given]
    #[arg(
        id = "oauth_audience",
        long = "oauth-audience",
        value_name = "AUDIENCE",
        requires = "oauth_issuer"
    )]
    pub(crate) audience: Option<String>,
    /// Which claim names the user. It has to be one that people cannot choose for themselves
    #[arg(
        id = "oauth_user_claim",
        long = "oauth-user-claim",
        value_name = "CLAIM",
        default_value = "sub",
        requires = "oauth_issuer"
    )]
    pub(crate) user_claim: String,
}
