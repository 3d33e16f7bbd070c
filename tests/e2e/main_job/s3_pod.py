"""A pod with an S3 server that is none of ours (moto's), which checks the signature of each request."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obstore.store import S3Store

from cluster import images, serving
from tests.e2e.main_job.kube import ROOT, Kube, Manifest

PORT = 5000
BUCKET = "models"
LABELS = {"app": "s3"}
MAY_READ = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
_READ = re.compile(rf'"GET (/{BUCKET}/\S+) HTTP/1.1" 200')


@dataclass(frozen=True)
class Keys:
    """One access key of a user of the server."""

    identifier: str
    secret: str

    @property
    def variables(self) -> dict[str, str]:
        """As AWS's tools name them."""
        return {"AWS_ACCESS_KEY_ID": self.identifier, "AWS_SECRET_ACCESS_KEY": self.secret}


@dataclass(frozen=True)
class S3Pod:
    """The pod `s3` and its Service, with one bucket."""

    kube: Kube
    namespace: str

    def start(self, packages: Path) -> None:
        """Runs the server; `packages` is a folder of this host, which is the node, with its Python packages."""
        self.kube.apply(_service(self.namespace))
        self.kube.apply(_pod(self.namespace, packages))
        self.kube("-n", self.namespace, "wait", "--for=condition=Ready", "pod/s3", "--timeout=120s")

    def fill(self, objects: Mapping[str, bytes]) -> Keys:
        """Makes the bucket, with `objects`, and a user that may read it. From then on nobody else may."""
        with self.kube.forward(self.namespace, "pod/s3", PORT) as (port,):
            address = f"http://127.0.0.1:{port}"
            _ask(f"{address}/{BUCKET}", method="PUT")
            store = S3Store(
                BUCKET, endpoint=address, region="us-east-1", access_key_id="anybody", secret_access_key="anything",
                client_options={"allow_http": True},
            )  # fmt: skip
            for name, content in objects.items():
                store.put(name, content)
            keys = _reader(address)
            _ask(f"{address}/moto-api/reset-auth", b"0")  # requests that still go unchecked
        return keys

    def source(self, **more: Any) -> dict[str, Any]:
        """`spec.model.source` of the model below `llama/`."""
        endpoint = f"http://s3.{self.namespace}.svc:{PORT}"
        return {"s3": {"bucket": BUCKET, "prefix": "llama", "endpoint": endpoint, **more}}

    def reads(self) -> list[str]:
        """Objects that the server has sent, in order, by its own log."""
        return _READ.findall(self.kube("-n", self.namespace, "logs", "s3"))


def install(folder: Path) -> None:
    """Installs the server's packages into `folder`, which it makes, for the Python of the pod's image."""
    command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    command += ["--python", sys.executable, "--python-version", serving.PYTHON_VERSION]
    subprocess.run([*command, "-r", str(ROOT / "requirements" / "s3.txt")], check=True, timeout=300)


def _reader(address: str) -> Keys:
    """A user that may read every bucket, by the calls of AWS's IAM."""
    policy = json.dumps({"Version": "2012-10-17", "Statement": MAY_READ})
    _iam(address, Action="CreateUser", UserName="reader")
    _iam(address, Action="PutUserPolicy", UserName="reader", PolicyName="read", PolicyDocument=policy)
    said = _iam(address, Action="CreateAccessKey", UserName="reader")
    found = [re.search(f"<{name}>(.+)</{name}>", said) for name in ("AccessKeyId", "SecretAccessKey")]
    identifier, secret = [one[1] for one in found if one]
    return Keys(identifier, secret)


def _iam(address: str, **fields: str) -> str:
    """The server tells AWS's services apart by whom a request is signed for."""
    scope = "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0"
    content = urllib.parse.urlencode({"Version": "2010-05-08", **fields}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": scope}
    return _ask(f"{address}/", content, form)


def _ask(url: str, content: bytes | None = None, headers: Mapping[str, str] | None = None, method: str = "POST") -> str:
    said = {"Content-Type": "text/plain", **(headers or {})}
    request = urllib.request.Request(url, content, said, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        text: bytes = answer.read()
    return text.decode()


def _service(namespace: str) -> Manifest:
    spec = {"selector": LABELS, "ports": [{"port": PORT, "targetPort": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s3", "namespace": namespace}, "spec": spec}


def _pod(namespace: str, packages: Path) -> Manifest:
    """Of the operator's image only Python is used."""
    container = {
        "name": "s3",
        "image": images.IMAGES["operator"].tag,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "moto.server", "-H", "0.0.0.0", "-p", str(PORT)],
        "env": [
            {"name": "PYTHONPATH", "value": "/packages"},
            {"name": "S3_IGNORE_SUBDOMAIN_BUCKETNAME", "value": "true"},  # `s3.namespace.svc` names no bucket
        ],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "packages", "mountPath": "/packages", "readOnly": True}],
    }
    volumes = [{"name": "packages", "hostPath": {"path": str(packages), "type": "Directory"}}]
    metadata = {"name": "s3", "namespace": namespace, "labels": LABELS}
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
