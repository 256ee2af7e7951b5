#include "sdk/common/schema/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(HubName, SaysHowToGetTheFolder) {
  EXPECT_EQ(HubNameHint("Qwen/Qwen2.5-0.5B"),
            "'Qwen/Qwen2.5-0.5B' reads as a name on the Hugging Face hub, and Baton downloads "
            "nothing: fetch it with `hf download Qwen/Qwen2.5-0.5B --local-dir "
            "/models/Qwen2.5-0.5B` to a folder that controller and workers see, and give that "
            "folder");
  EXPECT_THAT(HubNameHint("mistralai/Mistral-7B-v0.1"), HasSubstr("mistralai/Mistral-7B-v0.1"));
}

TEST(HubName, PathsAreNoHubNames) {
  for (const char* path : {"", "model", "/models/x", "./models/x", "../x", "models/x/", "a/b/c",
                           "models//x", "my model/x", "job:first", "a/.hidden", "/x"}) {
    EXPECT_EQ(HubNameHint(path), "") << path;
  }
}

}  // namespace
}  // namespace baton
