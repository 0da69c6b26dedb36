// The definition of an op: names and versions, ports, attributes, shape inference, float64 reference with error radii,
// cost, samples. Importer, verifier, fallback, tests, floors and docs know an op from this alone.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace peri::ops {

// Element types that a port accepts, as a bit set over DType.
using TypeSet = uint64_t;
constexpr TypeSet types(std::initializer_list<DType> list) {
  TypeSet s = 0;
  for (DType t : list) s |= TypeSet{1} << static_cast<int>(t);
  return s;
}
constexpr TypeSet kFloats = types({DType::kF32, DType::kF64, DType::kF16, DType::kBF16});
constexpr TypeSet kSignedInts = types({DType::kI8, DType::kI16, DType::kI32, DType::kI64});
constexpr TypeSet kUnsignedInts = types({DType::kU8, DType::kU16, DType::kU32, DType::kU64});
constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
constexpr TypeSet kNumbers = kFloats | kInts;
constexpr TypeSet kBools = types({DType::kBool});
constexpr TypeSet kIndex = types({DType::kI32, DType::kI64});
constexpr TypeSet kAnyType = ~TypeSet{1};
inline bool contains(TypeSet set, DType t) { return set >> static_cast<int>(t) & 1; }

// What an input holds in a trained model. Generated values follow it; inputs of all roles but data and indices are
// weights then.
enum class Role {
  kData,
  kWeight,    // factors of long sums: of magnitude about 1 / sqrt(OpDef::fan_in)
  kBias,      // added to each channel
  kScale,     // multiplies each channel: about 1
  kVariance,  // positive, about 1
  kIndex,     // integers from zero to below OpDef::index_ends; of floats: rows of an index and two corners of a box
};

struct Port {
  std::string_view name;  // "x", "w", "bias": the names of the grammar
  TypeSet types = kAnyType;
  bool optional = false;
  bool variadic = false;  // the last port only: any number of arguments, none left out; at least one unless optional
  int same_type_as = -1;  // index of an earlier input port that must have the same dtype; -1: free
  Role role = Role::kData;
  bool stays_wide = false;  // stays float32 beside inputs that are narrowed: the mask of an attention
  bool sizes = false;       // a list of any length from which shapes of outputs are computed
};

enum class AttrKind {
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kDims,
  kTensor,
  kGraph,
  kType /* int holding a DType */
};
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required = false;
  // Text for people and docs: what a missing attribute means. The op itself implements it.
  std::string_view fallback = "";
};

// ---- shape inference -----------------------------------------------------------------------------------------------
// One call infers all outputs of `node`. Input types are known. Contents are the elements of small integer inputs.
struct InferContext {
  const ir::Node& node;
  std::vector<ir::Type> out;                             // fill: one for each output
  std::vector<std::optional<std::vector<Dim>>> content;  // fill where known: elements of an integer output
  int64_t* fresh_symbol = nullptr;                       // counter for data-dependent dimensions
  std::vector<std::string> made_before = {};             // names that an earlier inference made for this node's outputs
  ir::Attrs bodies = {};                                 // fill: the inferred bodies, which replace the node's

  const ir::Type& in(size_t i) const { return node.inputs[i]->type; }
  bool has(size_t i) const { return node.in(i) != nullptr; }
  const Shape& shape(size_t i) const { return *node.inputs[i]->type.shape; }
  size_t rank(size_t i) const { return shape(i).size(); }
  DType dtype(size_t i) const { return node.inputs[i]->type.dtype; }
  // Elements of input i as expressions, if known (a constant integer tensor, or computed from shapes), row-major.
  // Null: not known.
  const std::vector<Dim>* elements(size_t i) const;
  // The same for a list or scalar; null for more axes.
  const std::vector<Dim>* known(size_t i) const;
  // Elements of input i as numbers; an error that names the input if they are not constants.
  Result<std::vector<int64_t>> constants(size_t i, std::string_view what) const;
  void set(size_t i, DType t, Shape s);
  void set_content(size_t i, std::vector<Dim> elements);
  // A data-dependent dimension, e.g. "data.nonzero_0": the one that an earlier inference made here, else a new one.
  Dim fresh(std::string_view stem);
};

// ---- reference -----------------------------------------------------------------------------------------------------
// A tensor of the reference: floats as double with an error radius, all else exact in int64, or strings.
struct RefTensor {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  std::vector<double> f;       // floats: values
  std::vector<double> radius;  // floats: |computed - f| <= radius is accepted; empty means zero everywhere
  std::vector<int64_t> i;      // integers and bool (u64 keeps its bits)
  std::vector<std::string> s;
  int64_t most_elements = int64_t{1} << 33;  // resize() fails beyond it

  int64_t numel() const;
  double r(int64_t at) const { return radius.empty() ? 0.0 : radius[static_cast<size_t>(at)]; }
  bool floating() const { return is_float(dtype); }
};
RefTensor make_ref(DType dtype, std::vector<int64_t> dims);  // sized, zero; radius empty
RefTensor to_ref(const Tensor& t);                           // exact
Tensor from_ref(const RefTensor& t);                         // rounded to its dtype

struct RefOptions;

// One evaluation. Dims are concrete. The op fills out[k] at the requested positions; others are ignored.
struct RefCall {
  const ir::Node& node;                // attributes; its value types hold concrete shapes
  std::vector<const RefTensor*> in;    // null: left out
  std::vector<RefTensor> out;          // sized by the caller from inference, dtype set; radius sized like f
  std::span<const int64_t> positions;  // flat positions of out[positions_of] (ascending); empty: all of all outputs
  double u = 0;  // unit round-off of the arithmetic that is judged, to which radii are computed. 0: exact run
  int threads = 1;
  // The type of the results where it is narrower than the arithmetic, for an op that may store intermediate values in
  // it (OpDef::stores): radii include their rounding. kInvalid: no intermediate value is rounded.
  DType stored = DType::kInvalid;
  const RefOptions* options = nullptr;  // of the evaluation that it is part of, for ops with bodies; null: none
  size_t positions_of = 0;              // other than 0 only for an op with OpDef::line_axes

  int64_t count() const { return positions.empty() ? out[0].numel() : static_cast<int64_t>(positions.size()); }
  int64_t position(int64_t n) const { return positions.empty() ? n : positions[static_cast<size_t>(n)]; }
};
// Error of a sum of k products computed at round-off u in any order: c * sqrt(k) * u * sum|terms| (c = 4); the caller
// adds the propagated input radii. Source: Higham & Mary, SIAM J. Sci. Comput. 41 (2019), probabilistic bound.
double sum_radius(double u, int64_t k, double sum_of_magnitudes);

struct Cost {
  double flops = 0;       // floating or integer operations of the definition
  double bytes_read = 0;  // compulsory
  double bytes_written = 0;
};

// How a node runs the bodies that it has as attributes.
enum class Control {
  kNone,    // it has none
  kBranch,  // one of then_branch and else_branch, chosen by input 0; both take the inputs after it
  kLoop,    // its body, again and again; the body takes all inputs
};

struct OpDef {
  std::string_view name;           // IR name: "conv"
  std::string_view onnx;           // ONNX op type; empty: not an ONNX op
  std::string_view domain = "";    // "" ai.onnx, "com.microsoft", or "peri"
  std::vector<int> versions = {};  // since_version values this definition (with `upgrade`) accepts, ascending
  std::vector<Port> inputs = {};
  std::vector<Port> outputs = {};
  std::vector<AttrSpec> attrs = {};
  // Converts nodes of older versions to the newest form: called by the importer with the node as written and the
  // model's opset. May add constants and nodes to `graph`. Null: all versions are read alike.
  Status (*upgrade)(ir::Graph& graph, ir::Node& node, int opset) = nullptr;
  Status (*infer)(InferContext&) = nullptr;
  Status (*reference)(RefCall&) = nullptr;
  // Positions of input `port` that the given positions of output 0 depend on; false means all of it. Null: always all.
  bool (*pull)(const ir::Node& node, size_t port, std::span<const int64_t> positions,
               std::vector<int64_t>* needed) = nullptr;
  // Axes of an output along which its lines lie that the reference computes each by itself and as a whole (a sequence
  // of a recurrent cell), at an equal part of the cost: it takes positions of any one output. Null: there are none.
  std::vector<size_t> (*line_axes)(const ir::Node& node, size_t output) = nullptr;
  // Null: reads every input once, writes every output once, one operation per output element.
  Cost (*cost)(const ir::Node& node) = nullptr;
  bool jumps = false;        // the output is not continuous in float inputs: ends a region
  bool elementwise = false;  // output element depends on the broadcast-aligned elements of the inputs only
  bool anchor = false;  // starts a region, to which the element-wise chain after it is added where a kernel supports it
  bool view = false;    // output 0 is input 0 in row-major order: only its dimensions change
  bool moves = false;   // elements of output 0 are elements of inputs (a cast: in another type)
  bool converts = false;        // output 0 is input 0 in another element type; other inputs only say which
  bool widens = false;          // bytes to numbers at so little cost that each region that reads them does it itself
  bool states_sizes = false;    // no inputs: its elements are dimension expressions, known wherever they are read
  bool changes_layout = false;  // output 0 is input 0 in another layout: the step that lowering puts between regions
  // Results are images in floats: a bias that is added to them has a value for each channel, which is axis 1. After
  // other anchors it has one for each element of the last axis.
  bool channels_second = false;
  Control control = Control::kNone;
  // Intermediate values that a kernel may store in the type of the results, rounded, though the arithmetic is wider.
  // All others keep the arithmetic's type, and a result is rounded once. Empty: none.
  std::string_view stores = {};
  // The input that tensor cores read in its own type: where one element-wise node of the same region computes it from
  // values that are stored, it is rounded to its type as if it were stored too, which is what the two operators by
  // themselves do. Nothing else of a region before it is rounded. -1: none.
  int reads_stored = -1;
  // Results are no larger than the inputs, or about 1, and sums are accumulated in a wider type: where activations are
  // kept in 16 bits its inputs and outputs are too. Other ops that are neither element-wise nor products with weights
  // stay float32.
  bool keeps_range = false;
  // Number of products in a sum, given the dims of the input of Role::kWeight. REQUIRES: such a port.
  double (*fan_in)(const ir::Node& node, std::span<const int64_t> weight) = nullptr;
  // Exclusive upper limits of the elements of the input of Role::kIndex; for floats: of a row's index, of x and of y.
  // REQUIRES: such a port.
  std::vector<Dim> (*index_ends)(const ir::Node& node) = nullptr;
  // The elements of input 0 that it tells apart: all others are one to it, or an error. Generated inputs are chosen
  // among them. Null: it compares with no list.
  Result<Tensor> (*categories)(const ir::Node& node) = nullptr;
  bool knows_all = false;  // an element of input 0 outside `categories` is an error
  // Whether inference of the node only compares dimensions, as expressions, and copies them, so that its types are
  // valid at any size (see shape/any_size.hpp). Null: true for an element-wise op whose inputs are aligned as
  // expressions, else false.
  bool (*any_size)(const ir::Node& node) = nullptr;
  // IR texts of one-op graphs, small and edge cases: checked on every backend. See tests/ops.
  std::vector<std::string_view> samples = {};
};

struct Entry {
  std::vector<OpDef> ops;
};

// All entries of the folder (generated) and look-up by name.
std::span<const Entry* const> entries();
const OpDef* find(std::string_view ir_name);
const OpDef* find_onnx(std::string_view domain, std::string_view op_type);
std::vector<const OpDef*> all();
// The role in the op's definition; the default for an op that has none.
Role role_of(const ir::Node& node, size_t port);
// Whether shapes are computed from the value: a region that holds it as a constant then knows them.
bool says_sizes(const ir::Value& value);
// Whether the input is a factor of a product or a convolution: the weight, or what it is multiplied by. Kernels read
// such operands from memory, however few they are.
bool is_factor(const ir::Node& node, size_t port);
// A fact of the node's op: is(node, &OpDef::anchor). False for an unknown op.
bool is(const ir::Node& node, bool OpDef::* fact);
inline bool is_anchor(const ir::Node& node) { return is(node, &OpDef::anchor); }
inline bool is_view(const ir::Node& node) { return is(node, &OpDef::view); }
inline bool states_sizes(const ir::Node& node) { return is(node, &OpDef::states_sizes); }
inline bool changes_layout(const ir::Node& node) { return is(node, &OpDef::changes_layout); }
Control control_of(const ir::Node& node);
// Exclusive upper limits of the elements of input `port`; empty: they are not indices.
std::vector<Dim> index_ends_of(const ir::Node& node, size_t port);

// Checks a node against its definition: known op, ports, attribute names and kinds, dtypes. Errors name the node.
Status check_node(const ir::Node& node);
// Sorts the nodes topologically, checks each and infers its types and contents.
Status infer_graph(ir::Graph& graph);
Status infer_node(ir::Node& node, int64_t* fresh_symbol);
// Initial value of the counter of data-dependent dimensions, such that it makes no name that the graph has.
int64_t first_fresh(const ir::Graph& graph);
Cost cost_of(const ir::Node& node);

// Evaluates nodes of a graph in the reference. `inputs` in the order of the graph's inputs.
struct RefOptions {
  double u = 0;  // round-off of the arithmetic judged; 0 gives the exact answer with zero radii
  int threads = 1;
  bool round_each = false;  // round every value to its dtype, but never to one coarser than `u` unless that is 0
  // Ascending flat positions of output 0 that are wanted; all others are undefined. Positions are pulled back through
  // the graph, so that a few positions of a large result are cheap. Empty: everything. Only for graphs with one output.
  std::vector<int64_t> positions = {};
  int64_t most_elements = int64_t{1} << 33;  // of one value; more is kMemory
  // Not 0: one of the results that arithmetic of round-off `u` may give. Every float that an op computes is perturbed
  // within the error of that op alone, at random with this seed, and rounded to its dtype; no radii are kept. Where
  // such results differ by more than the radii of the exact one, they depend on a comparison that `u` does not decide.
  uint64_t shake = 0;
  // With round_each: wider floats than this type are rounded to it, constants and inputs too.
  DType narrowest = DType::kInvalid;
  int64_t most_iterations = int64_t{1} << 31;  // of one loop; more is an error
};
Result<std::vector<RefTensor>> run_reference(const ir::Graph& graph, std::span<const RefTensor> inputs,
                                             const RefOptions& options = {});

}  // namespace peri::ops
