"""No backend is known by its name to lowering, tuner, compiler, judge and build: what differs is a fact of lower::Backend, of
exec::Entry or of src/device. The list of backends (src/compile/backends.cpp) may name them."""
import re

PLACES = ("src/lower/", "src/tune/", "src/compile/", "src/judge/", "src/build/")
LIST = "src/compile/backends."
OF_DEVICES = re.compile(r'"(?:cuda|null)(?::\d*)?"')
OF_THE_HOST = re.compile(r'[=!]= *"cpu"')


def check(tree):
    for name in tree.cpp(*PLACES):
        if name.startswith(LIST):
            continue
        for pattern in (OF_DEVICES, OF_THE_HOST):
            for line, match in tree.matches(name, pattern, tree.code(name, strings=True)):
                yield name, line, f"{match[0]}: a backend's name; ask for a fact of the backend, executor or device instead"


PLANTS = [
    ({"src/judge/steps.cpp": '// Steps.\nbool exact(std::string_view e) { return e == "null"; }\n'}, "src/judge/steps.cpp"),
    ({"src/build/open.cpp": '// Opens.\nauto d = open("cuda:1");\n'}, "src/build/open.cpp"),
    ({"src/lower/lower.cpp": '// Lowers.\nbool host(std::string_view b) { return b != "cpu"; }\n'}, "src/lower/lower.cpp"),
]
