"""An identifier named in a comment stands in the code that its file sees (`name`, name()) or where its scope does (Type::name);
one named in a document stands anywhere."""
import pathlib
import re

WORD = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r"`([^`\n]+)`")
SCOPED = re.compile(r"(?<![\w.:/-])((?:[A-Za-z_]\w*::)+~?[A-Za-z_]\w*)(?:\(\))?")
CALL = re.compile(r"(?<![\w.:/-])([A-Za-z_]\w*\(\))")
PLAIN = re.compile(r"(?:[A-Za-z_]\w*(?:::|\.|->))*[A-Za-z_]\w*(?:\(\))?")
FOREIGN = ("std", "testing", "dnnl")  # namespaces of others
ENDS = ("a", "bin", "cpp", "engine", "fbs", "hpp", "json", "jsonl", "md", "npy", "pb", "proof", "py", "sh", "so", "txt")  # of files
CODE = (".cpp", ".hpp", ".h", ".c", ".cu", ".def", ".fbs")
OTHER = (".py", ".sh", ".cmake", ".json", ".txt", ".in")


def named(text):
    """(offset, name) of every identifier that the text names as one."""
    for pattern in (QUOTED, SCOPED, CALL):
        for match in pattern.finditer(text):
            words = WORD.findall(match[1])
            if PLAIN.fullmatch(match[1]) and words[0] not in FOREIGN and words[-1] not in ENDS:
                yield match.start(), match[1]


class Words:
    """Which words stand in which file; strings count: names of flags and members of files stand there. A file's stem is
    known everywhere: an op, a kernel, a pass, a command."""

    def __init__(self, tree):
        self.tree = tree
        self.of = {name: set(WORD.findall(tree.code(name, strings=True))) for name in tree.files if name.endswith(CODE)}
        self.all = set().union(*self.of.values())
        self.stems = {pathlib.PurePosixPath(name).stem for name in tree.files}
        for name in tree.under("tools/requirements", ends=(".txt",)):  # packages
            self.stems.update(WORD.findall(tree.text(name)))
        for name in tree.files:
            self.all.update(WORD.findall(name))
            if name.endswith(OTHER) and (tree.root / name).stat().st_size < 2**20:
                self.all.update(WORD.findall(tree.text(name)))
        self.seen_by = {}

    def visible(self, name):
        """The words of a file, of what it includes, of its folder's files of the same stem, and of those' includes."""
        if name not in self.seen_by:
            stem = str(pathlib.PurePosixPath(name).with_suffix(""))
            work, files = [name] + [f for f in self.of if str(pathlib.PurePosixPath(f).with_suffix("")) == stem], set()
            while work:
                file = work.pop()
                if file in files or file not in self.of:
                    continue
                files.add(file)
                for _, _, header in self.tree.includes(file):
                    work += [prefix + header for prefix in ("src/", "include/", "")]
            self.seen_by[name] = set().union(*(self.of[f] for f in files))
        return self.seen_by[name]

    def missing(self, name, identifier):
        words = WORD.findall(identifier)
        if len(words) > 1:  # a scope and what is in it: together in one file
            holders = [w for w in self.of.values() if words[-1] in w and words[-2] in w]
            return None if holders else identifier
        known = self.visible(name) if name in self.of else self.all
        return None if words[0] in known or words[0] in self.stems or words[0][0] == "_" or words[0][-1] == "_" else words[0]


def check(tree):
    words = Words(tree)
    for name in tree.cpp() + tree.under("docs/", "README.md", "AGENTS.md", ends=(".md",)):
        if name == "docs/operators.md":  # names of ONNX, of operators that are not here too
            continue
        text = tree.text(name) if name.endswith(".md") else tree.comments(name)
        found = {}
        for at, identifier in named(text):
            if words.missing(name, identifier):
                found.setdefault((text.count("\n", 0, at) + 1, words.missing(name, identifier)), None)
        for line, what in found:
            yield name, line, f"'{what}' is named here and stands nowhere in the code" + (" that this file sees" if name in words.of else "")


PLANTS = [
    ({"src/ir/x.cpp": "// Calls gone_by() first.\n"}, "src/ir/x.cpp"),
    ({"src/ir/x.cpp": "/* See Thing::gone. */\nstruct Thing {};\n"}, "src/ir/x.cpp"),
    ({"src/ir/x.cpp": "// `gone` is not null.\nint x();\n", "src/ir/y.cpp": "// Y.\nint gone;\n"}, "src/ir/x.cpp"),
    ({"docs/x.md": "`gone_by()` does it.\n"}, "docs/x.md"),
]
