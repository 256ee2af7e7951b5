#include "sdk/worker/experience_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ExperienceClient, ACancelledTaskDoesNotWaitForASilentController) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);

  WorkerOptions options;
  options.controller = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  const ExperienceClient client(options);
  TaskContext context(v1::Task(), {});
  absl::Notification done;
  std::thread fetcher([&] {
    EXPECT_TRUE(absl::IsCancelled(client.FetchBatch(context).status()));
    done.Notify();
  });
  const int connection = accept(listener, nullptr, nullptr);  // and not a word
  EXPECT_GE(connection, 0);
  context.Cancel();
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(5)));
  close(connection);
  close(listener);
  fetcher.join();
}

}  // namespace
}  // namespace baton
