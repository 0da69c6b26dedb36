// Operators of sequences and optionals: import resolves them (onnx/containers.hpp), so that no graph contains one.
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {
OpDef container(std::string_view name, std::string_view onnx, std::vector<int> versions, std::vector<Port> inputs,
                std::vector<AttrSpec> attrs = {}) {
  OpDef op = composed(name, onnx, std::move(inputs), std::move(attrs), nullptr);
  op.domain = "";
  op.versions = std::move(versions);
  return op;
}

std::vector<OpDef> definitions() {
  const Port sequence{"sequence"}, place{"position", kIndex, true}, any{"x"};
  const AttrSpec axis{"axis", AttrKind::kInt, false, "0"};
  return {container("sequence_construct", "SequenceConstruct", {11}, {{"elements", kAnyType, true, true}}),
          container("sequence_empty", "SequenceEmpty", {11}, {}, {{"dtype", AttrKind::kType, false, "f32"}}),
          container("sequence_insert", "SequenceInsert", {11}, {sequence, any, place}),
          container("sequence_erase", "SequenceErase", {11}, {sequence, place}),
          container("sequence_at", "SequenceAt", {11}, {sequence, {"position", kIndex}}),
          container("sequence_length", "SequenceLength", {11}, {sequence}),
          container("split_to_sequence", "SplitToSequence", {11, 24}, {any, {"split", kIndex, true}},
                    {axis, {"keepdims", AttrKind::kInt, false, "1"}}),
          container("concat_from_sequence", "ConcatFromSequence", {11}, {sequence},
                    {{"axis", AttrKind::kInt, true}, {"new_axis", AttrKind::kInt, false, "0"}}),
          container("sequence_map", "SequenceMap", {17}, {sequence, {"inputs", kAnyType, true, true}},
                    {{"body", AttrKind::kGraph, true}}),
          container("optional", "Optional", {15, 28}, {{"x", kAnyType, true}}),
          container("optional_has_element", "OptionalHasElement", {15, 18, 28}, {{"x", kAnyType, true}}),
          container("optional_get_element", "OptionalGetElement", {15, 18, 28}, {any})};
}
}  // namespace

extern const Entry containers_entry;
const Entry containers_entry{definitions()};

}  // namespace peri::ops
