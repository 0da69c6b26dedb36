// The one-line text of an anchor with its epilogue.
#pragma once

#include <optional>

#include "problem/problem.hpp"

namespace peri::problem {

// None where no line parses back to exactly this problem.
std::optional<std::string> line_of(const ir::Graph& graph, const std::vector<bool>& weights);
Result<Problem> parse_line(std::string_view line);

// Words of a text, separated by spaces outside brackets and quotes.
std::vector<std::string_view> words_of(std::string_view text);
// Elements of a list, separated by commas outside brackets and quotes.
std::vector<std::string_view> parts_of(std::string_view list);
// The facts that precede a graph or are part of a line, as words: "weights=x1,x3", "weights=none".
std::string facts_text(const ir::Graph& graph, const std::vector<bool>& weights, const std::vector<bool>& expected);
// True if the word is a fact, which is then applied to `problem`.
Result<bool> take_fact(std::string_view word, const ir::Graph& graph, Problem* problem);

}  // namespace peri::problem
