"""The reports of `zkit audit`, as the programs that take them read them: SARIF by its schema, JUnit by the rules of CI
services, HTML by a parser and by what a browser would load, workflow commands as the runner takes them apart."""

import base64
import hashlib
import html.parser
import json
import pathlib
import re
import xml.etree.ElementTree as ET

import jsonschema
import pytest

import hostile
from conftest import FIXTURES, MEMORY_LIMIT_MB, SECONDS_LIMIT

DATA = pathlib.Path(__file__).parent / "data"

# cut off chunks, absent chunks, nothing wrong
STORES = ["faulty_lfs_pointers.zarr", "imerg_template.zarr", "bcsd_climate.zarr"]

STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory):
    return hostile.write(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(params=["fixtures", "hostile"])
def stores(request, hostile_store):
    return [FIXTURES / name for name in STORES] if request.param == "fixtures" else [hostile_store]


def audit(zkit, stores, form, *args):
    # all of it is decoded, so that reports have values, too
    outcome = zkit("audit", *stores, "--depth", "full", "--format", form, *args)
    assert outcome.code in (0, 1, 3), outcome.err
    text = outcome.stdout.decode("utf-8")
    assert not STEERS.search(text), f"{form}: {STEERS.search(text)}"
    return text


def findings(zkit, stores):
    return json.loads(audit(zkit, stores, "json"))["findings"]


def clean(text):
    """A text as zkit shows it: what steers a terminal as an escape."""

    def escape(match):
        character = match[0]
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\u{{{ord(character):x}}}")

    return re.sub(STEERS.pattern[:-1] + "\n]", escape, text)


def test_json_has_what_the_contract_names(zkit, stores):
    report = json.loads(audit(zkit, stores, "json"))
    assert report["schema_version"] == 1
    assert set(report["summary"]) == {"errors", "warnings", "infos"}
    assert sum(report["summary"].values()) == len(report["findings"]) > 0
    assert isinstance(report["complete"], bool)
    for store in report["stores"]:
        assert {"url", "kind", "arrays", "bytes_stored", "bytes_decoded", "depth"} <= set(store)
    fields = {"rule", "severity", "confidence", "store", "array", "chunks", "grid", "message", "evidence", "remedy"}
    for finding in report["findings"]:
        assert fields <= set(finding)


def test_sarif_is_valid_by_its_schema(zkit, stores):
    log = json.loads(audit(zkit, stores, "sarif"))
    schema = json.loads((DATA / "sarif-schema-2.1.0.json").read_text())
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    assert [error.message for error in validator.iter_errors(log)] == []
    assert not validator.is_valid({**log, "version": "2.0.0"}), "the schema refuses something"


def test_sarif_results_are_the_findings(zkit, stores):
    run = json.loads(audit(zkit, stores, "sarif"))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    levels = {"error": "error", "warning": "warning", "info": "note"}
    got = []
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        location = result["locations"][0]
        assert re.fullmatch(r"[\w.~!$&'()*+,;=:@/?%\[\]-]+", location["physicalLocation"]["artifactLocation"]["uri"])
        assert location["physicalLocation"]["region"]["startLine"] == 1
        array = location.get("logicalLocations", [{}])[0].get("fullyQualifiedName")
        got.append((result["ruleId"], result["level"], array))
    want = [
        (finding["rule"], levels[finding["severity"]], finding["array"] and clean(finding["array"]))
        for finding in findings(zkit, stores)
    ]
    assert sorted(got, key=str) == sorted(want, key=str)


def test_sarif_fingerprints_are_those_of_the_last_run_and_tell_findings_apart(zkit, stores):
    def prints():
        results = json.loads(audit(zkit, stores, "sarif"))["runs"][0]["results"]
        return [result["partialFingerprints"]["zkitFinding/v1"] for result in results]

    assert prints() == prints()
    assert len(set(prints())) == len(prints())


def junit(zkit, stores, *args):
    return ET.fromstring(audit(zkit, stores, "junit", *args).encode())


def test_junit_follows_the_rules_of_ci_services(zkit, stores):
    root = junit(zkit, stores)
    assert root.tag == "testsuites"
    attributes = {
        "testsuites": {"name", "tests", "failures", "errors", "skipped"},
        "testsuite": {"name", "tests", "failures", "errors", "skipped"},
        "testcase": {"name", "classname"},
        "property": {"name", "value"},
        "failure": {"message", "type"},
        "error": {"message", "type"},
        "properties": set(),
        "system-out": set(),
    }
    children = {
        "testsuites": {"testsuite"},
        "testsuite": {"properties", "testcase"},
        "testcase": {"failure", "error", "system-out"},
        "properties": {"property"},
    }
    for element in root.iter():
        assert set(element.attrib) == attributes[element.tag], element.tag
        assert {child.tag for child in element} <= children.get(element.tag, set()), element.tag
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases)
        assert int(suite.get("failures")) == sum(case.find("failure") is not None for case in cases)
        assert int(suite.get("errors")) == sum(case.find("error") is not None for case in cases)
        names = [(case.get("classname"), case.get("name")) for case in cases]
        assert len(set(names)) == len(names), "viewers join tests of one name"
    for total in ("tests", "failures", "errors"):
        assert int(root.get(total)) == sum(int(suite.get(total)) for suite in root)


def test_junit_names_each_finding_and_fails_as_the_run_does(zkit, stores):
    root = junit(zkit, stores)
    failed = {case.get("name") for case in root.iter("testcase") if case.find("failure") is not None}
    errors = [finding for finding in findings(zkit, stores) if finding["severity"] == "error"]
    named = {" ".join(filter(None, [finding["rule"], clean(finding["array"] or "")])) for finding in errors}
    assert failed == named


class Page(html.parser.HTMLParser):
    """Tags, texts, scripts and styles of a page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.scripts, self.styles, self.shown = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, text):
        where = {"script": self.scripts, "style": self.styles}.get(self.open[-1] if self.open else "", self.shown)
        where.append(text)

    def handle_comment(self, text):
        raise AssertionError(f"a comment: {text}")


TAGS = """
a body br button circle code dd details div dl dt figcaption figure footer g h1 h2 h3 head header html input label li
main meta ol p path pre rect script section span strong style summary svg table tbody td text th thead title tr
"""


def test_html_holds_the_tags_of_the_template_alone_and_every_one_is_closed(zkit, stores):
    page = Page(audit(zkit, stores, "html"))
    assert page.open == []
    assert {tag for tag, _ in page.tags} <= set(TAGS.split())
    assert len(page.scripts) == len(page.styles) == 1
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("src", "srcset", "style", "action", "xlink:href"), tag
            if name == "href":
                assert re.fullmatch(r"#rule-[a-z-]+", value)
            if name == "id":
                assert re.fullmatch(r"[a-z-]+", value)


def test_html_loads_nothing_and_runs_only_its_own_script(zkit, stores):
    page = Page(audit(zkit, stores, "html"))

    def digest(content):
        return "'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'"

    metas = [attributes for tag, attributes in page.tags if tag == "meta"]
    policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts == {
        "default-src": "'none'",
        "style-src": digest(page.styles[0]),
        "script-src": digest(page.scripts[0]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    for content in (*page.styles, *page.scripts):
        assert not re.search(r"https?:|//\w|url\(|@import|fetch|XMLHttp|innerHTML|eval", content)


def test_html_shows_every_array_with_a_finding(zkit, stores):
    page = Page(audit(zkit, stores, "html"))
    shown = "".join(page.shown)
    for finding in findings(zkit, stores):
        array = clean(finding["array"] or "")
        assert array in shown or len(array) > 150, array
        assert finding["rule"] in shown


def commands(log):
    """The workflow commands of a log, read as the runner reads them (actions/runner, ActionCommand.TryParseV2)."""
    found = []
    for line in log.splitlines():
        line = line.strip()
        if line.startswith("::") and (end := line.find("::", 2)) > 0:
            name, _, properties = line[2:end].partition(" ")
            pairs = dict(part.split("=", 1) for part in properties.split(",") if part)
            found.append((name, pairs, line[end + 2 :]))
        else:
            assert not re.match(r"##\[", line), line
    return found


def test_annotations_are_the_findings_and_never_too_many(zkit, stores):
    log = audit(zkit, stores, "github")
    found = commands(log)
    names = {"error": "error", "warning": "warning", "info": "notice"}
    for severity, name in names.items():
        annotations = [command for command in found if command[0] == name]
        expected = [finding for finding in findings(zkit, stores) if finding["severity"] == severity]
        assert len(annotations) <= 10
        if len(expected) <= 10:
            assert len(annotations) == len(expected)
        else:
            assert annotations
    assert {name for name, *_ in found} <= set(names.values())
    assert all(set(properties) == {"title"} for _, properties, _ in found)
    assert log.splitlines()[-1].startswith("zkit audit: ")


def without_moment(text):
    """Takes out when a run began: the page says it."""
    return re.sub(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", "", text)


def test_one_run_writes_several_reports(zkit, stores, tmp_path):
    targets = {form: tmp_path / f"report.{form}" for form in ("html", "sarif", "junit", "json", "text", "github")}
    options = [f"--report={form}={path}" for form, path in targets.items()]
    audit(zkit, stores, "text", *options)
    for form, path in targets.items():
        # what a file holds is what stdout would
        assert without_moment(path.read_text()) == without_moment(audit(zkit, stores, form)), form
    assert sorted(tmp_path.iterdir()) == sorted(targets.values())


def test_reports_that_cannot_be_written_stop_the_run_before_it_starts(zkit, tmp_path):
    outcome = zkit("audit", FIXTURES / "bcsd_climate.zarr", "--report", f"html={tmp_path / 'missing' / 'a.html'}")
    assert outcome.code == 3 and outcome.stdout == b""
    outcome = zkit("audit", FIXTURES / "bcsd_climate.zarr", "--report", f"pdf={tmp_path / 'a.pdf'}")
    assert outcome.code == 2 and "there is no format `pdf`" in outcome.err


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github", "html"])
def test_hostile_stores_are_reported_within_the_limits(zkit, hostile_store, form):
    outcome = zkit("audit", hostile_store, "--depth", "full", "--format", form)
    assert outcome.code in (0, 1, 3), outcome.err
    assert outcome.seconds < SECONDS_LIMIT and outcome.peak_mb < MEMORY_LIMIT_MB
