// Readers of keys: each message of a configuration is a table of its keys, and a key that is missing there, or refused,
// gives the same error everywhere.
#pragma once

#include <functional>

#include "serve/config/text_proto.hpp"

namespace peri::serve::keys {

struct Key {
  std::string_view name;
  std::function<Status(const TextField&)> read;
  bool obeyed = true;  // false: known, and refused
  bool once = false;   // it may not occur twice
};

// Reads each field by its row. `what`: the message's name, for errors.
Status read_fields(const TextMessage& message, std::string_view what, const std::vector<Key>& keys);

Key text(std::string_view key, std::string* to);
Key texts(std::string_view key, std::vector<std::string>* to);
// The name of a file in the model's folder. Not accepted from clients: its bytes would be returned in responses.
Key file(std::string_view key, std::string* to);
Key word(std::string_view key, std::string* to);
Key number(std::string_view key, int64_t* to, int64_t low, int64_t high);
Key real(std::string_view key, double* to, double low, double high);
Key numbers(std::string_view key, std::vector<int64_t>* to, int64_t low, int64_t high);
Key flag(std::string_view key, bool* to);
// A flag that is accepted only with its default value.
Key off(std::string_view key, std::string_view remedy = "take it out");
// A key of Triton's that this server does not support, with any value.
Key refuses(std::string_view key, std::string_view remedy);
Key inner(std::string_view key, std::function<Status(const TextMessage&)> read);
Key one(std::string_view key, std::function<Status(const TextMessage&)> read);  // inner(), once
// One word of a list.
Key choice(std::string_view key, std::vector<std::string_view> words, std::function<void(size_t)> take);

constexpr int64_t kMaxNumber = int64_t{1} << 40;

}  // namespace peri::serve::keys
