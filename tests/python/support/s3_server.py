"""An S3 server on loopback for the tests: moto behind cheroot, which keeps connections alive where moto's own does not.

python s3_server.py PORT BUCKET...      (port 0 takes a free one; the port is printed once it listens)
"""

import sys

from cheroot.wsgi import Server
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.test import EnvironBuilder, run_wsgi_app

SIGNED = "AWS4-HMAC-SHA256 Credential=t/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


def make_buckets(application, buckets):
    for bucket in buckets:
        request = EnvironBuilder(
            path=f"/{bucket}", method="PUT", base_url="http://127.0.0.1", headers={"Authorization": SIGNED}
        )
        run_wsgi_app(application, request.get_environ())


def serve(application, port):
    """Serves until the process is ended; prints the port once it listens."""
    server = Server(("127.0.0.1", port), application, numthreads=16)
    server.prepare()
    print(server.bind_addr[1], flush=True)
    try:
        server.serve()
    except KeyboardInterrupt:
        server.stop()


def main(port, *buckets):
    application = DomainDispatcherApplication(create_backend_app)
    make_buckets(application, buckets)
    serve(application, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
