"""The real streams of real servers in SHARED/captures, by the names that its manifest gives them.

    @pytest.mark.parametrize("name", capture_names())
    def test_every_capture_decodes(name: str) -> None:
        body = read_capture(name)

Where the captures are absent there are no names, and pytest shows such a test once, as skipped.
"""

from __future__ import annotations

from tests.conftest import SHARED, shared


def capture_names() -> list[str]:
    """Name every capture, such as `openai/text.sse`; none where the captures are absent."""
    manifest = SHARED / "captures" / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = manifest.read_text(encoding="utf-8").splitlines()
    return [row.partition("\t")[0] for row in rows[1:] if row]


def read_capture(name: str) -> bytes:
    """Read the body of one stream, byte for byte."""
    return shared(f"captures/{name}").read_bytes()
