"""An S3 server for a test, and what lies in its bucket: seen through boto3, which shares no code with zkit."""

import contextlib
import pathlib
import re
import subprocess
import sys

import canaries

NAME, SECRET = "weather", canaries.AWS_SECRET
CHUNK = re.compile(r"/(c/)?\d+([./]\d+)*$")


@contextlib.contextmanager
def served():
    """The port of a server with one empty bucket, for as long as the block runs."""
    script = pathlib.Path(__file__).with_name("s3_server.py")
    process = subprocess.Popen(
        [sys.executable, script, "0", NAME], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = int(process.stdout.readline())
        yield port
        search(Bucket(port))
    finally:
        process.terminate()
        process.wait()


def environment(port):
    """The variables that the AWS tools read."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "t",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def search(place):
    """Looks for secrets in all that a server holds, locks and journals too, but in chunks: numbers that take minutes."""
    for key in place.keys():
        if "journal" in key or not CHUNK.search(key):
            canaries.search(place.read(key), key)


def url(key):
    return f"s3://{NAME}/{key}"


class Objects:
    """What holds objects by key: folders of them, by what reads and writes one."""

    def upload(self, folder, prefix):
        for file in (p for p in pathlib.Path(folder).rglob("*") if p.is_file()):
            self.write(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def download(self, prefix, folder):
        """The folder, with every object below the prefix."""
        for key in self.keys(prefix + "/"):
            file = pathlib.Path(folder) / key.removeprefix(prefix + "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.read(key))
        return pathlib.Path(folder)


class Bucket(Objects):
    """The bucket, past every proxy."""

    def __init__(self, port):
        import boto3
        from botocore.config import Config

        self.client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id="t",
            aws_secret_access_key=SECRET,
            config=Config(proxies={}),
        )

    def keys(self, prefix=""):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=NAME, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def uploads(self, prefix=""):
        """Keys of objects in parts that were begun and neither completed nor given up."""
        found = self.client.list_multipart_uploads(Bucket=NAME).get("Uploads", [])
        return [upload["Key"] for upload in found if upload["Key"].startswith(prefix)]

    def read(self, key):
        return self.client.get_object(Bucket=NAME, Key=key)["Body"].read()

    def write(self, key, body):
        self.client.put_object(Bucket=NAME, Key=key, Body=body)

    def remove(self, *keys):
        for key in keys:
            self.client.delete_object(Bucket=NAME, Key=key)
