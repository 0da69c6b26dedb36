// A check that fails inside a command ends it with an error of kind internal that names the file and what to do.
#include "base/fault.hpp"

#include <gtest/gtest.h>

#include "base/thread_pool.hpp"
#include "cli/console/arguments.hpp"

namespace peri::cli {
namespace {

Arguments arguments_of(const Command& command, std::vector<std::string> words) {
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  auto made = parse_arguments(command, raw);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

TEST(CommandFault, AFailedCheckIsAnErrorWithExitCodeOne) {
  const Command command{.name = "planted",
                        .summary = "",
                        .positional = "MODEL",
                        .min_positional = 1,
                        .max_positional = 1,
                        .flags = {},
                        .run = [](const Arguments&) -> Result<Outcome> {
                          ThreadPool pool(3);
                          pool.run(8, [](int64_t task, int) { PERI_CHECK(task != 5, "planted"); });
                          return Outcome{};
                        }};
  const auto outcome = run_command(command, arguments_of(command, {"model.onnx"}));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kInternal);
  EXPECT_EQ(exit_code(outcome.error().kind), 1);
  EXPECT_EQ(outcome.error().file, "model.onnx");
  EXPECT_NE(outcome.error().text().find("task != 5: planted"), std::string::npos) << outcome.error().text();
  EXPECT_NE(outcome.error().remedy.find("report"), std::string::npos);
}

}  // namespace
}  // namespace peri::cli
