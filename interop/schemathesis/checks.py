"""What our replies have to keep beside what any API has to."""

import schemathesis


# Refused for what a text means, which no schema of ours can say.
MEANT = (
    # Names that another file system would not take.
    "A new file or directory cannot have this name",
    "The query is not a regular expression",
    # Each alone is fine.
    "Give expectedVersion or expectedHash, not both",
)


def told(response):
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


@schemathesis.check
def only_a_long_name_is_503(ctx, response, case):
    if response.status_code == 503:
        reason = told(response).get("reason")
        assert reason == "name_too_long", f"503 for {reason}"


@schemathesis.check
def fitting_requests_fit(ctx, response, case):
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive:
        return
    query = case.query or {}
    if "cursor" in query and "line" in query:
        # They exclude each other, which no parameter can say of another.
        return
    if "Portcullis-Question" in (case.headers or {}):
        # A question that is none of yours is refused, and which are yours no schema knows.
        return
    body = told(response)
    words = body.get("error", "")
    assert body.get("reason") != "bad_arguments" or words.startswith(MEANT), words
