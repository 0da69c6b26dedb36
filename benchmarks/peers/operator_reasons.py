"""Why a row of the matrix of operators is above 1.5: what is known of the row, else that its rounds do not decide it, else what
is known of what ran it. A row that nothing explains is told as such."""

TEXTS = "texts are std::string, one at a time on the reference executor"
PLANES = "windows of NCHW go plane by plane, or by way of a copy to NHWC"
BY_ROW = {
    "RegexFullMatch": TEXTS, "StringConcat": TEXTS, "StringNormalizer": TEXTS, "StringSplit": TEXTS,
    "MaxPool": PLANES, "MaxPool SAME_UPPER": PLANES, "MaxPool SAME_LOWER": PLANES, "MaxPool 3-D": PLANES,
    "AveragePool SAME_LOWER": PLANES, "AveragePool SAME_UPPER": PLANES, "AveragePool": PLANES, "AveragePool 3-D": PLANES,
    "Conv groups": "copies between layouts around a kernel of groups of four channels",
    "ConvTranspose": "a product into columns and an addition of these, with a copy between layouts",
    "Scan": "an iteration is a run of the body's steps: its fixed cost is that of a few element-wise steps",
    "com.microsoft.MatMulNBits": "weights are widened to float32 when the model is built: eight times the bytes",
    "com.microsoft.DynamicQuantizeLSTM": "inputs and states have 16 bits where ONNX Runtime has 8: twice the products, and answers some hundred times nearer to those without rounding",
    "MatMulInteger": "the right side is an input of the row, and is packed in every run",
    "ai.onnx.ml.LinearClassifier NONE": "four steps, each with a fixed cost", "ai.onnx.ml.LinearClassifier SOFTMAX": "five steps, each with a fixed cost",
    "com.microsoft.QLinearConcat": "each input is requantised by a step of its own before the copy",
    "QLinearConv": "copies between layouts around the kernel of bytes, which takes channels last",
    "com.microsoft.FusedMatMul": "the transposed side is copied before the product",
    "ai.onnx.ml.OneHotEncoder": "a comparison with each category and a cast",
}


def reason(c):
    if c["row"] in BY_ROW:
        return BY_ROW[c["row"]]
    if c["rounds"][0] <= 1.5:
        return f"not decided: its rounds say {c['rounds'][0]:.2f} to {c['rounds'][1]:.2f}"
    return by_class(c)


def by_class(c):
    if "reference" in c["kernels"]:
        return "no kernel: the reference executor runs it"
    if "sized" in c["kernels"]:
        return "its size is known in the run only: the result is copied out of the session's memory once more"
    if c["peri_ms"] < 0.02:
        return "some microseconds: what a step costs besides its work"
    return "not explained"
