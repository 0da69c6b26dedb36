"""The files of the project as the rules see them: text, code without comments and strings, includes, functions."""
import functools
import pathlib
import re
import subprocess

TOKENS = re.compile(
    r'(?P<raw>R"(?P<mark>[^()\s\\]{0,16})\((?:.|\n)*?\)(?P=mark)")'
    r"|(?P<comment>//[^\n]*(?:\\\n[^\n]*)*|/\*(?:.|\n)*?\*/)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')"
)
SKIPPED = re.compile(r"^(build[^/]*|\.venv|\.git|\.cache)(/|$)|(^|/)__pycache__/")
TEXT_ENDS = (".cpp", ".hpp", ".h", ".c", ".cu", ".fbs", ".def", ".py", ".sh", ".cmake", ".txt", ".md", ".json", ".yml", ".in", ".apt")


def blank(text):
    return re.sub(r"[^\n]", " ", text)


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = self._list()

    def _list(self):
        """Tracked files and new ones that git does not ignore; without git, everything but build folders."""
        if (self.root / ".git").exists():
            command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        else:
            names = [str(p.relative_to(self.root)) for p in self.root.rglob("*")]
        return sorted(n for n in set(names) if n and not SKIPPED.search(n) and (self.root / n).is_file())

    def under(self, *folders, ends=("",)):
        return [f for f in self.files if f.startswith(folders) and f.endswith(tuple(ends))]

    def cpp(self, *folders):
        return self.under(*(folders or ("src/", "tests/", "include/", "examples/")), ends=(".cpp", ".hpp", ".h", ".c", ".cu"))

    def is_text(self, name):
        return name.endswith(TEXT_ENDS) or "." not in pathlib.PurePath(name).name

    @functools.cache
    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def code(self, name, strings=False):
        """The text with comments (and strings, unless asked for) blanked; line numbers stay."""

        def replace(match):
            if match["comment"]:
                return blank(match[0])
            return match[0] if strings else match[0][0] + blank(match[0][1:-1]) + match[0][-1]

        return TOKENS.sub(replace, self.text(name))

    @functools.cache
    def comments(self, name):
        """The text with everything but comments blanked; offsets stay."""
        text = self.text(name)
        out, end = [], 0
        for match in TOKENS.finditer(text):
            if match["comment"]:
                out += [blank(text[end : match.start()]), match[0]]
                end = match.end()
        return "".join(out) + blank(text[end:])

    def includes(self, name):
        """[(line, "<" or '"', header)]"""
        pattern = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]')
        lines = enumerate(self.code(name, strings=True).split("\n"), 1)
        return [(n, m[1], m[2]) for n, line in lines if (m := pattern.match(line))]

    def matches(self, name, pattern, text=None):
        """[(line, match)] of a compiled pattern in the code (or in the given text)."""
        text = self.code(name) if text is None else text
        return [(text.count("\n", 0, m.start()) + 1, m) for m in pattern.finditer(text)]

    @functools.cache
    def layers(self):
        """module → level"""
        rows = [line.split() for line in self.text("LAYERS").splitlines() if line[:1].isdigit()]
        return {module: int(level) for level, module in rows}

    def module(self, path):
        """The module of a path below src/ (written without src/), or None."""
        for module in sorted(self.layers(), key=len, reverse=True):
            if path.startswith(module + "/"):
                return module
        return None

    def functions(self, name):
        """[(line, lines)] of C++ function bodies, found by braces: a body follows `)` and is not inside another one."""
        code = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: blank(m[0]), self.code(name))
        code = re.sub(r"(?m)^[A-Z][A-Z0-9_]*\([^\n]*\)[ \t]*$", lambda m: blank(m[0]), code)  # macro calls without ;
        found, stack, head_start, parens = [], [], 0, 0
        for at, char in enumerate(code):
            if char in "()":
                parens += 1 if char == "(" else -1
            elif char == "{":
                head = code[head_start:at]
                kind = "other"
                if not any(kind == "function" for kind, _ in stack):
                    kind = _kind_of(head)
                first = head_start + len(head) - len(head.lstrip())
                stack.append((kind, code.count("\n", 0, first) + 1))
                head_start = head_start if kind == "member" else at + 1
            elif char == "}":
                kind, line = stack.pop() if stack else ("other", 0)
                if kind == "function":
                    found.append((line, code.count("\n", 0, at) + 2 - line))
                head_start = head_start if kind == "member" else at + 1
            elif char == ";" and parens <= 0:
                head_start = at + 1
        return found


def _kind_of(head):
    """What a brace after `head` opens: a function's body, a member's initialiser in a constructor, or something else."""
    if re.search(r"^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum)\b[^()]*$", head, re.S):
        return "other"
    if re.search(r"\)\s*(?:noexcept\s*)?:[^:].*[\w>]\s*$", head, re.S) and not re.search(r"\b(?:noexcept|override|const)\s*$", head):
        return "member"
    return "function" if ")" in head and not re.search(r"=\s*$", head) else "other"
