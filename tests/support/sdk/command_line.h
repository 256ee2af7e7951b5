// The command in tests: what it prints and answers to the shell, and files for it to read.
#ifndef BATON_TESTS_SUPPORT_SDK_COMMAND_LINE_H_
#define BATON_TESTS_SUPPORT_SDK_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/command_line.h"
#include "sdk/common/base/test_folder.h"

namespace baton::cli {

struct Outcome {
  int code = -1;
  std::string out, err;
};

/// `baton` with these arguments, in this process.
inline Outcome RunBaton(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"baton"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  Outcome outcome;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  outcome.code = RunCommandLine(static_cast<int>(argv.size()), argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

/// A test of commands. `Run` says what all of its calls have in common.
class CommandTest : public ::testing::Test {
 protected:
  virtual Outcome Run(std::vector<std::string> arguments) const = 0;
  /// The answer of a call that succeeds, with `-o json`.
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"-o", "json"});
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }
  /// A file of the test's folder, by its name there; its path.
  std::string Write(const std::string& name, const std::string& text) const {
    folder_.Write(name, text);
    return folder_.path(name);
  }

  const TestFolder folder_;  ///< Goes with the test.
};

}  // namespace baton::cli

#endif  // BATON_TESTS_SUPPORT_SDK_COMMAND_LINE_H_
