// Converts Triton's queue settings to those of the scheduler.
#include "serve/repository/options.hpp"

#include <algorithm>
#include <cmath>

namespace peri::serve {

static LevelPolicy level_of(const QueueConfig& c, int64_t max_queue) {
  return {c.max_queue_size > 0 ? c.max_queue_size : max_queue, c.default_timeout_us * 1000, c.allow_timeout_override,
          c.delay};
}

// Sequences run concurrently in slots; each has few requests waiting, so the queue limit applies to the sequences.
static void queue_sequences(const ModelConfig& config, const Loaded& loaded, int64_t max_queue, ModelOptions* out) {
  const SequenceConfig& s = *config.sequences;
  const int64_t rows = std::max<int64_t>(config.max_batch_size, 1);
  const int64_t slots = std::max<int64_t>(config.instances(), 1) * (s.oldest ? s.candidates : rows);
  SequencePolicy sequences;
  sequences.slots = slots;
  if (s.idle_us > 0) sequences.idle_ns = s.idle_us * 1000;
  sequences.max_waiting = max_queue;
  out->sequences = sequences;
  QueuePolicy& queue = out->queue;
  queue.level = {.timeout_override = true};
  queue.most_waiting = slots;
  queue.sizes = loaded.batch_sizes;
  if (queue.sizes.empty()) return;
  // For "direct" the delay applies only below this share of the slots.
  const auto least = static_cast<int64_t>(std::ceil(s.minimum_utilization * static_cast<double>(rows)));
  if (s.oldest || least > 0) queue.max_delay_ns = s.max_queue_delay_us * 1000;
  for (const int64_t size : queue.sizes)
    if (s.oldest ? std::find(s.preferred.begin(), s.preferred.end(), size) != s.preferred.end()
                 : least > 0 && size >= least)
      queue.preferred.push_back(size);
}

Result<std::shared_ptr<Turns::Share>> share_of(const ModelConfig& config, Turns& turns) {
  Turns::Claim claim;
  claim.weight = config.weight();
  for (const ResourceClaim& c : config.rate_limit.claims) claim.holds[c.name] = {c.count, c.global};
  return turns.join(std::move(claim));
}

ModelOptions options_of(const ModelConfig& config, const Loaded& loaded, const RepositoryOptions& o) {
  ModelOptions out;
  out.inline_ns = o.inline_ns;
  out.queue.level.max_queue = o.max_queue;
  if (config.response_cache) out.cache = o.cache;
  if (config.sequences) queue_sequences(config, loaded, o.max_queue, &out);
  if (!config.batching) return out;
  const BatchingConfig& b = *config.batching;
  out.preserve_order = b.preserve_ordering;
  out.queue.sizes = loaded.batch_sizes;
  for (const int64_t p : b.preferred)
    if (std::binary_search(loaded.batch_sizes.begin(), loaded.batch_sizes.end(), p)) out.queue.preferred.push_back(p);
  if (!loaded.batch_sizes.empty()) out.queue.max_delay_ns = b.max_queue_delay_us * 1000;
  out.queue.level = level_of(b.queue, o.max_queue);
  if (b.priority_levels > 0) {
    out.queue.priority_levels = static_cast<int>(b.priority_levels);
    out.queue.default_priority = static_cast<int>(b.default_priority_level);
  }
  for (const auto& [level, queue] : b.priority_queues) out.queue.levels[level] = level_of(queue, o.max_queue);
  return out;
}

}  // namespace peri::serve
