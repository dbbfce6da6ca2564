"""The reconciliation endpoint, as OpenRefine and the published shapes of API 0.2 ask for it."""

import json
import re
from urllib.parse import urlencode, urlsplit

import httpx
import jsonschema
import pytest

from tests.service.support import CHANGE, KNOWN, make_pack

PATH = "/api/reconcile"
TEXT = {"type": "string"}
TYPES = {"type": "array", "items": {"anyOf": [TEXT, {"type": "object", "required": ["id"]}]}}
WITH_ID = {"type": "string", "pattern": r"\{\{id\}\}"}
ENTITY = {"id": TEXT, "name": TEXT, "description": TEXT}


def shape(required, **properties):
    return {"type": "object", "required": required, "properties": properties}


def listed(items):
    return shape(["result"], result={"type": "array", "items": items})


MANIFEST = shape(
    ["versions", "name", "identifierSpace", "schemaSpace"],
    versions={"type": "array", "items": TEXT, "contains": {"const": "0.2"}},
    **dict.fromkeys(("name", "identifierSpace", "schemaSpace", "serviceVersion"), TEXT),
    defaultTypes=TYPES,
    view=shape(["url"], url=WITH_ID),
    preview=shape(
        ["url", "width", "height"],
        url=WITH_ID,
        width={"type": "integer"},
        height={"type": "integer"},
    ),
    suggest=shape([], entity=shape([], service_url=TEXT, service_path=TEXT)),
)
CANDIDATE = shape(
    ["id", "name", "score"],
    **ENTITY,
    score={"type": "number"},
    match={"type": "boolean"},
    type=TYPES,
)
RESULTS = {"type": "object", "additionalProperties": listed(CANDIDATE)}
SUGGESTED = listed(shape(["id", "name"], **ENTITY, notable=TYPES))
"""What the published schemas of the manifest, of results and of suggestions demand."""


@pytest.fixture
def with_pack(client):
    """A client of a service that uses a pack, without our own headers, as OpenRefine is."""
    client.post("/api/packs", content=make_pack().to_bytes()).raise_for_status()
    for name in CHANGE:
        del client.headers[name]
    return client


def reconcile(client, **queries):
    form = {"queries": json.dumps(queries)}
    answer = client.post(PATH, data=form).raise_for_status().json()
    jsonschema.validate(answer, RESULTS)
    return {name: one["result"] for name, one in answer.items()}


def test_a_session_of_openrefine(with_pack):
    """Manifest, a form-encoded batch with a column of context, a search, a preview."""
    manifest = with_pack.get(PATH, headers={"Accept": "application/json"}).json()
    jsonschema.validate(manifest, MANIFEST)
    found = reconcile(
        with_pack,
        q0={"query": "Tehran", "type": "known", "type_strict": "should", "limit": 3},
        q1={"query": "Rey", "properties": [{"pid": "near", "v": "Tehran"}]},
        q2={"query": "Scavenger of Jakku"},
        q3={"query": "Rey Skywalker"},
        q4={"query": "no such thing"},
        q5={"query": "shahr rey", "limit": 1},
    )
    assert list(found) == ["q0", "q1", "q2", "q3", "q4", "q5"]
    assert (found["q0"][0]["id"], found["q0"][0]["match"]) == ("Tehran", True)
    assert {one["id"] for one in found["q1"]} >= {*KNOWN, "Rey Skywalker"}
    assert found["q1"] == sorted(found["q1"], key=lambda one: -one["score"])
    assert found["q2"][0]["id"] == "Rey Skywalker"
    assert (found["q3"][0]["id"], found["q3"][0]["match"]) == ("Rey Skywalker", True)
    assert found["q3"][0]["type"] == [{"id": "emerging", "name": "Of a pack"}]
    assert found["q4"] == []
    assert [(one["id"], one["match"]) for one in found["q5"]] == [("Rey, Iran", False)]
    service = manifest["suggest"]["entity"]
    url = service["service_url"] + service["service_path"]
    suggested = with_pack.get(url, params={"prefix": "rey", "cursor": 0}).json()
    jsonschema.validate(suggested, SUGGESTED)
    assert [one["id"] for one in suggested["result"][:2]] == ["Rey Skywalker", KNOWN[0]]
    rest = with_pack.get(url, params={"prefix": "rey", "cursor": 1}).json()["result"]
    assert rest[0]["id"] == KNOWN[0]
    for name in ("Rey, Iran", "Rey Skywalker"):
        page = with_pack.get(
            manifest["preview"]["url"].replace("{{id}}", str(httpx.QueryParams(i=name))[2:])
        )
        assert f'<h1 style="font-size: 16px">{name}</h1>' in page.text
        assert (
            "frame-ancestors 'self' http://127.0.0.1:*" in page.headers["content-security-policy"]
        )


def test_a_batch_may_come_in_the_address_and_types_restrict(with_pack):
    """GET answers as POST does; a type that is not ours has no candidates."""
    queries = {"a": {"query": "Rey", "type": ["emerging"]}, "b": {"query": "Rey", "type": "Q5"}}
    answer = with_pack.get(PATH, params={"queries": json.dumps(queries)}).json()
    assert answer == {name: {"result": r} for name, r in reconcile(with_pack, **queries).items()}
    assert [one["id"] for one in answer["a"]["result"]] == ["Rey Skywalker"]
    assert answer["b"]["result"] == []


def test_pages_of_this_machine_may_read_and_others_may_not(reader):
    """By CORS and as a script; a page elsewhere gets neither."""
    near, far = "http://127.0.0.1:3333", "https://example.org"
    answers = [reader.get(PATH, headers={"Origin": origin}).headers for origin in (near, far)]
    assert [one.get("access-control-allow-origin") for one in answers] == [near, None]
    script = reader.get(PATH, params={"callback": "cb.f1"}, headers={"Sec-Fetch-Site": "same-site"})
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["cross-origin-resource-policy"] == "same-site"
    (content,) = re.fullmatch(r"/\*\*/cb\.f1\((.*)\);", script.text).groups()
    jsonschema.validate(json.loads(content), MANIFEST)
    other = {"Sec-Fetch-Site": "cross-site"}
    assert reader.get(PATH, params={"callback": "f"}, headers=other).status_code == 403
    form = urlencode({"queries": "{}"})
    assert reader.post(PATH, content=form, headers={"Origin": far}).status_code == 403


def test_reading_needs_the_token_where_others_can_reach_the_service(serve):
    """As for all other data."""
    from stamo.service.security import SecuritySettings

    token = "a-long-enough-token"
    security = SecuritySettings(token=token, allowed_hosts=frozenset({"stamo.example"}))
    with serve(security=security) as client:
        host = {"Host": "stamo.example"}
        assert client.get(PATH, headers=host).status_code == 401
        answer = client.get(PATH, headers={**host, "Authorization": f"Bearer {token}"})
        assert urlsplit(answer.json()["preview"]["url"]).netloc == "stamo.example"


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ("", "no JSON"),
        ("[]", "an object of at most"),
        ('{"q": 5}', "is no object"),
        (json.dumps({str(i): {"query": "x"} for i in range(201)}), "at most 200 queries"),
    ],
)
def test_what_is_no_batch_is_refused_in_a_sentence(reader, queries, said):
    """With a status that says whose fault it is."""
    answer = reader.post(PATH, data={"queries": queries})
    assert answer.status_code == 422
    assert said in answer.json()["error"]


@pytest.mark.parametrize(
    "query",
    [
        {"query": "\ud800 Rey", "limit": -5},
        {"query": "x" * 5000, "properties": [{"pid": "p", "v": ["y" * 5000, None, {"id": "z"}]}]},
        {"properties": [{"pid": "p", "v": 1}]},
        {"query": None, "limit": "many", "type": 5, "properties": {"a": 1}},
    ],
)
def test_odd_queries_have_an_answer(reader, query):
    """Whatever a cell holds."""
    assert isinstance(reconcile(reader, q=query)["q"], list)


def test_nothing_that_is_not_there_has_a_preview(reader):
    """A sentence instead of a page; a callback that is no name is refused."""
    assert reader.get(f"{PATH}/preview", params={"id": "<b>"}).status_code == 404
    assert reader.get(PATH, params={"callback": "alert(1)//"}).status_code == 422
