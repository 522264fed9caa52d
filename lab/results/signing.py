"""Signatures of bundles: Ed25519 (RFC 8032), with a key that is made on first use and never leaves this computer.

A signature tells that a bundle is as one key signed it. Whose key that is tells its fingerprint, compared by people.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import ResultError
from lab.results.atomic import storage_error, sync_folder, write_all

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_NAME = "signing-key.pem"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Signer:
    """This computer's key."""

    _key: Ed25519PrivateKey

    @property
    def public_key(self) -> str:
        """32 bytes in hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> bytes:
        """64 bytes; the same for the same data."""
        return self._key.sign(data)


def fingerprint(public_key: str) -> str:
    """Four groups of four digits, for people to compare."""
    digits = hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:16]
    return "-".join(digits[place : place + 4] for place in range(0, 16, 4))


def load_signer(path: Path) -> Signer:
    """The key in ``path``, made if there is none, readable by its owner only.

    Raises ResultError for a key that others may read, that is damaged, or that cannot be written.
    """
    try:
        if not path.exists():
            _make_key(path)
        if path.stat().st_mode & _OTHERS:
            raise ResultError(f"others may read the key '{path}'", hint=f"chmod 600 {path}, or delete it for a new one")
        data = path.read_bytes()
    except OSError as error:
        raise storage_error(f"the key '{path}' cannot be used", error) from error
    return Signer(_private_key(data, path))


def is_signed(public_key: str, signature: bytes, data: bytes) -> bool:
    """Whether ``signature`` is the key's over ``data``; False also for what is no key or no signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _make_key(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
        # A link is made only where nothing is: of two that begin at the same time, one key stays.
        os.link(part, path)
        sync_folder(path.parent)
    except FileExistsError:
        pass
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)


def _private_key(data: bytes, path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ResultError(f"'{path}' holds no key of raidlab", hint="delete it: a new one is made on the next export")
    return key
