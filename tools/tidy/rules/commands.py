"""A command in a fenced block of README.md or docs/ exists: `./dev NAME` is tools/dev/NAME.sh, `peri NAME` is
src/cli/NAME.cpp."""
import re

DEV = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*\./dev\s+([a-z][a-z-]*)")
PERI = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*bin/)?peri\s+([a-z][a-z-]*)\b(?!=)")


def fenced(text):
    """[(line, text)] inside fences of shell blocks (no language, sh, bash, console)."""
    inside = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            language = line.strip().strip("`")
            inside = None if inside is not None else language in ("", "sh", "bash", "console", "shell")
        elif inside:
            yield number, line


def check(tree):
    for name in tree.under("README.md", "docs/", "models/README.md", "benchmarks/", ends=(".md",)):
        for line, text in fenced(tree.text(name)):
            if (m := DEV.match(text)) and f"tools/dev/{m[1]}.sh" not in tree.files:
                yield name, line, f"./dev has no '{m[1]}'"
            if (m := PERI.match(text)) and f"src/cli/{m[1].replace('-', '_')}.cpp" not in tree.files:
                yield name, line, f"peri has no '{m[1]}'"


PLANTS = [
    ({"docs/x.md": "```sh\n./dev tset\n```\n"}, "docs/x.md"),
    ({"docs/x.md": "```\n$ build/bin/peri rnu model.onnx\n```\n"}, "docs/x.md"),
]
