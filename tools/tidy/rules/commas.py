"""No comma operator as glue: a statement, or what `return` gives back, does one thing. Heads of `for` may have two."""
import re

KEYWORDS = re.compile(r"(template|using|typedef|friend|extern|static|const|constexpr|inline|struct|class|enum|union|namespace|goto|"
                      r"delete|throw|volatile|mutable|explicit|virtual|operator|thread_local|alignas|typename)\b")
CONTROL = re.compile(r"(?:else\s+)?(?:if|for|while|switch)\s*(?:constexpr\s*)?\(|else\b|(?:case\b(?:[^:?]|::)+|default\s*|public|private|"
                     r"protected):(?!:)|\[\[\w+\]\]")


def closing(code, at):
    depth = 0
    for k in range(at, len(code)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[k], 0)
        if depth == 0:
            return k
    return len(code)


def statements(code):
    """(start, end) of what ends with a semicolon, without control words and labels before it."""
    stack, depth, start = [], 0, 0
    for at, char in enumerate(code):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "{":
            stack.append(depth)
            depth, start = 0, at + 1
        elif char == "}":
            depth, start = stack.pop() if stack else 0, at + 1
        elif char == ";" and depth == 0:
            while (skipped := re.compile(r"\s+").match(code, start, at)) or (skipped := CONTROL.match(code, start, at)):
                start = closing(code, skipped.end() - 1) + 1 if skipped[0].endswith("(") else skipped.end()
            yield start, at
            start = at + 1


def parts(code, start, end):
    """The statement's text between commas that stand in no bracket."""
    depth = angle = 0
    out, first = [], start
    for at in range(start, end):
        char, before = code[at], code[at - 1]
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "<" and (before.isalnum() or before == "_") and code[at + 1] not in "<= ":
            angle += 1
        elif char == ">" and angle and before != "-" and not before.isspace():
            angle -= 1
        elif char == "," and depth == 0 and angle == 0:
            out.append(code[first:at])
            first = at + 1
    return out + [code[first:end]]


def does_something(text):
    """Whether a text is an assignment, a call or a step, and no declaration."""
    text = text.strip()
    head = re.match(r"(?:\+\+|--|\*|\(void\)\s*)*[A-Za-z_]\w*(?:::\w+)*", text)
    if not head or KEYWORDS.match(text):
        return False
    at, called = head.end(), bool(re.match(r"\+\+|--|\(void\)", text))
    while at < len(text):
        if more := re.compile(r"(?:\.|->)\s*\w+|::\w+|<[\w:,\s<>*&]*?>(?=\()").match(text, at):
            at = more.end()
        elif text[at] in "([":
            called = called or text[at] == "("
            at = closing(text, at) + 1
        else:
            break
    rest = text[at:].strip()
    return called if not rest else bool(re.match(r"(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--|<<", rest))


def check(tree):
    for name in tree.cpp():
        code = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), tree.code(name))
        code = re.sub(r"(?<=\w)\{\}", "()", code)  # a value, which ends no statement
        for start, end in statements(code):
            given = re.compile(r"return\b").match(code, start, end)
            found = parts(code, given.end() if given else start, end)
            if len(found) > 1 and all(map(does_something, found[:-1] if given else found)):
                yield name, code.count("\n", 0, start) + 1, "a comma glues two statements: write two"


def _plant(code, name="src/ir/bad.cpp"):
    return ({name: f"// Bad.\n{code}\n"}, name)


PLANTS = [
    _plant("void f(int a, int b) { a = 1, b = 2; }"),
    _plant("bool f(int a) { if (a) return ++a, true; return false; }"),
    _plant("void f(Set s) { for (int k = 0; k < 3; ++k) s.insert(k), s.count(k); }"),
    _plant("Status f(Set s) { if (s) return s.clear(), Ok{}; return Ok{}; }"),
    _plant("void f(int a) { const auto g = [&] { a += 1, a *= 2; }; }"),
]
