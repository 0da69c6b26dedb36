"""A source has at most 400 lines, or stands in tools/tidy/long_files.txt with a reason (at most 800); no file but
those of models/ is larger than 1 MiB."""
LIST = "tools/tidy/long_files.txt"
ENDS = (".cpp", ".hpp", ".h", ".c", ".cu", ".py", ".sh", ".cmake", ".fbs")


def allowed(tree):
    """file → (line, limit); rows are `limit path reason`."""
    rows = {}
    for number, line in enumerate(tree.text(LIST).splitlines() if LIST in tree.files else [], 1):
        if line and not line.startswith("#"):
            limit, path, _reason = line.split(None, 2)
            rows[path] = (number, int(limit))
    return rows


def check(tree):
    rows = allowed(tree)
    lengths = {f: tree.text(f).count("\n") for f in tree.files if f.endswith(ENDS)}
    for name, length in lengths.items():
        _, limit = rows.get(name, (0, 400))
        if length > min(limit, 800):
            yield name, min(limit, 800), f"{length} lines, at most {min(limit, 800)}: split it"
    for name, (number, limit) in rows.items():
        if lengths.get(name, 0) <= 400 or limit > 800:
            yield LIST, number, f"{name} needs no place in this list (or asks for more than 800 lines)"
    for name in tree.files:
        size = (tree.root / name).stat().st_size
        if size > 2**20 and not name.startswith("models/"):
            yield name, 1, f"{size} bytes, at most 1 MiB"


PLANTS = [
    ({"src/ir/long.cpp": "// Long.\n" * 401}, "src/ir/long.cpp"),
    ({"src/ir/long.cpp": "// Long.\n" * 810, LIST: "800 src/ir/long.cpp one table\n"}, "src/ir/long.cpp"),
    ({"src/ir/short.cpp": "// Short.\n", LIST: "500 src/ir/short.cpp no more\n"}, LIST),
    ({"docs/big.txt": "x" * (2**20 + 1)}, "docs/big.txt"),
]
