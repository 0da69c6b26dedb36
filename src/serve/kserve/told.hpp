// The part of an error that is shown to clients: subject and remedy, without file names.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

// A remedy that asks for a flag says whose limit that is: a client cannot give it. One of a build alone is left out.
inline std::string in_words_of_client(std::string remedy) {
  if (remedy.starts_with("build it for ")) return "";
  for (const auto& [of_program, of_server] :
       {std::pair{"raise it with --max-iterations, or", "the limit is this server's (--max-iterations):"},
        std::pair{"lower --max-iterations, or", "the limit of iterations is this server's (--max-iterations):"}})
    if (const size_t at = remedy.find(of_program); at != std::string::npos)
      remedy.replace(at, std::string_view(of_program).size(), of_server);
  return remedy;
}

inline std::string told(const Error& e) {
  std::string out = e.node.empty() ? e.message : "'" + e.node + "': " + e.message;
  if (!e.expected.empty()) out += ": expected " + e.expected;
  if (!e.found.empty()) out += (e.expected.empty() ? ": found " : ", found ") + e.found;
  if (const std::string remedy = in_words_of_client(without_paths(e.remedy)); !remedy.empty()) out += "; " + remedy;
  return out;
}

}  // namespace peri::serve
