// Hosts of the bench, each a child process; where the machine permits it each in a network
// namespace of its own, behind a link of limited rate.
#ifndef BATON_BENCH_RELAY_HOST_NETWORK_H_
#define BATON_BENCH_RELAY_HOST_NETWORK_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "sdk/common/base/test_folder.h"

namespace baton::bench {

/// One child process (bench_host.h). One thread. A host that ends too early, or does not answer,
/// ends the bench.
class Host {
 public:
  /// `arguments`: of the child; the first is a path.
  explicit Host(std::vector<std::string> arguments);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void Tell(const std::string& line);
  /// The rest of the next line that begins with this word. Other lines wait for their turn.
  std::string Expect(const std::string& word, absl::Duration limit = absl::Seconds(130));
  int64_t ExpectNumber(const std::string& word) { return std::stoll(Expect(word)); }
  /// SIGKILL.
  void Kill();
  /// Of its relay; from its first line.
  const std::string& address() const { return address_; }
  /// Without the port.
  std::string ip() const { return address_.substr(0, address_.rfind(':')); }

 private:
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  std::string unread_;
  std::deque<std::string> lines_;
  std::string address_;
};

/// Makes hosts. With namespaces: a switch to which each host has a link of this rate in either
/// direction; otherwise all hosts share the loopback interface. Takes everything down at its end.
class HostNetwork {
 public:
  struct Options {
    bool loopback = false;  ///< Even where namespaces are permitted.
    std::string rate = "250mbit";
    int burst_bytes = 128 << 10;
  };
  explicit HostNetwork(Options options);
  ~HostNetwork();

  /// Empty: hosts have namespaces; otherwise why they do not.
  const std::string& why_loopback() const { return why_loopback_; }
  std::unique_ptr<Host> NewHost();

 private:
  /// False, with what it said in why_loopback_.
  bool Run(const std::string& command);
  bool Ip(const std::string& arguments);
  bool MakeNamespace(int number);

  const Options options_;
  const std::string prefix_;  ///< Of the names of links and namespaces.
  const TestFolder folder_;
  std::string why_loopback_;
  int hosts_ = 0;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_RELAY_HOST_NETWORK_H_
