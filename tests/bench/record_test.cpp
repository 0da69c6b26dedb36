// A measurement is read as it was written; throughput is what was done in the time that passed; what is no record is
// refused.
#include "bench/record.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.hpp"
#include "tests/bench/records.hpp"
#include "tests/places.hpp"

namespace peri::bench {
namespace {

TEST(Record, ThroughputIsRunsDoneInTheTimeThatPassed) {
  Record r = made_up(1, 1, 1);
  r.processes[0].samples_ms = {1, 1, 1, 1};  // a thousand a second, if nothing lay between
  r.processes[0].wall_s = 0.5;
  r.items_per_run = 8;
  EXPECT_DOUBLE_EQ(r.runs_per_s(), 8);
  EXPECT_DOUBLE_EQ(r.items_per_s(), 64);
  r.processes.push_back(r.processes[0]);
  EXPECT_DOUBLE_EQ(r.runs_per_s(), 8) << "processes ran one after another";
  const auto json = parse_json(record_json(r));
  EXPECT_DOUBLE_EQ(json->get_double("runs_per_s").value(), 8);
  EXPECT_DOUBLE_EQ(json->get_double("items_per_s").value(), 64);
  EXPECT_EQ(json->find("throughput_per_s"), nullptr);
}

TEST(Record, ItemsAreTheCommonFirstAxis) {
  const auto t = [](std::vector<int64_t> dims) { return Tensor::zeros(DType::kF32, dims).value(); };
  const std::vector<Tensor> images = {t({8, 3, 4, 4})}, classes = {t({8, 10}), t({8})}, one_image = {t({3, 4, 4})},
                            odd = {t({8, 2}), t({2, 8})}, scalar = {t({}), t({8, 2})};
  EXPECT_EQ(items_of(images, classes), 8);
  EXPECT_EQ(items_of(one_image, classes), 1) << "three channels are not batch";
  EXPECT_EQ(items_of(images, odd), 1);
  EXPECT_EQ(items_of(images, scalar), 8) << "a scalar has no axis";
  EXPECT_EQ(items_of({}, {}), 1);
  EXPECT_EQ(items_of({}, classes), 1) << "what takes no input has no batch";
}

TEST(Record, IsReadAsItWasWritten) {
  Record r = made_up(2.5, 3, 7);
  r.interrupted = true;
  r.unstable = "no";
  r.disturbed = {"others"};
  r.tuned = false;
  r.items_per_run = 4;
  r.arena_bytes = 1234;
  r.layers = {{"conv1", "cpu", "conv_f32@1 {}", 0.5}, {"copy", "copy", "", 0.25}};
  r.layer_runs = 9;
  const std::string text = record_json(r);
  const auto back = read_record(text);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(record_json(*back), text);
  EXPECT_EQ(back->processes.size(), 3u);
  EXPECT_EQ(back->per_process(), r.per_process());
  EXPECT_EQ(back->layers.size(), 2u);
  EXPECT_EQ(back->layer_runs, 9);
  EXPECT_EQ(back->dims, r.dims);
  EXPECT_TRUE(back->interrupted);
  EXPECT_FALSE(back->tuned);
}

DeviceReport on_gpu(double ms) {
  DeviceReport r;
  r.device = "cuda:0";
  r.resident = summarize({ms, 1.1 * ms, 1.2 * ms});
  r.with_copies = summarize({2 * ms, 3 * ms});
  r.device_bytes = static_cast<int64_t>(1000 * ms);
  r.given = "in place";
  return r;
}

TEST(Record, WhatADeviceDidIsReadAsItWasWritten) {
  Record r = made_up(2.5, 1, 7);
  r.on_device = on_gpu(0.5);
  EXPECT_EQ(record_json(read_record(record_json(r)).value()), record_json(r));
  r.on_device.resident.reset();
  r.on_device.why_not_resident = "input 'x' lies on the host";
  EXPECT_EQ(record_json(read_record(record_json(r)).value()), record_json(r));
}

TEST(Record, MergedHasTheDeviceOfAllProcesses) {
  std::vector<Record> parts(3, made_up(1, 1, 1));
  parts[1].on_device = on_gpu(1);
  parts[2].on_device = on_gpu(4);
  const Record all = merged(std::move(parts));
  EXPECT_EQ(all.on_device.device, "cuda:0");
  EXPECT_EQ(all.on_device.device_bytes, 4000);
  ASSERT_TRUE(all.on_device.resident);
  EXPECT_EQ(all.on_device.resident->samples_ms.size(), 6u);
  EXPECT_DOUBLE_EQ(all.on_device.resident->median_ms, (1.1 + 4.4) / 2) << "the mean of the processes' medians";
  EXPECT_EQ(all.on_device.with_copies.samples_ms, (std::vector<double>{2, 3, 8, 12}));
}

TEST(Record, EveryKeyIsInTheDocuments) {
  Record r = made_up(2.5, 1, 7);
  r.on_device = on_gpu(0.5);
  r.layers = {{"conv1", "cpu", "conv_f32@1 {}", 0.5}};
  const std::string page = read_file(std::string(tests::kSourceDir) + "/docs/json.md", 1 << 20).value();
  const Json json = parse_json(record_json(r)).value();
  // A value by its key; an array or an object by the keys of its parts.
  for (const Json::Member& m : json.members())
    EXPECT_TRUE(std::ranges::any_of(std::string_view("`.[{"), [&](char end) {
      return page.find("`" + m.key + end) != std::string::npos;
    })) << m.key;
}

TEST(Record, ManySamplesAreRead) {
  Record r = made_up(1, 2, 3, 0.001, 200000);
  for (ProcessRecord& p : r.processes)
    for (double& ms : p.samples_ms) ms = 0.5;  // short texts: many values in few bytes
  const auto back = read_record(record_json(r));
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->samples(), 400000u);
}

TEST(Record, WhatIsNoneIsRefused) {
  const std::string good = record_json(made_up(1, 2, 1));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  ASSERT_TRUE(read_record(good).ok());
  EXPECT_EQ(read_record(with("\"form\":2", "\"form\":3")).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read_record(with("\"form\":2", "\"form\":1")).error().kind, ErrorKind::kUnsupported)
      << "of the form before";
  EXPECT_EQ(read_record("{\"model\":\"m\"}").error().kind, ErrorKind::kInvalid) << "no measurement";
  EXPECT_FALSE(read_record(with("\"samples\":40", "\"samples\":41")).ok()) << "more than there are";
  EXPECT_FALSE(read_record(with("\"samples\":40", "\"samples\":39")).ok()) << "fewer than there are";
  EXPECT_FALSE(read_record(with("\"samples\":40", "\"samples\":-1")).ok());
  EXPECT_FALSE(read_record(with("\"samples\":[", "\"samples\":[-1,")).ok());
  for (const char* none : {"1e308", "1e-300", "0"}) {  // their sums or ratios are no numbers
    std::string text = with("\"samples\":40", "\"samples\":41");
    const size_t at = text.rfind("\"samples\":[") + std::string_view("\"samples\":[").size();
    const auto back = read_record(text.insert(at, std::string(none) + ","));
    ASSERT_FALSE(back.ok()) << none;
    EXPECT_NE(back.error().text().find("a sample of"), std::string::npos) << back.error().text();
  }
  EXPECT_FALSE(read_record(with("\"threads\":2", "\"threads\":0")).ok());
}

TEST(Record, MergedHasAllProcesses) {
  Record second = made_up(2, 1, 2);
  second.interrupted = true;
  second.disturbed = {"others used 1.3 CPUs", "others used 1.4 CPUs", "steal"};
  const Record all = merged({made_up(1, 1, 1), second});
  EXPECT_EQ(all.processes.size(), 2u);
  EXPECT_TRUE(all.interrupted);
  EXPECT_EQ(all.disturbed, (std::vector<std::string>{"others used 1.3 CPUs", "steal"}));
}

}  // namespace
}  // namespace peri::bench
