// The lines of `peri top`: the activity of a server between two samples, as wide as the terminal.
#pragma once

#include "base/json.hpp"
#include "cli/entry.hpp"

namespace peri::cli {

// `before`: null: since the models were loaded. `columns` of the terminal; 0: none, names are as long as they are.
// `rows` of the terminal that the lines are to fit: where not all fit, those of the busiest models, and how many are
// not shown; 0: all lines. Errors: not the status of a peri server.
Result<std::vector<std::string>> top_lines(const Json& now, const Json* before, size_t columns, size_t rows);
// The same data as a JSON object.
Result<std::string> top_json(const Json& now, const Json* before);

}  // namespace peri::cli
