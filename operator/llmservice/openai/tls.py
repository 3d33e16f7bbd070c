"""TLS from `tls.crt` and `tls.key` in a folder, as a Secret of type kubernetes.io/tls has them."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

log = logging.getLogger(__name__)


class Certificate:
    """The certificate in `folder`; `context` takes a renewed one for every connection that begins after it came."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError and ssl.SSLError where there is no certificate with its key."""
        self._files = (folder / "tls.crt", folder / "tls.key")
        self._read = self._contents()
        self.context = _context(self._files)

    def reload(self) -> bool:
        """Takes a renewed certificate; whether there was one. A broken one leaves the old in its place."""
        try:
            read = self._contents()
            if read == self._read:
                return False
            _context(self._files)  # both files are whole and fit each other, before anything is replaced
            self.context.load_cert_chain(*self._files)
        except OSError as error:  # which ssl.SSLError is, too
            log.warning("renewed certificate in %s: %s; the old one stays", self._files[0].parent, error)
            return False
        self._read = read
        return True

    def _contents(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)


def _context(files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(*files)
    return context
