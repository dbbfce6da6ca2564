"""Reading our own documentation: its code blocks and links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(
    r"^(?:<!-- (\S+) -->\n)?```(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment right above it, and the code."""

    path: Path
    line: int
    language: str
    mark: str
    code: str

    def compile(self):
        """Compile with the line numbers of the page, so that errors point into it."""
        return compile("\n" * self.line + self.code, str(self.path), "exec")


def pages():
    """The pages that people read."""
    readme = [ROOT / "README.md"] if (ROOT / "README.md").exists() else []
    return [*readme, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path):
    """All fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(path, text.count("\n", 0, m.start(3)), m[2], m[1] or "", m[3])
        for m in _FENCE.finditer(text)
    ]


def run_blocks(path, namespace, first=0, last=None):
    """Run the blocks marked as runnable, one after the other, in one namespace."""
    chosen = [b for b in blocks(path) if b.language == "python" and b.mark == "runnable"]
    for block in chosen[first:last]:
        exec(block.compile(), namespace)
    return namespace
