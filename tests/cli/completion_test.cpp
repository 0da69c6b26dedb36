// What shells complete is every command and flag there is, and bash, where it is installed, takes the script.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/console/arguments.hpp"

namespace peri::cli {
namespace {

std::string script(const std::string& shell) {
  Arguments a;
  a.positional = {shell};
  a.values["--json"] = {"-"};  // not to standard output
  const auto made = find("completion")->run(a);
  if (!made.ok()) return "";
  const auto json = parse_json(made->json);
  return std::string(json->get_string("script").value());
}

TEST(Completion, KnowsEveryCommandAndFlag) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string text = script(shell);
    for (const Entry* e : entries()) {
      if (e->command.hidden) continue;
      EXPECT_NE(text.find(e->command.name), std::string::npos) << shell << " " << e->command.name;
      for (const Flag& f : e->command.flags) {
        const std::string_view name = std::string_view(shell) == "fish" ? f.name.substr(2) : f.name;
        EXPECT_NE(text.find(name), std::string::npos) << shell << " " << e->command.name << " " << name;
      }
    }
  }
  EXPECT_EQ(script("csh"), "");
}

TEST(Completion, IsTakenByBash) {
  const std::string path = (std::filesystem::temp_directory_path() / "peri_completion_test.bash").string();
  ASSERT_TRUE(
      write_file_atomic(
          path,
          script("bash") +
              "COMP_WORDS=(peri build --lo)\nCOMP_CWORD=2\n_peri\n[[ ${COMPREPLY[*]} == '--lock --locked --log' ]]\n"
              "COMP_WORDS=(peri build --dtype b)\nCOMP_CWORD=3\n_peri\n[[ ${COMPREPLY[*]} == bf16 ]] || exit 4\n"
              "COMP_WORDS=(peri serve --model-control-mode p)\n_peri\n[[ ${COMPREPLY[*]} == poll ]] || exit 8\n"
              "COMP_WORDS=(peri serve --log-format I)\n_peri\n[[ ${COMPREPLY[*]} == ISO8601 ]] || exit 9\n"
              "COMP_WORDS=(peri build --threads '')\n_peri\n[[ -z ${COMPREPLY[*]} ]] || exit 5\n"
              "COMP_WORDS=(peri build --locked /etc/host)\n_peri\n[[ ${COMPREPLY[*]} == */etc/hosts* ]] || exit 6\n"
              "COMP_WORDS=(peri serve --http-socket /etc/host)\n_peri\n[[ ${COMPREPLY[*]} == */etc/hosts* ]] || exit "
              "10\n"
              "COMP_WORDS=(peri bench --input-data z)\n_peri\n[[ ${COMPREPLY[*]} == zero* ]] || exit 11\n"
              "COMP_WORDS=(peri help compl)\nCOMP_CWORD=2\n_peri\n[[ ${COMPREPLY[*]} == completion ]] || exit 7\n"
              "COMP_WORDS=(peri cache l)\n_peri\n[[ ${COMPREPLY[*]} == list ]] || exit 3\n")
          .ok());
  EXPECT_EQ(std::system(("bash -e " + path).c_str()), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace peri::cli
