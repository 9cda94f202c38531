//! What a client has to know when somebody else issues the tokens.

use portcullis_proto::Scope;
use serde_json::{Value, json};

/// This server as a protected resource of an OAuth issuer elsewhere (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthResource {
    /// The address clients know this server's MCP by: `https://host:port/mcp`.
    pub resource: String,
    /// Who issues its tokens.
    pub issuer: String,
}

impl OAuthResource {
    /// Where the metadata is, and where it is by the path of the resource.
    pub const PATHS: [&'static str; 2] = [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
    ];

    /// The metadata at [`Self::PATHS`].
    pub fn metadata(&self) -> Value {
        json!({
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "scopes_supported": Scope::ALL.map(Scope::as_str),
            "bearer_methods_supported": ["header"],
            "resource_name": "Portcullis",
        })
    }

    /// The `WWW-Authenticate` header of a refusal (RFC 6750, section 3).
    pub fn challenge(&self, wrong: Wrong) -> String {
        let origin = self.resource.strip_suffix("/mcp").unwrap_or(&self.resource);
        let [_, path] = Self::PATHS;
        let error = match wrong {
            Wrong::Nothing => String::new(),
            Wrong::Token => "error=\"invalid_token\", ".to_owned(),
            Wrong::Scope(scope) => format!("error=\"insufficient_scope\", scope=\"{scope}\", "),
        };
        format!("Bearer {error}resource_metadata=\"{origin}{path}\"")
    }
}

/// What is wrong with a credential, as far as who brought it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is none.
    Nothing,
    /// It stands for nobody.
    Token,
    /// It is good, and not for this.
    Scope(Scope),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_a_token_learns_where_to_get_one() {
        let here = OAuthResource {
            resource: "https://files.example/mcp".to_owned(),
            issuer: "https://login.example".to_owned(),
        };
        let at =
            "resource_metadata=\"https://files.example/.well-known/oauth-protected-resource/mcp\"";
        for (wrong, error) in [
            (Wrong::Nothing, ""),
            (Wrong::Token, "error=\"invalid_token\", "),
            (
                Wrong::Scope(Scope::FsWrite),
                "error=\"insufficient_scope\", scope=\"fs:write\", ",
            ),
        ] {
            assert_eq!(here.challenge(wrong), format!("Bearer {error}{at}"));
        }
        let told = here.metadata();
        assert_eq!(told["resource"], "https://files.example/mcp");
        assert_eq!(
            told["authorization_servers"],
            json!(["https://login.example"])
        );
        assert_eq!(told["bearer_methods_supported"], json!(["header"]));
        let scopes = told["scopes_supported"].as_array().map(Vec::len);
        assert_eq!(scopes, Some(Scope::ALL.len()));
    }
}
