"""Why a row of the matrix of operators is above 1.5: by row and size first, by what ran it then."""

BY_ROW = {}


def reason(c):
    return BY_ROW.get((c["row"], c["size"])) or BY_ROW.get(c["row"]) or by_class(c)


def by_class(c):
    if c["rounds"][0] <= 1.5:
        return f"its rounds say {c['rounds'][0]:.2f} to {c['rounds'][1]:.2f}: other work on the machine"
    if "reference" in c["kernels"]:
        return "no kernel: the reference executor runs it"
    return "unexplained"
