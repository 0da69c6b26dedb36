// Descriptions of the server and its models in the protocol: metadata, configuration, statistics, the index, as JSON.
#pragma once

#include <string>

#include "base/json.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

std::string describe_server(const std::string& name);
std::string describe_model(const Served& served, const std::vector<int64_t>& versions);
std::string describe_config(const Served& served);
std::string platform_of(const Served& served);
void write_dims(const Shape& shape, size_t from, JsonWriter& w);  // free dims as -1
std::string describe_statistics(const std::vector<ServedPtr>& models);
std::string describe_index(const std::vector<IndexRow>& rows);

}  // namespace peri::serve
