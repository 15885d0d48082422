"""Where the tests find what lies beside the checkout."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("ORX_SHARED") or ROOT.parent / "shared")
"""Real captures, field reports and the facts of the wire. Not part of the repository: a clone may stand alone."""


def shared(path: str) -> Path:
    """Find a file or folder below SHARED, or skip the test that asks for it."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"expected {path} in {SHARED} (or in ORX_SHARED), found none", allow_module_level=True)
    return found


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, and not again and again at all that there is by then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
