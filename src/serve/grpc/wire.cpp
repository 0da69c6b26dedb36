// A single walk over tags and lengths; the type's descriptor gives the meaning of each field.
#include "serve/grpc/wire.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>

namespace peri::serve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

class Walk {
 public:
  explicit Walk(Bytes bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }
  size_t at() const { return at_; }

  Result<uint64_t> varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && at_ < bytes_.size(); shift += 7) {
      const auto b = static_cast<uint8_t>(bytes_[at_++]);
      if (shift == 63 && b > 1) break;
      v |= static_cast<uint64_t>(b & 127) << shift;
      if (b < 128) return v;
    }
    return invalid("the message holds a number that does not end");
  }
  Result<Bytes> take(uint64_t n) {
    if (n > bytes_.size() - at_) return invalid("the message ends inside a field");
    const Bytes out = bytes_.subspan(at_, n);
    at_ += n;
    return out;
  }
  struct Field {
    int number = 0, wire = 0;
    Bytes bytes;  // of its value, without the length
  };
  Result<Field> next() {
    PERI_ASSIGN(const uint64_t tag, varint());
    Field f;
    f.wire = static_cast<int>(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 >= 1u << 29) return invalid("the message holds a field of no number");
    f.number = static_cast<int>(tag >> 3);
    const size_t from = at_;
    uint64_t size = 0;
    if (f.wire == 0) {
      PERI_TRY(varint());
      f.bytes = bytes_.subspan(from, at_ - from);
      return f;
    }
    if (f.wire == 1 || f.wire == 5) {
      size = f.wire == 1 ? 8 : 4;
    } else if (f.wire == 2) {
      PERI_ASSIGN(size, varint());
    } else {
      return invalid("the message holds a field of a kind that is not known");
    }
    PERI_ASSIGN(f.bytes, take(size));
    return f;
  }

 private:
  const Bytes bytes_;
  size_t at_ = 0;
};

class Check {
 public:
  explicit Check(const MessageLimits& limits) : limits_(limits) {}

  Status message(Bytes bytes, const Descriptor& type, int depth) {
    if (depth > limits_.depth)
      return Error(ErrorKind::kMemory, format("messages more than %d deep (--max-message-depth)", limits_.depth));
    for (Walk walk(bytes); !walk.done();) {
      PERI_ASSIGN(const Walk::Field f, walk.next());
      const FieldDescriptor* field = type.FindFieldByNumber(f.number);
      if (!field) {
        PERI_TRY(count(&parts_, 1, limits_.parts, "parts (--max-message-parts)"));
      } else if (f.wire == 2 && field->type() == FieldDescriptor::TYPE_MESSAGE) {
        PERI_TRY(count(&parts_, 1, limits_.parts, "parts (--max-message-parts)"));
        PERI_TRY(message(f.bytes, *field->message_type(), depth + 1));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        PERI_TRY(count(&parts_, 1, limits_.parts, "parts (--max-message-parts)"));
      } else if (f.wire == 2 && field->is_packable()) {
        PERI_TRY(count(&values_, packed(f.bytes, field->type()), limits_.values, "values (--max-json-values)"));
      } else {
        PERI_TRY(count(&values_, 1, limits_.values, "values (--max-json-values)"));
      }
    }
    return Ok{};
  }

 private:
  static Status count(size_t* sum, size_t n, size_t most, const char* what) {
    *sum += n;
    if (*sum > most) return Error(ErrorKind::kMemory, format("a message of more than %zu %s", most, what));
    return Ok{};
  }
  static size_t packed(Bytes bytes, FieldDescriptor::Type type) {
    if (type == FieldDescriptor::TYPE_FLOAT) return bytes.size() / 4;
    if (type == FieldDescriptor::TYPE_DOUBLE) return bytes.size() / 8;
    return static_cast<size_t>(
        std::count_if(bytes.begin(), bytes.end(), [](std::byte b) { return static_cast<uint8_t>(b) < 128; }));
  }

  const MessageLimits& limits_;
  size_t parts_ = 0, values_ = 0;
};
}  // namespace

Status check_message(Bytes bytes, const Descriptor& type, const MessageLimits& limits) {
  return Check(limits).message(bytes, type, 1);
}

Result<SplitMessage> split_message(Bytes bytes, int field, size_t most) {
  SplitMessage out;
  for (Walk walk(bytes); !walk.done();) {
    const size_t from = walk.at();
    PERI_ASSIGN(const Walk::Field f, walk.next());
    if (f.number == field && f.wire == 2) {
      if (out.fields.size() == most)
        return Error(ErrorKind::kMemory, format("more than %zu raw contents (--max-message-parts)", most));
      out.fields.push_back(f.bytes);
      continue;
    }
    const Bytes whole = bytes.subspan(from, walk.at() - from);
    out.rest.append(reinterpret_cast<const char*>(whole.data()), whole.size());
  }
  return out;
}

Status read_message(Bytes bytes, const MessageLimits& limits, google::protobuf::Message* out) {
  PERI_TRY(check_message(bytes, *out->GetDescriptor(), limits));
  if (bytes.size() > INT32_MAX || !out->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return invalid("the bytes are no %s", out->GetDescriptor()->name().c_str());
  return Ok{};
}

void put_bytes_head(int field, size_t size, std::string* out) {
  for (uint64_t v : {static_cast<uint64_t>(field) << 3 | 2, static_cast<uint64_t>(size)}) {
    for (; v > 127; v >>= 7) out->push_back(static_cast<char>((v & 127) | 128));
    out->push_back(static_cast<char>(v));
  }
}

}  // namespace peri::serve
