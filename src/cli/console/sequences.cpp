// As perf_analyzer has them: as many sequences live as requests are in flight, or as are asked for at a rate.
#include "cli/console/sequences.hpp"

#include <charconv>

namespace peri::cli {

std::vector<Flag> sequence_flags() {
  return {
      {"--sequence-length", "", "N",
       "with --endpoint: requests of a sequence, one after another (default for a model with sequence_batching: those "
       "of a sequence of --input-data FILE, or 20; else no sequences)"},
      {"--sequence-length-variation", "", "PERCENT",
       "largest difference of a sequence's length from that (default 20)"},
      {"--sequence-id-range", "", "A:B", "correlation ids of sequences, in turn (default 1:4294967295)"},
      {"--num-of-sequences", "", "N",
       "of sequences at a rate: how many at once (default 4); else as many as --concurrency-range says"},
  };
}

Result<serve::SequenceTerms> sequences_of(const Arguments& a) {
  serve::SequenceTerms t;
  PERI_ASSIGN(t.length, a.number("--sequence-length", 1, int64_t{1} << 30, 0));
  PERI_ASSIGN(const double variation, a.real("--sequence-length-variation", 0, 100, 100 * t.variation));
  t.variation = variation / 100;
  const std::string ids = a.get("--sequence-id-range", "1:" + std::to_string(t.last_id));
  const char* at = ids.data();
  const char* const end = at + ids.size();
  auto read = std::from_chars(at, end, t.first_id);
  const bool more = read.ec == std::errc() && read.ptr != end && *read.ptr == ':';
  if (more) read = std::from_chars(read.ptr + 1, end, t.last_id);
  if (read.ec != std::errc() || read.ptr != end || t.first_id < 1 || t.last_id < t.first_id || t.last_id > INT64_MAX)
    return usage("--sequence-id-range is not FIRST or FIRST:LAST").expecting("whole numbers from 1 on").but_found(ids);
  return t;
}

Status take_sequences(const Arguments& a, const serve::SequenceTerms& ids, const serve::LoadFacts& facts,
                      std::vector<serve::LoadTerms>* points) {
  for (const char* flag : {"--sequence-length-variation", "--sequence-id-range", "--num-of-sequences"})
    if (facts.sequence == 0 && a.has(flag))
      return usage("%s is for sequences, and the model has no sequence_batching", flag)
          .advise("give --sequence-length N too, or leave it out");
  if (facts.sequence == 0) return Ok{};
  if (facts.listed && a.has("--sequence-length-variation"))
    return usage(
               "--sequence-length-variation is of --sequence-length, and the sequences of --input-data have their own")
        .advise("give --sequence-length N too, or leave it out");
  PERI_ASSIGN(const int64_t at_once, a.number("--num-of-sequences", 1, 60000, 4));
  if (a.has("--num-of-sequences") && !a.has("--request-rate-range"))
    return usage("--num-of-sequences is for loads at a rate").advise("--concurrency-range says how many are at once");
  if (a.has("--max-connections")) return usage("--max-connections is for requests that are of no sequence");
  for (serve::LoadTerms& t : *points) {
    t.sequences = true;
    t.connections = at_once;
    const int64_t most = t.rate > 0 ? at_once : t.concurrency;
    if (ids.last_id - ids.first_id + 1 < static_cast<uint64_t>(most))
      return usage("--sequence-id-range has fewer ids than there are sequences at once")
          .expecting("at least " + std::to_string(most));
  }
  return Ok{};
}

}  // namespace peri::cli
