//! Every route there is, in one table: what is asked for, and with which scope.
//!
//! The table is the router, the list of what needs a credential, and the first
//! column of the OpenAPI document.

use http::Method;
use portcullis_proto::Scope;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// Answered without a credential: that it is up, pages that hold nothing,
    /// and the place where a link becomes a credential.
    Open(Open),
    /// Asked of the server itself.
    Desk(Desk),
    /// Asked of a machine's files.
    Files(Files),
    /// MCP, whatever it asks for.
    Mcp(Mcp),
    /// Asked by the daemon of a linked machine, with a key of its own.
    Daemon(Daemon),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Open {
    Health,
    SignInPage,
    SignIn,
    ApprovePage,
    OAuthMetadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Desk {
    SignOut,
    Approvals,
    WatchApprovals,
    Answer,
    Audit,
    WatchAudit,
    Metrics,
    Extensions,
    RegisterExtension,
    ApproveExtension,
    ExtensionToken,
    RevokeExtension,
    RemoveExtension,
    OpenApi,
    Switch,
    CreateLink,
    LinkStatus,
    EndLinks,
    Preferences,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Files {
    Capabilities,
    Status,
    ReadFile,
    ReadBytes,
    Download,
    Stat,
    List,
    Glob,
    Tree,
    Search,
    Watch,
    WriteFile,
    EditFile,
    EditMany,
    Append,
    Upload,
    Delete,
    Move,
    Copy,
    MakeDirectory,
    InspectArchive,
    ExtractArchive,
    CreateArchive,
    UndoList,
    Undo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mcp {
    Post,
    Get,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Daemon {
    Init,
    Events,
    Poll,
    Response,
    Progress,
    Disconnect,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) op: Op,
    pub(crate) method: Method,
    /// May hold `{id}`, which stands for one segment.
    pub(crate) path: &'static str,
    /// How the audit and the metrics name it.
    pub(crate) name: &'static str,
    /// What the credential has to be for; nothing for what anybody known may ask.
    pub(crate) scope: Option<Scope>,
    /// The tag in /capabilities that says it is there.
    pub(crate) tag: Option<&'static str>,
}

impl Route {
    /// Whether it is asked of a machine's files.
    pub(crate) const fn is_of_files(&self) -> bool {
        matches!(self.op, Op::Files(_))
    }
}

const fn route(
    op: Op,
    method: Method,
    (name, path): (&'static str, &'static str),
    scope: Option<Scope>,
    tag: Option<&'static str>,
) -> Route {
    Route {
        op,
        method,
        path,
        name,
        scope,
        tag,
    }
}

macro_rules! table {
    ($($kind:ident $op:ident $method:ident $path:literal $scope:expr, $tag:expr;)*) => {
        &[$(route(Op::$kind($kind::$op), Method::$method, (concat!(stringify!($method), " ", $path), $path), $scope, $tag)),*]
    };
}

const READ: Option<Scope> = Some(Scope::FsRead);
const WRITE: Option<Scope> = Some(Scope::FsWrite);
const APPROVE: Option<Scope> = Some(Scope::Approve);
const AUDIT: Option<Scope> = Some(Scope::Audit);

/// Every route.
pub(crate) const ROUTES: &[Route] = table! {
    Open Health GET "/health" None, Some("health");
    Files Capabilities GET "/capabilities" None, Some("capabilities");
    Files Status GET "/status" None, Some("portcullis_status");
    Files ReadFile GET "/file" READ, Some("workspace_file_read");
    Files ReadBytes GET "/file/bytes" READ, Some("workspace_file_bytes");
    Files Stat GET "/stat" READ, Some("workspace_file_read");
    Files List GET "/list" READ, Some("workspace_file_read");
    Files Glob GET "/glob" READ, Some("workspace_file_read");
    Files Tree GET "/tree" READ, Some("portcullis_tree");
    Files Search GET "/search" READ, Some("portcullis_search");
    Files WriteFile POST "/file/write" WRITE, Some("workspace_file_write");
    Files EditFile POST "/file/edit" WRITE, Some("workspace_file_write");
    Files EditMany POST "/file/edits" WRITE, Some("portcullis_file_edits");
    Files Append POST "/file/append" WRITE, Some("portcullis_file_append");
    Files Upload POST "/file/upload" WRITE, Some("workspace_file_upload");
    Files Delete POST "/file/delete" WRITE, Some("portcullis_file_delete");
    Files Move POST "/file/move" WRITE, Some("portcullis_file_move");
    Files Copy POST "/file/copy" WRITE, Some("portcullis_file_copy");
    Files MakeDirectory POST "/directory" WRITE, Some("portcullis_directory");
    Files InspectArchive GET "/archive" READ, Some("portcullis_archive");
    Files ExtractArchive POST "/archive/extract" WRITE, Some("portcullis_archive");
    Files CreateArchive POST "/archive/create" WRITE, Some("portcullis_archive");
    Files Download GET "/file/raw" READ, Some("portcullis_file_raw");
    Files Watch GET "/watch" READ, Some("portcullis_watch");
    Files UndoList GET "/undo" READ, Some("portcullis_undo");
    Files Undo POST "/undo" WRITE, Some("portcullis_undo");
    Open SignInPage GET "/sign-in" None, None;
    Open SignIn POST "/sign-in" None, Some("portcullis_sign_in");
    Desk SignOut POST "/sign-out" None, Some("portcullis_sign_in");
    Open ApprovePage GET "/approve/{id}" None, None;
    Desk Approvals GET "/approvals" APPROVE, Some("portcullis_approvals");
    Desk WatchApprovals GET "/approvals/events" APPROVE, Some("portcullis_approvals");
    Desk Answer POST "/approvals/{id}" APPROVE, Some("portcullis_approvals");
    Desk Audit GET "/audit" AUDIT, Some("portcullis_audit");
    Desk WatchAudit GET "/audit/events" AUDIT, Some("portcullis_audit");
    Desk Metrics GET "/metrics" AUDIT, Some("portcullis_metrics");
    Desk Extensions GET "/extensions" APPROVE, Some("portcullis_extensions");
    Desk RegisterExtension POST "/extensions" READ, Some("portcullis_extensions");
    Desk ApproveExtension POST "/extensions/{id}/approve" APPROVE, Some("portcullis_extensions");
    Desk ExtensionToken POST "/extensions/{id}/token" APPROVE, Some("portcullis_extensions");
    Desk RevokeExtension POST "/extensions/{id}/revoke" APPROVE, Some("portcullis_extensions");
    Desk RemoveExtension DELETE "/extensions/{id}" APPROVE, Some("portcullis_extensions");
    Desk OpenApi GET "/openapi.json" None, Some("portcullis_openapi");
    Desk Switch POST "/filesystem/toggle" None, Some("portcullis_filesystem_toggle");
    Desk Switch POST "/instance-ai/filesystem/toggle" None, Some("portcullis_filesystem_toggle");
    Desk CreateLink POST "/instance-ai/gateway/create-link" APPROVE, Some("portcullis_links");
    Desk LinkStatus GET "/instance-ai/gateway/status" None, Some("portcullis_links");
    Desk EndLinks POST "/instance-ai/gateway/disconnect-session" APPROVE, Some("portcullis_links");
    Daemon Init POST "/instance-ai/gateway/init" None, Some("portcullis_links");
    Daemon Events GET "/instance-ai/gateway/events" None, Some("portcullis_links");
    Daemon Response POST "/instance-ai/gateway/response/{id}" None, Some("portcullis_links");
    Daemon Disconnect POST "/instance-ai/gateway/disconnect" None, Some("portcullis_links");
    Desk CreateLink POST "/rest/instance-ai/gateway/create-link" APPROVE, Some("portcullis_links");
    Desk LinkStatus GET "/rest/instance-ai/gateway/status" None, Some("portcullis_links");
    Desk EndLinks POST "/rest/instance-ai/gateway/disconnect-session" APPROVE, Some("portcullis_links");
    Desk Preferences PUT "/rest/instance-ai/preferences" None, Some("portcullis_filesystem_toggle");
    Daemon Init POST "/rest/instance-ai/gateway/init" None, Some("portcullis_links");
    Daemon Events GET "/rest/instance-ai/gateway/events" None, Some("portcullis_links");
    Daemon Poll GET "/rest/instance-ai/gateway/poll" None, Some("portcullis_links");
    Daemon Response POST "/rest/instance-ai/gateway/response/{id}" None, Some("portcullis_links");
    Daemon Progress POST "/rest/instance-ai/gateway/progress/{id}" None, Some("portcullis_links");
    Daemon Disconnect POST "/rest/instance-ai/gateway/disconnect" None, Some("portcullis_links");
    Mcp Post POST "/mcp" None, Some("portcullis_mcp");
    Mcp Get GET "/mcp" None, Some("portcullis_mcp");
    Mcp Delete DELETE "/mcp" None, Some("portcullis_mcp");
    Open OAuthMetadata GET "/.well-known/oauth-protected-resource" None, None;
    Open OAuthMetadata GET "/.well-known/oauth-protected-resource/mcp" None, None;
};

/// A route, for tests that try every one.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RouteRow {
    /// Method and path.
    pub name: &'static str,
    /// The method alone.
    pub method: &'static str,
    /// The path alone, in which `{id}` stands for one segment.
    pub path: &'static str,
    /// What the credential has to be for.
    pub scope: Option<Scope>,
    /// Whether daemons come there with a key of their own, and nobody else does.
    pub of_daemons: bool,
}

/// Every route there is.
#[doc(hidden)]
pub fn routes() -> Vec<RouteRow> {
    ROUTES
        .iter()
        .map(|route| RouteRow {
            name: route.name,
            method: route.method.as_str(),
            path: route.path,
            scope: route.scope,
            of_daemons: matches!(route.op, Op::Daemon(_)),
        })
        .collect()
}

/// What a path and method lead to.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// This route, with what stood for `{id}`.
    Route(&'static Route, Option<&'a str>),
    /// There are routes at the path, for these methods.
    OtherMethods(Vec<&'static Method>),
    /// There is nothing there.
    Nothing,
}

/// Finds a route. `HEAD` is a `GET` whose body nobody sends.
pub(crate) fn find<'a>(method: &Method, path: &'a str) -> Found<'a> {
    let wanted = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let mut others = Vec::new();
    for route in ROUTES {
        let Fits::Yes(id) = fits(route.path, path) else {
            continue;
        };
        if route.method == *wanted {
            return Found::Route(route, id);
        }
        others.push(&route.method);
    }
    if others.is_empty() {
        Found::Nothing
    } else {
        Found::OtherMethods(others)
    }
}

/// Whether a path is what a pattern means.
enum Fits<'a> {
    /// It is, with what stood for `{id}`.
    Yes(Option<&'a str>),
    No,
}

fn fits<'a>(pattern: &str, path: &'a str) -> Fits<'a> {
    let Some((before, after)) = pattern.split_once("{id}") else {
        return if pattern == path {
            Fits::Yes(None)
        } else {
            Fits::No
        };
    };
    let id = path
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after))
        .filter(|id| !id.is_empty() && !id.contains('/'));
    id.map_or(Fits::No, |id| Fits::Yes(Some(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_routes_answer_the_same_request() {
        let mut seen = std::collections::HashSet::new();
        for route in ROUTES {
            assert!(seen.insert((&route.method, route.path)), "{}", route.name);
            match find(&route.method, route.path) {
                Found::Route(found, _) => assert_eq!(found.op, route.op, "{}", route.name),
                other @ (Found::OtherMethods(_) | Found::Nothing) => {
                    panic!("{}: {other:?}", route.name)
                }
            }
        }
    }

    #[test]
    fn only_health_and_what_says_nothing_of_files_is_without_a_scope() {
        let without: Vec<&str> = ROUTES
            .iter()
            .filter(|route| route.scope.is_none())
            .map(|route| route.path)
            .collect();
        assert_eq!(
            without,
            [
                "/health",
                "/capabilities",
                "/status",
                "/sign-in",
                "/sign-in",
                "/sign-out",
                "/approve/{id}",
                "/openapi.json",
                "/filesystem/toggle",
                "/instance-ai/filesystem/toggle",
                "/instance-ai/gateway/status",
                "/instance-ai/gateway/init",
                "/instance-ai/gateway/events",
                "/instance-ai/gateway/response/{id}",
                "/instance-ai/gateway/disconnect",
                "/rest/instance-ai/gateway/status",
                "/rest/instance-ai/preferences",
                "/rest/instance-ai/gateway/init",
                "/rest/instance-ai/gateway/events",
                "/rest/instance-ai/gateway/poll",
                "/rest/instance-ai/gateway/response/{id}",
                "/rest/instance-ai/gateway/progress/{id}",
                "/rest/instance-ai/gateway/disconnect",
                "/mcp",
                "/mcp",
                "/mcp",
                "/.well-known/oauth-protected-resource",
                "/.well-known/oauth-protected-resource/mcp"
            ]
        );
    }
}
