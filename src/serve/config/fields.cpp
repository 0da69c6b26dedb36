// An unknown key is compared with the known ones by spelling, so that its error suggests the intended key.
#include "serve/config/fields.hpp"

#include <algorithm>

#include "base/spelling.hpp"

namespace peri::serve::keys {

Status read_fields(const TextMessage& message, std::string_view what, const std::vector<Key>& keys) {
  for (const TextField& f : message.fields) {
    const auto it = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == f.name; });
    if (it == keys.end()) {
      std::vector<std::string_view> names;
      std::string list;
      for (const Key& k : keys) {
        if (!k.obeyed) continue;
        names.push_back(k.name);
        list += (list.empty() ? "" : ", ") + std::string(k.name);
      }
      const std::string near = nearest(f.name, names);
      return text_error(f, "is not a key of " + std::string(what) + " that this server knows")
          .expecting("one of: " + list)
          .advise(near.empty() ? "take it out" : "did you mean '" + near + "'?");
    }
    const auto same = [&](const TextField& other) { return other.name == f.name; };
    if (it->once && &*std::find_if(message.fields.begin(), message.fields.end(), same) != &f)
      return text_error(f, "stands twice").advise("take one of them out");
    PERI_TRY(it->read(f));
  }
  return Ok{};
}

Key text(std::string_view key, std::string* to) {
  return {key,
          [to](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_string(f));
            return Ok{};
          },
          true, true};
}
Key file(std::string_view key, std::string* to) {
  return {key,
          [to](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_string(f));
            if (f.sent && !to->empty())
              return text_error(f, "names a file, which the configuration of an order to load may not")
                  .advise("write it to config.pbtxt of the model's folder");
            return Ok{};
          },
          true, true};
}
Key texts(std::string_view key, std::vector<std::string>* to) {
  return {key, [to](const TextField& f) -> Status {
            PERI_ASSIGN(std::string v, text_string(f));
            to->push_back(std::move(v));
            return Ok{};
          }};
}
Key word(std::string_view key, std::string* to) {
  return {key,
          [to](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_word(f));
            return Ok{};
          },
          true, true};
}
Key number(std::string_view key, int64_t* to, int64_t low, int64_t high) {
  return {key,
          [=](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_int(f, low, high));
            return Ok{};
          },
          true, true};
}
Key real(std::string_view key, double* to, double low, double high) {
  return {key,
          [=](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_real(f, low, high));
            return Ok{};
          },
          true, true};
}
Key numbers(std::string_view key, std::vector<int64_t>* to, int64_t low, int64_t high) {
  return {key, [=](const TextField& f) -> Status {
            PERI_ASSIGN(const int64_t v, text_int(f, low, high));
            to->push_back(v);
            return Ok{};
          }};
}
Key flag(std::string_view key, bool* to) {
  return {key,
          [to](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_bool(f));
            return Ok{};
          },
          true, true};
}
Key off(std::string_view key, std::string_view remedy) {
  return {key,
          [remedy](const TextField& f) -> Status {
            PERI_ASSIGN(const bool on, text_bool(f));
            if (on) return text_error(f, "asks for what this server does not do").expecting("false").advise(remedy);
            return Ok{};
          },
          true, true};
}
Key refuses(std::string_view key, std::string_view remedy) {
  return {key,
          [remedy](const TextField& f) -> Status {
            return text_error(f, "is a key of Triton's that means nothing here").advise(remedy);
          },
          false};
}
Key inner(std::string_view key, std::function<Status(const TextMessage&)> read) {
  return {key, [read = std::move(read)](const TextField& f) -> Status {
            PERI_ASSIGN(const TextMessage* m, text_message(f));
            return read(*m);
          }};
}
Key one(std::string_view key, std::function<Status(const TextMessage&)> read) {
  Key out = inner(key, std::move(read));
  out.once = true;
  return out;
}
Key choice(std::string_view key, std::vector<std::string_view> words, std::function<void(size_t)> take) {
  return {key,
          [words = std::move(words), take = std::move(take)](const TextField& f) -> Status {
            PERI_ASSIGN(const std::string word, text_word(f));
            const auto it = std::find(words.begin(), words.end(), word);
            std::string list;
            for (const auto& w : words) list += (list.empty() ? "" : ", ") + std::string(w);
            if (it == words.end()) return text_error(f, "is '" + word + "', which means nothing here").expecting(list);
            take(static_cast<size_t>(it - words.begin()));
            return Ok{};
          },
          true, true};
}

}  // namespace peri::serve::keys
