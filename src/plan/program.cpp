// Checks of a program and choice of variants.
#include "plan/program.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/hash.hpp"
#include "plan/bodies.hpp"
#include "plan/labels.hpp"
#include "plan/places.hpp"

namespace peri::plan {

namespace {
constexpr size_t kMaxItems = 1000000;
constexpr size_t kMaxNames = 65536;

// A program while it is checked.
struct Scope {
  const Program& p;
  const std::vector<Weight>& weights;  // of the whole program, for its bodies too
  std::set<std::string> table;
  std::vector<int32_t> owner;  // of the buffers checked so far
  std::vector<bool> written;
  // A result that shares the memory of an argument begins new contents, which its views belong to. Per buffer: the
  // start of its contents, which is itself, the nearest such result it aliases, or the owner; per owner: the current
  // contents.
  std::vector<int32_t> base, there;
  std::set<std::string> bound;

  bool is_there(int32_t b) const {
    return there[static_cast<size_t>(owner[static_cast<size_t>(b)])] == base[static_cast<size_t>(b)];
  }
  bool is_written(int32_t b) const {
    return written[static_cast<size_t>(b)] || written[static_cast<size_t>(owner[static_cast<size_t>(b)])];
  }
  // The first dimension of the buffer that nothing has bound yet; empty: none.
  std::string unbound(int32_t b) const {
    std::set<std::string> needed;
    const Buffer& x = p.buffers[static_cast<size_t>(b)];
    x.bytes.collect_symbols(needed);
    x.alias_offset.collect_symbols(needed);
    p.buffers[static_cast<size_t>(owner[static_cast<size_t>(b)])].bytes.collect_symbols(needed);
    for (const Dim& d : x.shape) d.collect_symbols(needed);
    for (const std::string& name : needed)
      if (!bound.contains(name)) return name;
    return "";
  }
};

Status check_symbols(const Scope& scope, const Dim& d, const Label& who) {
  if (d.is_const()) return Ok{};
  if (d.is_poison()) return invalid("a size expression overflows").at_node(who());
  std::set<std::string> symbols;
  d.collect_symbols(symbols);
  for (const std::string& s : symbols)
    if (!scope.table.contains(s)) return invalid("dimension '%s' is not in the table", s.c_str()).at_node(who());
  return Ok{};
}

// The size a dense tensor of this dtype, shape and layout needs, in bytes; blocked axes are rounded up to whole blocks.
Result<Dim> natural_bytes(const Buffer& b) {
  Shape dims = b.shape;
  if (const size_t colon = b.layout.find(':'); colon != std::string::npos) {
    const size_t x = b.layout.find('x', colon);
    if (x == std::string::npos) return invalid("bad layout '%s'", b.layout.c_str());
    int64_t axis = -1, block = -1;
    const auto is_number = [&](size_t from, size_t to, int64_t* out) {
      const auto [end, code] = std::from_chars(b.layout.data() + from, b.layout.data() + to, *out);
      return code == std::errc() && end == b.layout.data() + to;
    };
    if (!is_number(colon + 1, x, &axis) || !is_number(x + 1, b.layout.size(), &block) || axis < 0 ||
        axis >= static_cast<int64_t>(dims.size()) || block < 1 || block > 1024)
      return invalid("bad layout '%s'", b.layout.c_str());
    dims[static_cast<size_t>(axis)] = ceildiv(dims[static_cast<size_t>(axis)], block) * Dim(block);
  }
  const int bits = dtype_bits(b.dtype);
  return bits % 8 ? ceildiv(product(dims) * Dim(bits), 8) : product(dims) * Dim(bits / 8);
}

Status check_buffer(Scope& scope, size_t k) {
  const Program& p = scope.p;
  const Buffer& b = p.buffers[k];
  const Label who{p, k, false};
  if (b.dtype == DType::kInvalid || static_cast<int>(b.dtype) >= kDTypeCount)
    return invalid("unknown element type").at_node(who());
  if (b.shape.size() > 32) return invalid("rank above 32").at_node(who());
  for (const Dim& d : b.shape) PERI_TRY(check_symbols(scope, d, who));
  PERI_TRY(check_symbols(scope, b.bytes, who));
  PERI_TRY(check_symbols(scope, b.alias_offset, who));
  PERI_ASSIGN(const Dim natural, natural_bytes(b));
  if (!(natural == b.bytes))
    return invalid("size does not follow from type, shape and layout")
        .at_node(who())
        .expecting(natural.text())
        .but_found(b.bytes.text());
  if (b.alignment < 64 || (b.alignment & (b.alignment - 1)) || b.alignment > 4096)
    return invalid("alignment %u", b.alignment).at_node(who()).expecting("a power of two from 64 to 4096");
  if (b.device >= p.devices.size())
    return invalid("device %u of %zu", b.device, p.devices.size()).at_node(who()).expecting("a device of the table");
  if (b.alias_of >= static_cast<int32_t>(k) || b.alias_of < -1)
    return invalid("alias of buffer %d", b.alias_of).at_node(who()).expecting("an earlier buffer");
  if (b.alias_of >= 0) {
    const Buffer& base = p.buffers[static_cast<size_t>(b.alias_of)];
    if (b.dtype == DType::kString || base.dtype == DType::kString)
      return invalid("a string buffer cannot be an alias").at_node(who());
    if (b.kind == BufferKind::kInput || b.kind == BufferKind::kWeight)
      return invalid("an input or weight cannot be an alias").at_node(who());
    if (b.device != base.device)
      return invalid("lies on device %u, and what it aliases on device %u", b.device, base.device).at_node(who());
  }
  const bool is_weight = b.kind == BufferKind::kWeight;
  if (is_weight != (b.weight >= 0) || b.weight >= static_cast<int32_t>(scope.weights.size()))
    return invalid("weight index %d", b.weight).at_node(who());
  if (is_weight) {
    const Weight& w = scope.weights[static_cast<size_t>(b.weight)];
    if (b.dtype == DType::kString) return invalid("a weight cannot be text").at_node(who());
    if (w.dtype != b.dtype || !is_const(b.shape) || !b.bytes.is_const(static_cast<int64_t>(w.bytes)))
      return invalid("a weight buffer differs from its weight '%s'", w.name.c_str()).at_node(who());
  }
  scope.owner.push_back(b.alias_of >= 0 ? scope.owner[static_cast<size_t>(b.alias_of)] : static_cast<int32_t>(k));
  return Ok{};
}

Status check_weights(const Program& p, uint64_t weight_bytes) {
  for (const Weight& w : p.weights) {
    PERI_ASSIGN(const int64_t n, checked_numel(w.dims));
    PERI_ASSIGN(const int64_t size, dtype_bytes(w.dtype, n));
    if (static_cast<uint64_t>(size) != w.bytes)
      return invalid("size does not follow from type and dims").at_node("weight '" + w.name + "'");
    if (w.offset % 64 || w.offset > weight_bytes || w.bytes > weight_bytes - w.offset)
      return invalid("lies outside the weight section")
          .at_node("weight '" + w.name + "'")
          .expecting(format("inside %llu bytes", static_cast<unsigned long long>(weight_bytes)));
  }
  return Ok{};
}

Status check_blobs(const Program& p) {
  if (p.blobs.size() > kMaxItems) return invalid("more blobs than the cap");
  std::set<uint64_t> hashes;
  for (size_t k = 0; k < p.blobs.size(); ++k) {
    if (hash_bytes(p.blobs[k].bytes.data(), p.blobs[k].bytes.size()) != p.blobs[k].hash)
      return invalid("blob %zu is damaged: its hash does not fit", k);
    if (!hashes.insert(p.blobs[k].hash).second) return invalid("blob %zu stands twice", k);
  }
  return Ok{};
}

Status check_step(Scope& scope, size_t k, int depth);

void find_bases(Scope& scope) {
  const Program& p = scope.p;
  scope.there = scope.owner;
  scope.base = scope.owner;
  std::vector<bool> begins(p.buffers.size(), false);
  for (const Step& s : p.steps)
    for (size_t j = 0; j < std::min(s.shares.size(), s.writes.size()); ++j)
      if (s.shares[j] >= 0 && s.writes[j] >= 0 && s.writes[j] < static_cast<int32_t>(p.buffers.size()))
        begins[static_cast<size_t>(s.writes[j])] = true;
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (begins[k])
      scope.base[k] = static_cast<int32_t>(k);
    else if (p.buffers[k].alias_of >= 0)
      scope.base[k] = scope.base[static_cast<size_t>(p.buffers[k].alias_of)];
}

Status check_inputs(Scope& scope) {
  const Program& p = scope.p;
  std::set<std::string> names;
  for (const Port& port : p.inputs) {
    const std::string who = "input '" + port.name + "'";
    if (port.buffer < 0 || port.buffer >= static_cast<int32_t>(p.buffers.size()) ||
        p.buffers[static_cast<size_t>(port.buffer)].kind != BufferKind::kInput)
      return invalid("no input buffer").at_node(who);
    const Buffer& b = p.buffers[static_cast<size_t>(port.buffer)];
    if (b.dtype != port.dtype || !(b.shape == port.shape) || !b.layout.empty())
      return invalid("its buffer has another type").at_node(who);
    if (!names.insert(port.name).second || scope.written[static_cast<size_t>(port.buffer)])
      return invalid("stands twice").at_node(who);
    scope.written[static_cast<size_t>(port.buffer)] = true;
    for (const Dim& d : port.shape)
      if (d.is_symbol()) scope.bound.insert(d.symbol_name());
  }
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const BufferKind kind = p.buffers[k].kind;
    if (kind == BufferKind::kInput && !scope.written[k])
      return invalid("an input buffer without an input").at_node(buffer_label(p, k));
    if (kind == BufferKind::kWeight || kind == BufferKind::kState) scope.written[k] = true;
    if (const std::string name = kind == BufferKind::kState ? scope.unbound(static_cast<int32_t>(k)) : "";
        !name.empty())
      return invalid("a state's dimension '%s' is not bound by an input", name.c_str()).at_node(buffer_label(p, k));
  }
  return Ok{};
}

Status check_outputs(const Scope& scope) {
  const Program& p = scope.p;
  std::set<std::string> names;
  for (const Port& port : p.outputs) {
    const std::string who = "output '" + port.name + "'";
    if (port.buffer < 0 || port.buffer >= static_cast<int32_t>(p.buffers.size()))
      return invalid("no buffer").at_node(who);
    const Buffer& b = p.buffers[static_cast<size_t>(port.buffer)];
    if (b.dtype != port.dtype || !(b.shape == port.shape) || !b.layout.empty())
      return invalid("its buffer has another type").at_node(who);
    if (!scope.is_written(port.buffer)) return invalid("is never written").at_node(who);
    if (!scope.is_there(port.buffer)) return invalid("another result has taken its memory").at_node(who);
    if (const std::string name = scope.unbound(port.buffer); !name.empty())
      return invalid("its dimension '%s' is never bound", name.c_str()).at_node(who);
    if (!names.insert(port.name).second) return invalid("stands twice").at_node(who);
  }
  return Ok{};
}

Status check_at(const Program& p, const std::vector<Weight>& weights, uint64_t weight_bytes, int depth) {
  if (depth > kMaxBodies) return bodies_too_deep();
  if (p.buffers.size() > kMaxItems || p.steps.size() > kMaxItems || p.weights.size() > kMaxItems ||
      p.dims.size() > kMaxNames || p.inputs.size() > kMaxNames || p.outputs.size() > kMaxNames)
    return invalid("more buffers, steps, weights, dimensions or ports than the cap");
  Scope scope{p, weights, {p.dims.begin(), p.dims.end()}, {}, {}, {}, {}, {}};
  if (scope.table.size() != p.dims.size()) return invalid("a dimension is named twice");
  PERI_TRY(check_limits(p));
  PERI_TRY(check_device_table(p, depth > 0));
  if (depth == 0) PERI_TRY(check_weights(p, weight_bytes));
  PERI_TRY(check_blobs(p));
  for (size_t k = 0; k < p.buffers.size(); ++k) PERI_TRY(check_buffer(scope, k));
  scope.written.assign(p.buffers.size(), false);
  find_bases(scope);
  PERI_TRY(check_inputs(scope));
  for (size_t k = 0; k < p.steps.size(); ++k) PERI_TRY(check_step(scope, k, depth));
  PERI_TRY(check_outputs(scope));
  return check_steps_on_devices(p);
}

// Results lie apart from each other and from all arguments, but for those that take an argument's memory as stated.
Status check_sharing(const Scope& scope, const Step& s, const Label& who) {
  const Program& p = scope.p;
  if (!s.shares.empty() && s.shares.size() != s.writes.size())
    return invalid("states sharing for %zu results", s.shares.size())
        .at_node(who())
        .expecting(std::to_string(s.writes.size()));
  std::map<int32_t, size_t> write_of;  // by storage
  for (size_t j = 0; j < s.writes.size(); ++j)
    if (s.writes[j] >= 0 && !write_of.emplace(scope.owner[static_cast<size_t>(s.writes[j])], j).second)
      return invalid("two results share memory").at_node(who());
  for (size_t j = 0; j < s.shares.size(); ++j) {
    const int32_t i = s.shares[j];
    if (i == -1) continue;
    const int32_t read = i >= 0 && i < static_cast<int32_t>(s.reads.size()) ? s.reads[static_cast<size_t>(i)] : -1;
    const bool sound = read >= 0 && s.writes[j] >= 0 &&
                       (s.writes[j] == read || p.buffers[static_cast<size_t>(s.writes[j])].alias_of == read);
    if (!sound) return invalid("result %zu is not an alias of the argument whose memory it takes", j).at_node(who());
    const Buffer &to = p.buffers[static_cast<size_t>(s.writes[j])], &from = p.buffers[static_cast<size_t>(read)];
    if (to.dtype != from.dtype || !(to.shape == from.shape) || to.layout != from.layout || !(to.bytes == from.bytes) ||
        (s.writes[j] != read && !to.alias_offset.is_const(0)) || !is_float(to.dtype))
      return invalid("result %zu takes the memory of an argument of another type, or of indices", j).at_node(who());
  }
  for (size_t i = 0; i < s.reads.size(); ++i) {
    const auto it = s.reads[i] < 0 ? write_of.end() : write_of.find(scope.owner[static_cast<size_t>(s.reads[i])]);
    if (it == write_of.end()) continue;
    const size_t j = it->second;
    const int32_t stated = s.shares.empty() ? -1 : s.shares[j];
    if (stated < 0 || s.reads[static_cast<size_t>(stated)] != s.reads[i])
      return invalid("result %zu lies in the memory of argument %zu, and nothing allows it", j, i)
          .at_node(who())
          .advise("build the engine again with this version");
  }
  return Ok{};
}

Status check_step(Scope& scope, size_t k, int depth) {
  const Program& p = scope.p;
  const Step& s = p.steps[k];
  const Label who{p, k, true};
  if (s.executor.empty() || s.variants.empty() || s.variants.size() > 256)
    return invalid("needs an executor and a variant").at_node(who());
  if (s.writes.empty()) return invalid("writes nothing").at_node(who());
  const int32_t count = static_cast<int32_t>(p.buffers.size());
  for (int32_t b : s.reads) {
    if (b < -1 || b >= count) return invalid("reads buffer %d", b).at_node(who());
    if (b >= 0 && !scope.is_written(b))
      return invalid("reads %s before it is written", buffer_label(p, static_cast<size_t>(b)).c_str()).at_node(who());
    if (b >= 0 && !scope.is_there(b))
      return invalid("reads %s whose memory another result has taken", buffer_label(p, static_cast<size_t>(b)).c_str())
          .at_node(who());
    if (const std::string name = b < 0 ? "" : scope.unbound(b); !name.empty())
      return invalid("reads %s whose dimension '%s' is not bound by then",
                     buffer_label(p, static_cast<size_t>(b)).c_str(), name.c_str())
          .at_node(who());
  }
  for (int32_t b : s.writes) {
    if (b < -1 || b >= count) return invalid("writes buffer %d", b).at_node(who());
    if (b < 0) continue;
    const int32_t storage = scope.owner[static_cast<size_t>(b)];
    const BufferKind owner = p.buffers[static_cast<size_t>(storage)].kind;
    if (owner == BufferKind::kInput || owner == BufferKind::kWeight)
      return invalid("writes into an input or a weight").at_node(who());
    scope.written[static_cast<size_t>(b)] = true;
    scope.written[static_cast<size_t>(storage)] = true;
  }
  PERI_TRY(check_sharing(scope, s, who));
  for (size_t j = 0; j < s.writes.size(); ++j) {
    if (s.writes[j] < 0) continue;
    const size_t b = static_cast<size_t>(s.writes[j]);
    scope.there[static_cast<size_t>(scope.owner[b])] = scope.base[b];
  }
  for (int32_t w : s.waits_for)
    if (w < 0 || w >= static_cast<int32_t>(k))
      return invalid("waits for step %d", w).at_node(who()).expecting("an earlier step");
  for (const Variant& v : s.variants) {
    for (const auto& [expression, value] : v.holds_for) PERI_TRY(check_symbols(scope, expression, who));
    for (const int32_t b : v.blobs)
      if (b < 0 || b >= static_cast<int32_t>(p.blobs.size())) return invalid("needs blob %d", b).at_node(who());
  }
  std::set<std::string> named;
  for (const std::string& name : s.depends_on)
    if (!scope.bound.contains(name) || !named.insert(name).second)
      return invalid("depends on dimension '%s', which is not bound by then or named twice", name.c_str())
          .at_node(who());
  for (const std::string& name : s.binds) {
    if (!scope.table.contains(name) || !scope.bound.insert(name).second)
      return invalid("binds dimension '%s' wrongly", name.c_str()).at_node(who());
  }
  for (int32_t b : s.writes)
    if (const std::string name = b < 0 ? "" : scope.unbound(b); !name.empty())
      return invalid("writes %s whose dimension '%s' is not bound by then",
                     buffer_label(p, static_cast<size_t>(b)).c_str(), name.c_str())
          .at_node(who());
  for (const auto& body : s.bodies) {
    if (!body || !body->weights.empty())
      return invalid("a body must exist and have no weights of its own").at_node(who());
    Status inner = check_at(*body, scope.weights, 0, depth + 1);
    if (!inner.ok()) return std::move(inner).error().at_node(who());
  }
  return Ok{};
}
}  // namespace

const Section* Program::section(std::string_view wanted) const {
  for (const Section& s : sections)
    if (s.name == wanted) return &s;
  return nullptr;
}

DType values_type(const Program& program) { return program.devices.size() > 1 ? program.precision : DType::kF32; }

int32_t Program::add_blob(std::string bytes) {
  const uint64_t hash = hash_bytes(bytes.data(), bytes.size());
  for (size_t k = 0; k < blobs.size(); ++k)
    if (blobs[k].hash == hash) return static_cast<int32_t>(k);
  blobs.push_back({hash, std::move(bytes)});
  return static_cast<int32_t>(blobs.size()) - 1;
}

Status check_program(const Program& p, uint64_t weight_bytes) { return check_at(p, p.weights, weight_bytes, 0); }

}  // namespace peri::plan
