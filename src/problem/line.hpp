// The one line of an anchor with its epilogue.
#pragma once

#include <optional>

#include "problem/problem.hpp"

namespace peri::problem {

// None where the problem is not said by a line that gives the very same problem back.
std::optional<std::string> line_of(const ir::Graph& graph, const std::vector<bool>& weights);
Result<Problem> parse_line(std::string_view line);

// Words of a text: apart at spaces outside brackets and quotes.
std::vector<std::string_view> words_of(std::string_view text);
// Parts of a list: apart at commas outside brackets and quotes.
std::vector<std::string_view> parts_of(std::string_view list);
// The facts that stand as words before a graph or in a line: "weights=x1,x3", "weights=none".
std::string facts_text(const ir::Graph& graph, const std::vector<bool>& weights, const std::vector<bool>& expected);
// True if the word is a fact; it is taken.
Result<bool> take_fact(std::string_view word, const ir::Graph& graph, Problem* problem);

}  // namespace peri::problem
