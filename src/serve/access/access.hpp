// Access control for every protocol: who may send requests, how often, and as which tenant. A request without a valid
// key is rejected here; a key's owner is the tenant whose share of a queue its requests use.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::serve {

struct AccessKey {
  std::string key, tenant;
  double per_second = 0;  // inferences; 0: unlimited
  double burst = 0;       // number that may arrive at once; at least 1 where there is a rate
};

constexpr uint32_t kNoKey = UINT32_MAX;

struct Pass {
  int status = 200;  // 401, 429: `why`
  std::string why;
  int64_t retry_after_ns = 0;
  uint32_t tenant = 0;        // 0: unnamed
  uint32_t charged = kNoKey;  // whose rate counts the request; kNoKey: none does
};

// One key per line: KEY [tenant=NAME] [rate=PER_SECOND] [burst=N]; '#' begins a comment. Errors name the line and never
// its contents; kRefused where others may read the file.
Result<std::vector<AccessKey>> read_keys(const std::string& path);
Result<std::vector<AccessKey>> parse_keys(std::string_view text, const std::string& file);

// Thread-safe.
class Access {
 public:
  // No keys: every request is allowed.
  explicit Access(std::vector<AccessKey> keys);
  // The key in the header's value, "Bearer KEY"; kNoKey: unknown. All keys are compared, so this is called once per
  // request.
  uint32_t find(std::string_view authorization) const;
  // The permissions of the key's owner. `inference`: counts towards the key's rate.
  Pass admit(uint32_t key, bool inference, int64_t now);
  Pass admit(std::string_view authorization, bool inference, int64_t now) {
    return admit(find(authorization), inference, now);
  }
  // The request was refused: the rate of the key that it was `charged` to does not count it.
  void give_back(uint32_t charged);
  bool open() const { return keys_.empty(); }

 private:
  struct Bucket {
    double tokens = 0;
    int64_t at_ns = 0;
    bool begun = false;
  };
  const std::vector<AccessKey> keys_;
  std::vector<uint32_t> tenants_;  // by key
  std::mutex mutex_;
  std::vector<Bucket> buckets_;  // by key
};

}  // namespace peri::serve
