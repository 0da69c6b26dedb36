// What a region requires of the machine: arithmetic and data movement, and the part of both that no run can avoid.
#pragma once

#include "bench/ceilings.hpp"
#include "ir/graph.hpp"

namespace peri::tune {

struct RegionWork {
  double flops = 0;            // of the definition
  double algorithm_flops = 0;  // of the algorithm chosen
  double byte_flops = 0;       // of those, products of 8-bit integers, for which processors have separate units
  double bytes = 0;            // arguments that are read in full, and results, once
  bench::Work least;           // the unavoidable part of these: for the floor
};

// REQUIRES concrete dims. `offer_flops`: as the candidate's offer states for the anchor; 0: as the definition.
RegionWork work_of(const ir::Graph& region, double offer_flops);
void write_work(JsonWriter& w, const RegionWork& work);  // an object
Result<RegionWork> read_work(const Json& json);

}  // namespace peri::tune
