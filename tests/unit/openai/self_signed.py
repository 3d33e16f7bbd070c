"""A certificate for 127.0.0.1 that signs itself, as a Secret of type kubernetes.io/tls has it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def write_certificate(folder: Path, name: str) -> str:
    """Writes `tls.crt` and `tls.key` of a new key into `folder`; returns the certificate, for those who trust it."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt"), "-days", "2"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "tls.crt").read_text()
