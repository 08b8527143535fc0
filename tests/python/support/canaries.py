"""Secrets of the kinds that zkit is given. Each is used by tests, and none may be seen in anything that it writes."""

import base64
import itertools
import json
import urllib.parse

AWS_SECRET = "canary/aws+secret/of+the+tests"
AWS_SESSION_TOKEN = "canary//aws+session+token=="
AZURE_KEY = base64.b64encode(b"canary: the key of a storage account in the tests of zkit").decode()
AZURE_SAS_SIGNATURE = "canary+sas/signature="
GOOGLE_PRIVATE_KEY = "canary-google-private-key"
HTTP_PASSWORD = "canary-http-password"

ALL = (AWS_SECRET, AWS_SESSION_TOKEN, AZURE_KEY, AZURE_SAS_SIGNATURE, GOOGLE_PRIVATE_KEY, HTTP_PASSWORD)

# What every run is given, though few need it: accounts that do not exist.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "t",
    "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
    "AWS_SESSION_TOKEN": AWS_SESSION_TOKEN,
    "AZURE_STORAGE_ACCOUNT_NAME": "zkit",
    "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
    "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(
        {
            "gcs_base_url": "http://127.0.0.1:9",
            "disable_oauth": True,
            "client_email": "zkit@example.invalid",
            "private_key": GOOGLE_PRIVATE_KEY,
            "private_key_id": "1",
        }
    ),
}


def _spellings(secret):
    """A secret as it is, in a URL, and as the beginning of it would be in base64."""
    quoted = urllib.parse.quote(secret, safe="")
    in_base64 = base64.b64encode(secret.encode())[: len(secret)]
    return {secret.encode(), quoted.encode(), urllib.parse.quote_plus(secret).encode(), in_base64}


SPELLINGS = sorted({spelling for secret in ALL for spelling in _spellings(secret)})


def found_in(data):
    """The canaries that bytes hold, however they are spelled."""
    return [spelling.decode() for spelling in SPELLINGS if spelling in data]


# larger files, objects and bodies hold numbers
SEARCHED_BYTES = 1 << 20
# Where the end of the tests looks: what is found elsewhere is put there.
FOLDER = None
_numbers = itertools.count()


def search(data, where):
    """Looks for secrets in what zkit wrote, and keeps it for the end of the tests if there are any."""
    if data and len(data) <= SEARCHED_BYTES and found_in(data) and FOLDER:
        name = "".join(c if c.isalnum() else "-" for c in where)[-100:]
        (FOLDER / f"{next(_numbers)}-{name}").write_bytes(data)
