//! Every route there is, in one table: what is asked for, and with which scope.
//!
//! The table is the router, the list of what needs a credential, and the first
//! column of the OpenAPI document.

use http::Method;
use portcullis_proto::Scope;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Health,
    Capabilities,
    Status,
    ReadFile,
    ReadBytes,
    Stat,
    List,
    Glob,
    Tree,
    Search,
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
    Download,
    Watch,
    UndoList,
    Undo,
    SignInPage,
    SignIn,
    SignOut,
    ApprovePage,
    Approvals,
    WatchApprovals,
    Answer,
    Audit,
    WatchAudit,
    Metrics,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) op: Op,
    pub(crate) method: Method,
    /// May end in `{id}`, which stands for one segment.
    pub(crate) path: &'static str,
    /// How the audit and the metrics name it.
    pub(crate) name: &'static str,
    /// What the credential has to be for; nothing for what anybody known may ask.
    pub(crate) scope: Option<Scope>,
    /// The tag in /capabilities that says it is there.
    pub(crate) tag: Option<&'static str>,
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
    ($($op:ident $method:ident $path:literal $scope:expr, $tag:expr;)*) => {
        &[$(route(Op::$op, Method::$method, (concat!(stringify!($method), " ", $path), $path), $scope, $tag)),*]
    };
}

const READ: Option<Scope> = Some(Scope::FsRead);
const WRITE: Option<Scope> = Some(Scope::FsWrite);
const APPROVE: Option<Scope> = Some(Scope::Approve);
const AUDIT: Option<Scope> = Some(Scope::Audit);

/// Every route.
pub(crate) const ROUTES: &[Route] = table! {
    Health GET "/health" None, Some("health");
    Capabilities GET "/capabilities" None, Some("capabilities");
    Status GET "/status" None, Some("portcullis_status");
    ReadFile GET "/file" READ, Some("workspace_file_read");
    ReadBytes GET "/file/bytes" READ, Some("workspace_file_bytes");
    Stat GET "/stat" READ, Some("workspace_file_read");
    List GET "/list" READ, Some("workspace_file_read");
    Glob GET "/glob" READ, Some("workspace_file_read");
    Tree GET "/tree" READ, Some("portcullis_tree");
    Search GET "/search" READ, Some("portcullis_search");
    WriteFile POST "/file/write" WRITE, Some("workspace_file_write");
    EditFile POST "/file/edit" WRITE, Some("workspace_file_write");
    EditMany POST "/file/edits" WRITE, Some("portcullis_file_edits");
    Append POST "/file/append" WRITE, Some("portcullis_file_append");
    Upload POST "/file/upload" WRITE, Some("workspace_file_upload");
    Delete POST "/file/delete" WRITE, Some("portcullis_file_delete");
    Move POST "/file/move" WRITE, Some("portcullis_file_move");
    Copy POST "/file/copy" WRITE, Some("portcullis_file_copy");
    MakeDirectory POST "/directory" WRITE, Some("portcullis_directory");
    InspectArchive GET "/archive" READ, Some("portcullis_archive");
    ExtractArchive POST "/archive/extract" WRITE, Some("portcullis_archive");
    CreateArchive POST "/archive/create" WRITE, Some("portcullis_archive");
    Download GET "/file/raw" READ, Some("portcullis_file_raw");
    Watch GET "/watch" READ, Some("portcullis_watch");
    UndoList GET "/undo" READ, Some("portcullis_undo");
    Undo POST "/undo" WRITE, Some("portcullis_undo");
    SignInPage GET "/sign-in" None, None;
    SignIn POST "/sign-in" None, Some("portcullis_sign_in");
    SignOut POST "/sign-out" None, Some("portcullis_sign_in");
    ApprovePage GET "/approve/{id}" None, None;
    Approvals GET "/approvals" APPROVE, Some("portcullis_approvals");
    WatchApprovals GET "/approvals/events" APPROVE, Some("portcullis_approvals");
    Answer POST "/approvals/{id}" APPROVE, Some("portcullis_approvals");
    Audit GET "/audit" AUDIT, Some("portcullis_audit");
    WatchAudit GET "/audit/events" AUDIT, Some("portcullis_audit");
    Metrics GET "/metrics" AUDIT, Some("portcullis_metrics");
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
        })
        .collect()
}

/// What is answered without a credential: that it is up, pages that hold
/// nothing, and the place where a link becomes a credential.
pub(crate) const fn is_open(op: Op) -> bool {
    matches!(
        op,
        Op::Health | Op::SignInPage | Op::SignIn | Op::ApprovePage
    )
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
        let Some(id) = fits(route.path, path) else {
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

fn fits<'a>(pattern: &str, path: &'a str) -> Option<Option<&'a str>> {
    let Some((before, after)) = pattern.split_once("{id}") else {
        return (pattern == path).then_some(None);
    };
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    (!id.is_empty() && !id.contains('/')).then_some(Some(id))
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
                other => panic!("{}: {other:?}", route.name),
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
                "/approve/{id}"
            ]
        );
    }
}
