"""The examples of docs/library.md, run as they stand there, in a process that can reach neither server."""

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "library.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

# Each statement that is followed by a comment must give what the comment says.
RUN = """
import ast, contextlib, io, sys
for driver in ("asyncpg", "nats", "socket", "mainspring.engine", "mainspring.changelog_tailer"):
    sys.modules[driver] = None
source = sys.stdin.read()
lines, names = source.splitlines(), {}
checked = 0
for statement in ast.parse(source).body:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "docs", "eval"), names)
        else:
            value = exec(compile(ast.Module([statement], []), "docs", "exec"), names)
    told = lines[statement.end_lineno] if statement.end_lineno < len(lines) else ""
    if told.startswith("# ["):
        assert repr(value) == told[2:], (repr(value), told)
        checked += 1
    elif told.startswith("# ") and isinstance(statement, ast.Try):
        assert printed.getvalue().strip() == told[2:], (printed.getvalue(), told)
        checked += 1
print(checked)
"""


def test_the_examples_give_what_they_say_without_any_server() -> None:
    source = "\n".join(BLOCK.findall(DOCUMENT.read_text()))
    ended = subprocess.run(
        [sys.executable, "-P", "-c", RUN], input=source, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip() == "3"
