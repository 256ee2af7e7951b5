#include "sdk/common/rpc/page.h"

#include "baton/v1/access_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

v1::ListTrajectoriesRequest Question(const std::string& job, int64_t step) {
  v1::ListTrajectoriesRequest request;
  request.set_name(job);
  request.set_step(step);
  return request;
}

TEST(PageTest, SizesAreBoundedAndNegativeOnesRefused) {
  v1::ListTrajectoriesRequest request = Question("j", 1);
  for (const auto& [asked, size] : {std::pair(0, 20), {1, 1}, {1000, 1000}, {5000, 1000}}) {
    request.set_page_size(asked);
    const auto page = Page::Read(request, 20, 1000);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->size(), size);
    EXPECT_TRUE(page->first());
  }
  request.set_page_size(-1);
  const absl::Status refused = Page::Read(request, 20, 1000).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(refused), "PAGE_SIZE");
  EXPECT_EQ(refused.message(), "page_size is -1, not 1 to 1000 (0: 20)");
}

TEST(PageTest, ATokenServesItsOwnQuestionWithAnySize) {
  v1::ListTrajectoriesRequest request = Question("j", 1);
  const std::string position("a\0\xff", 3);
  request.set_page_token(Page::Read(request, 20, 1000)->TokenAfter(position));
  request.set_page_size(7);
  const auto next = Page::Read(request, 20, 1000);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(next->first());
  EXPECT_EQ(next->after(), position);
  EXPECT_EQ(next->size(), 7);
  // The same question gives the same token on every page.
  EXPECT_EQ(next->TokenAfter(position), request.page_token());
  EXPECT_EQ(next->NumberAfter().status().code(), absl::StatusCode::kInvalidArgument);
  request.set_page_token(next->TokenAfter(int64_t{-42}));
  EXPECT_EQ(*Page::Read(request, 20, 1000)->NumberAfter(), -42);
}

TEST(PageTest, ATokenOfAnotherQuestionIsRefused) {
  const v1::ListTrajectoriesRequest asked = Question("j", 1);
  const std::string token = Page::Read(asked, 20, 1000)->TokenAfter(3);
  v1::ListTrajectoriesRequest filtered = asked;
  filtered.set_purpose(v1::PURPOSE_EVAL);
  for (v1::ListTrajectoriesRequest other : {Question("k", 1), Question("j", 2), filtered}) {
    other.set_page_token(token);
    EXPECT_EQ(ErrorReason(Page::Read(other, 20, 1000).status()), "PAGE_TOKEN");
  }
  v1::ListTokensRequest tokens;  // a list without filters
  v1::ListProjectsRequest projects;
  projects.set_page_token(Page::Read(tokens, 20, 1000)->TokenAfter("x"));
  EXPECT_EQ(ErrorReason(Page::Read(projects, 20, 1000).status()), "PAGE_TOKEN");
  for (const std::string& text :
       {std::string("x"), std::string("0"), token + "0", token + "zz", token.substr(1)}) {
    v1::ListTrajectoriesRequest request = asked;
    request.set_page_token(text);
    EXPECT_EQ(ErrorReason(Page::Read(request, 20, 1000).status()), "PAGE_TOKEN") << text;
  }
}

}  // namespace
}  // namespace baton
