"""Credentials that are missing, wrong, late or not asked for: what is said, how soon, and that no secret is in it."""

import pytest

import bucket
import canaries
from conftest import FIXTURES, MANIFEST
from faultproxy import FaultProxy

STORE = "ostia_sst.zarr"


@pytest.fixture(scope="module")
def server():
    with bucket.served() as port:
        objects = bucket.Bucket(port)
        objects.upload(FIXTURES / STORE, f"a/{STORE}")
        for key in objects.keys():
            objects.client.put_object_acl(Bucket=bucket.NAME, Key=key, ACL="public-read")
        yield port


@pytest.fixture
def proxy(server):
    with FaultProxy(server) as running:
        yield running


@pytest.fixture
def s3(zkit, proxy):
    def run(*arguments, **variables):
        return zkit(*arguments, **{**bucket.environment(proxy.port), **variables})

    return run


REFUSALS = {
    "expired": (400, b"<Error><Code>ExpiredToken</Code></Error>", "have expired"),
    "skewed": (403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>", "set the clock"),
    "region": (
        400,
        b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>",
        "--storage-option region=eu-central-1",
    ),
    "redirected": (301, b"<Error><Code>PermanentRedirect</Code></Error>", "another region"),
    "denied": (403, b"<Error><Code>AccessDenied</Code></Error>", "--anonymous"),
    "payer": (403, b"<Error><Code>AccessDenied</Code></Error>", "request_payer=true"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("command", ["inspect", "digest"])
def test_a_refusal_is_an_error_that_says_what_to_do(s3, proxy, refusal, command):
    status, body, hint = REFUSALS[refusal]
    proxy.reset({"status": status, "body": body})
    outcome = s3(command, bucket.url(f"a/{STORE}"))
    assert outcome.code == 3 and "hint:" in outcome.err and hint in outcome.err, outcome.err
    assert outcome.seconds < 15


@pytest.mark.parametrize("command", ["inspect", "digest", "audit"])
def test_a_bucket_elsewhere_is_named_by_the_header_alone(s3, proxy, command):
    # answers to HEAD have no body, and Amazon's redirect names no region in it
    elsewhere = {"status": 301, "body": b"", "headers": [("x-amz-bucket-region", "eu-west-3")]}
    proxy.reset(elsewhere)
    outcome = s3(command, bucket.url(f"a/{STORE}"))
    assert outcome.code == 3 and "--storage-option region=eu-west-3" in outcome.err, outcome.err
    assert "no object is there" not in outcome.err and outcome.seconds < 15


@pytest.mark.parametrize("command", ["inspect", "digest", "audit"])
def test_a_bucket_that_does_not_exist_is_not_an_absent_store(s3, command):
    outcome = s3(command, f"s3://no-such-bucket/a/{STORE}")
    assert outcome.code == 3 and "name of the bucket" in outcome.err, outcome.err
    assert "no object is there" not in outcome.err


def test_a_bucket_that_vanishes_makes_no_fill_values(s3, proxy):
    proxy.reset({"path": "analysed_sst/0", "status": 404, "body": b"<Error><Code>NoSuchBucket</Code></Error>"})
    outcome = s3("digest", bucket.url(f"a/{STORE}"), "--format", "json")
    assert outcome.code == 3, outcome.err
    arrays = {array["path"]: array for array in outcome.json()["arrays"]}
    assert arrays["/analysed_sst"]["sha256"] is None and "NoSuchBucket" in arrays["/analysed_sst"]["error"]


def test_a_public_bucket_is_read_without_credentials(s3, proxy):
    without = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
    outcome = s3("digest", bucket.url(f"a/{STORE}"), "--anonymous", "--format", "json", **without)
    assert outcome.code == 0, outcome.err
    found = {array["path"]: array["sha256"] for array in outcome.json()["arrays"]}
    assert found == {path: array["sha256"] for path, array in MANIFEST[STORE]["arrays"].items()}
    assert not any(name.lower() == "authorization" for headers in proxy.headers for name in headers)


def test_who_reads_may_offer_to_pay(s3, proxy):
    offer = ("--storage-option", "request_payer=true")
    assert s3("inspect", bucket.url(f"a/{STORE}"), *offer).code == 0
    assert all(headers.get("x-amz-request-payer") == "requester" for headers in proxy.headers)


MISSING = {
    "s3": (f"s3://{bucket.NAME}/a", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]),
    "gs": (f"gs://{bucket.NAME}/a", ["GOOGLE_SERVICE_ACCOUNT_KEY"]),
    "az": (f"az://{bucket.NAME}/a", ["AZURE_STORAGE_ACCOUNT_KEY"]),
}


@pytest.mark.parametrize("cloud", MISSING)
def test_missing_credentials_are_named_soon(zkit, cloud):
    url, names = MISSING[cloud]
    outcome = zkit("inspect", url, timeout=60, **dict.fromkeys(names))
    assert outcome.code in (2, 3) and "--anonymous" in outcome.err, outcome.err
    assert outcome.seconds < 20


SAS = "sv=2021-08-06&sp=r&sig=" + canaries.AZURE_SAS_SIGNATURE


@pytest.mark.parametrize(
    "url, variables",
    [
        (f"http://me:{canaries.HTTP_PASSWORD}@127.0.0.1:9/a.zarr", {}),
        (f"https://127.0.0.1:9/a.zarr?sig={canaries.AZURE_SAS_SIGNATURE}", {}),
        ("az://c/a.zarr", {"AZURE_STORAGE_SAS_TOKEN": SAS, "AZURE_STORAGE_ACCOUNT_KEY": None,
                           "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:9"}),
        ("gs://c/a.zarr", {}),
        ("s3://c/a.zarr", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}),
    ],
    ids=["password", "signature", "sas", "account", "keys"],
)  # fmt: skip
@pytest.mark.parametrize("command", [["inspect"], ["recompress", "--dry-run", "--format", "json"]])
def test_no_secret_is_told_however_much_is_logged(zkit, tmp_path, url, variables, command):
    destination = [tmp_path / "copy.zarr"] if command[0] == "recompress" else []
    # each run is searched for canaries by the one who runs it
    outcome = zkit(command[0], url, *destination, *command[1:], "-vvv", "--timeout", "1s", **variables)
    assert outcome.code in (2, 3) and outcome.err


UNREADABLE = [
    f"http://user:PA/{canaries.HTTP_PASSWORD}@127.0.0.1:x/a",
    f"http://user:{canaries.HTTP_PASSWORD}@[::1/a",
    f"http://user:{canaries.HTTP_PASSWORD}@h:port/a",
    f"https://h:x/a?sig={canaries.AZURE_SAS_SIGNATURE}",
    f"ftp://user:{canaries.HTTP_PASSWORD}@h/a",
    f"file://user:{canaries.HTTP_PASSWORD}@h/a",
    f"s3://key:{canaries.AWS_SECRET}@/a",
]
COMMANDS = ["inspect", "audit", "digest", "compare", "recompress", "slice", "partials list", "cache list"]


@pytest.mark.parametrize("url", UNREADABLE)
@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_that_make_no_sense_are_quoted_without_secrets(zkit, tmp_path, url, command):
    # each run is searched for canaries by the one who runs it
    lines = [[url], ["a", "--allow-prefix", url], ["a", f"--memory={url}"], ["a", "--to", url], ["a", "b", "--x", url]]
    for line in lines:
        outcome = zkit(*command.split(), *line, cwd=tmp_path)
        assert outcome.code in (2, 3) or command == "cache list", outcome.err


@pytest.mark.parametrize("command", COMMANDS)
def test_storage_options_that_make_no_sense_are_not_quoted(zkit, tmp_path, command):
    for value in (f"secret_access_key {canaries.AWS_SECRET}", f"={canaries.AWS_SECRET}", canaries.AWS_SECRET):
        for option in (["--storage-option", value], [f"--storage-option={value}"]):
            assert zkit(*command.split(), "a", *option, cwd=tmp_path).code == 2
    secret = f"aws_secret_access_key={canaries.AWS_SECRET}"
    assert zkit(*command.split(), "a", "b", "c", "--x", secret, cwd=tmp_path).code == 2
