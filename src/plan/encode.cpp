// A program to FlatBuffers and back. Only this file and its generated header know the format of the metadata.
#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "plan/bodies.hpp"
#include "plan/engine_file.hpp"
#include "plan/program_generated.h"

namespace peri::plan {

namespace {
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// A table of `fields`. The elements of a braced tuple are evaluated from left to right by every compiler, arguments of
// a call are not, and the bytes of the file depend on the order of its strings.
template <class Table, class... P, class... A>
Offset<Table> table(Offset<Table> (*create)(FlatBufferBuilder&, P...), FlatBufferBuilder& b, std::tuple<A...> fields) {
  return std::apply([&](const auto&... f) { return create(b, f...); }, fields);
}

auto encode(FlatBufferBuilder& b, const std::vector<Port>& list) {
  std::vector<Offset<fb::Port>> out;
  for (const Port& x : list)
    out.push_back(table(fb::CreatePort, b,
                        std::tuple{b.CreateString(x.name), x.buffer, b.CreateString(std::string(dtype_name(x.dtype))),
                                   b.CreateString(shape_text(x.shape))}));
  return b.CreateVector(out);
}

Offset<fb::Program> encode(FlatBufferBuilder& b, const Program& p) {
  std::vector<Offset<fb::Buffer>> buffers;
  for (const Buffer& x : p.buffers)
    buffers.push_back(
        table(fb::CreateBuffer, b,
              std::tuple{b.CreateString(x.name), static_cast<uint8_t>(x.kind),
                         b.CreateString(std::string(dtype_name(x.dtype))), b.CreateString(shape_text(x.shape)),
                         b.CreateString(x.layout), b.CreateString(x.bytes.text()), x.alignment, x.alias_of,
                         b.CreateString(x.alias_offset.text()), x.weight, x.device}));
  std::vector<Offset<fb::Step>> steps;
  for (const Step& s : p.steps) {
    std::vector<Offset<fb::Variant>> variants;
    for (const Variant& v : s.variants) {
      std::vector<Offset<fb::Holds>> holds;
      for (const auto& [expression, value] : v.holds_for)
        holds.push_back(table(fb::CreateHolds, b, std::tuple{b.CreateString(expression.text()), value}));
      variants.push_back(table(fb::CreateVariant, b,
                               std::tuple{b.CreateString(v.requires_isa), b.CreateString(v.library),
                                          b.CreateVector(holds), b.CreateString(v.payload), b.CreateVector(v.blobs)}));
    }
    std::vector<Offset<fb::Program>> bodies;
    for (const auto& body : s.bodies) bodies.push_back(encode(b, *body));
    steps.push_back(table(
        fb::CreateStep, b,
        std::tuple{b.CreateString(s.name), b.CreateString(s.executor), s.payload_version, b.CreateVector(variants),
                   b.CreateVector(s.reads), b.CreateVector(s.writes), s.lane, b.CreateVector(s.waits_for),
                   b.CreateVectorOfStrings(s.binds), b.CreateVector(bodies), b.CreateVectorOfStrings(s.origins),
                   b.CreateVector(s.shares), s.device, b.CreateVectorOfStrings(s.depends_on)}));
  }
  std::vector<Offset<fb::Weight>> weights;
  for (const Weight& w : p.weights)
    weights.push_back(table(fb::CreateWeight, b,
                            std::tuple{b.CreateString(w.name), b.CreateString(std::string(dtype_name(w.dtype))),
                                       b.CreateVector(w.dims), w.offset, w.bytes, w.hash, w.content_hash}));
  std::vector<Offset<fb::Section>> sections;
  for (const Section& s : p.sections)
    sections.push_back(
        table(fb::CreateSection, b,
              std::tuple{b.CreateString(s.name),
                         b.CreateVector(reinterpret_cast<const uint8_t*>(s.bytes.data()), s.bytes.size())}));
  std::vector<Offset<fb::Blob>> blobs;
  for (const Blob& x : p.blobs)
    blobs.push_back(
        table(fb::CreateBlob, b,
              std::tuple{x.hash, b.CreateVector(reinterpret_cast<const uint8_t*>(x.bytes.data()), x.bytes.size())}));
  std::vector<Offset<fb::Tuned>> tuned;
  for (const auto& [dim, value] : p.tuned_for)
    tuned.push_back(table(fb::CreateTuned, b, std::tuple{b.CreateString(dim), value}));
  const auto sizes = [&](const std::map<std::string, int64_t>& list) {
    std::vector<Offset<fb::Tuned>> out;
    for (const auto& [dim, value] : list)
      out.push_back(table(fb::CreateTuned, b, std::tuple{b.CreateString(dim), value}));
    return list.empty() ? Offset<flatbuffers::Vector<Offset<fb::Tuned>>>() : b.CreateVector(out);
  };
  const auto at_least = sizes(p.at_least), at_most = sizes(p.at_most), assumed = sizes(p.assumed);
  const auto name = b.CreateString(p.name), builder = b.CreateString(p.builder), backend = b.CreateString(p.backend);
  const auto dims = b.CreateVectorOfStrings(p.dims);
  const auto tuned_v = b.CreateVector(tuned);
  const auto buffers_v = b.CreateVector(buffers);
  const auto steps_v = b.CreateVector(steps);
  const auto inputs_v = encode(b, p.inputs), outputs_v = encode(b, p.outputs);
  const auto weights_v = b.CreateVector(weights);
  const auto sections_v = b.CreateVector(sections);
  const auto devices_v = b.CreateVectorOfStrings(p.devices);
  const auto blobs_v = b.CreateVector(blobs);
  const auto precision =
      p.precision == DType::kF32 ? Offset<flatbuffers::String>() : b.CreateString(std::string(dtype_name(p.precision)));
  return fb::CreateProgram(b, name, builder, backend, dims, tuned_v, buffers_v, steps_v, inputs_v, outputs_v, weights_v,
                           sections_v, devices_v, blobs_v, precision, at_least, at_most, assumed);
}

// Reads fields within a budget: tables and strings of a FlatBuffer may be shared, so that a small file could expand
// without limit.
struct Reader {
  size_t left;
  bool spent = false;

  void charge(size_t bytes) {
    spent = spent || bytes > left;
    left -= std::min(bytes, left);
  }
  std::string text(const flatbuffers::String* s) {
    if (!s) return {};
    charge(s->size());
    return spent ? std::string() : s->str();
  }
  template <class V>
  std::vector<int32_t> ints(const V* v) {
    if (!v) return {};
    charge(4 * size_t{v->size()});
    return spent ? std::vector<int32_t>{} : std::vector<int32_t>(v->begin(), v->end());
  }
  // Only a vector's start is checked for its alignment, not its elements.
  static std::vector<int64_t> longs(const flatbuffers::Vector<int64_t>& v) {
    static_assert(std::endian::native == std::endian::little);
    std::vector<int64_t> out(v.size());
    if (!out.empty()) std::memcpy(out.data(), v.Data(), 8 * out.size());
    return out;
  }
  template <class V, class F>
  Status each(const V* list, F f) {
    if (!list) return Ok{};
    for (const auto* item : *list) {
      charge(256);
      if (!item) return invalid("an empty entry in the metadata");
      PERI_TRY(f(*item));
      if (spent) return invalid("the metadata unfolds to more than it holds");
    }
    return Ok{};
  }
  Result<Dim> dim(const flatbuffers::String* s) {
    if (!s || s->size() == 0) return Dim(0);
    charge(s->size());
    return spent ? Result<Dim>(Dim(0)) : Dim::parse(s->string_view());
  }
};

Status decode_buffers(Reader& r, const fb::Program& f, Program* p) {
  return r.each(f.buffers(), [&](const fb::Buffer& x) -> Status {
    Buffer b;
    b.name = r.text(x.name());
    if (x.kind() > static_cast<uint8_t>(BufferKind::kState)) return invalid("buffer kind %u", x.kind());
    b.kind = static_cast<BufferKind>(x.kind());
    PERI_ASSIGN(b.dtype, parse_dtype(r.text(x.dtype())));
    PERI_ASSIGN(b.shape, parse_shape(r.text(x.shape())));
    b.layout = r.text(x.layout());
    PERI_ASSIGN(b.bytes, r.dim(x.bytes()));
    b.alignment = x.alignment();
    b.alias_of = x.alias_of();
    PERI_ASSIGN(b.alias_offset, r.dim(x.alias_offset()));
    b.weight = x.weight();
    b.device = x.device();
    p->buffers.push_back(std::move(b));
    return Ok{};
  });
}

Result<Program> decode(Reader& r, const fb::Program& f, int depth);

Status decode_steps(Reader& r, const fb::Program& f, Program* p, int depth) {
  return r.each(f.steps(), [&](const fb::Step& x) -> Status {
    Step s;
    s.name = r.text(x.name());
    s.executor = r.text(x.executor());
    s.payload_version = x.payload_version();
    PERI_TRY(r.each(x.variants(), [&](const fb::Variant& y) -> Status {
      Variant v{r.text(y.requires_isa()), r.text(y.library()), {}, r.text(y.payload()), r.ints(y.blobs())};
      PERI_TRY(r.each(y.holds_for(), [&](const fb::Holds& h) -> Status {
        PERI_ASSIGN(Dim e, r.dim(h.expression()));
        v.holds_for.emplace_back(std::move(e), h.value());
        return Ok{};
      }));
      s.variants.push_back(std::move(v));
      return Ok{};
    }));
    s.reads = r.ints(x.reads());
    s.writes = r.ints(x.writes());
    s.shares = r.ints(x.shares());
    s.device = x.device();
    s.lane = x.lane();
    s.waits_for = r.ints(x.waits_for());
    PERI_TRY(r.each(x.binds(), [&](const flatbuffers::String& name) -> Status {
      s.binds.push_back(r.text(&name));
      return Status(Ok{});
    }));
    PERI_TRY(r.each(x.depends_on(), [&](const flatbuffers::String& name) -> Status {
      s.depends_on.push_back(r.text(&name));
      return Status(Ok{});
    }));
    PERI_TRY(r.each(x.origins(), [&](const flatbuffers::String& name) -> Status {
      s.origins.push_back(r.text(&name));
      return Status(Ok{});
    }));
    PERI_TRY(r.each(x.bodies(), [&](const fb::Program& body) -> Status {
      PERI_ASSIGN(Program inner, decode(r, body, depth + 1));
      s.bodies.push_back(std::make_shared<Program>(std::move(inner)));
      return Ok{};
    }));
    p->steps.push_back(std::move(s));
    return Ok{};
  });
}

template <class V>
Status decode_ports(Reader& r, const V* list, std::vector<Port>* out) {
  return r.each(list, [&](const fb::Port& x) -> Status {
    Port port{r.text(x.name()), x.buffer(), DType::kInvalid, {}};
    PERI_ASSIGN(port.dtype, parse_dtype(r.text(x.dtype())));
    PERI_ASSIGN(port.shape, parse_shape(r.text(x.shape())));
    out->push_back(std::move(port));
    return Ok{};
  });
}

Result<Program> decode(Reader& r, const fb::Program& f, int depth) {
  if (depth > kMaxBodies) return bodies_too_deep();
  Program p;
  p.name = r.text(f.name());
  p.builder = r.text(f.builder());
  p.backend = r.text(f.backend());
  if (f.precision()) {
    PERI_ASSIGN(p.precision, parse_dtype(r.text(f.precision())));
    if (!is_float(p.precision)) return invalid("the precision is not a float type");
  }
  PERI_TRY(r.each(f.dims(), [&](const flatbuffers::String& s) -> Status {
    p.dims.push_back(r.text(&s));
    return Status(Ok{});
  }));
  PERI_TRY(r.each(f.tuned_for(), [&](const fb::Tuned& t) -> Status {
    p.tuned_for[r.text(t.dim())] = t.value();
    return Status(Ok{});
  }));
  for (const auto& [list, sizes] :
       {std::pair{f.at_least(), &p.at_least}, std::pair{f.at_most(), &p.at_most}, std::pair{f.assumed(), &p.assumed}})
    PERI_TRY(r.each(list, [&, to = sizes](const fb::Tuned& t) -> Status {
      (*to)[r.text(t.dim())] = t.value();
      return Status(Ok{});
    }));
  PERI_TRY(decode_buffers(r, f, &p));
  PERI_TRY(decode_steps(r, f, &p, depth));
  PERI_TRY(decode_ports(r, f.inputs(), &p.inputs));
  PERI_TRY(decode_ports(r, f.outputs(), &p.outputs));
  PERI_TRY(r.each(f.weights(), [&](const fb::Weight& x) -> Status {
    Weight w;
    w.name = r.text(x.name());
    PERI_ASSIGN(w.dtype, parse_dtype(r.text(x.dtype())));
    if (x.dims()) {
      r.charge(8 * size_t{x.dims()->size()});
      if (!r.spent) w.dims = Reader::longs(*x.dims());
    }
    w.offset = x.offset();
    w.bytes = x.bytes();
    w.hash = x.hash();
    w.content_hash = x.content_hash();
    p.weights.push_back(std::move(w));
    return Ok{};
  }));
  PERI_TRY(r.each(f.sections(), [&](const fb::Section& s) -> Status {
    Section section{r.text(s.name()), {}};
    if (s.bytes()) {
      r.charge(s.bytes()->size());
      if (!r.spent) section.bytes.assign(reinterpret_cast<const char*>(s.bytes()->data()), s.bytes()->size());
    }
    p.sections.push_back(std::move(section));
    return Ok{};
  }));
  PERI_TRY(r.each(f.blobs(), [&](const fb::Blob& x) -> Status {
    Blob blob{x.hash(), {}};
    if (x.bytes()) {
      r.charge(x.bytes()->size());
      if (!r.spent) blob.bytes.assign(reinterpret_cast<const char*>(x.bytes()->data()), x.bytes()->size());
    }
    p.blobs.push_back(std::move(blob));
    return Ok{};
  }));
  p.devices.clear();
  PERI_TRY(r.each(f.devices(), [&](const flatbuffers::String& s) -> Status {
    p.devices.push_back(r.text(&s));
    return Status(Ok{});
  }));
  return p;
}
}  // namespace

std::string encode_program(const Program& program) {
  FlatBufferBuilder b(1 << 16);
  b.ForceDefaults(false);
  b.Finish(encode(b, program));
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
}

Result<Program> decode_program(std::span<const std::byte> bytes) {
  flatbuffers::Verifier verifier(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 64,
      static_cast<flatbuffers::uoffset_t>(std::min<size_t>(bytes.size() / 8 + 16, 50000000)));
  if (!verifier.VerifyBuffer<fb::Program>(nullptr)) return invalid("the metadata is damaged");
  Reader reader{(size_t{48} << 20) + bytes.size()};
  return decode(reader, *flatbuffers::GetRoot<fb::Program>(bytes.data()), 0);
}

}  // namespace peri::plan
