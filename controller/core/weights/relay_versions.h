// Versions on their way from the actor's relay to the relays of other hosts.
//
// Owns what the controller knows of the relays of the job's hosts (RelayView), and since when which
// published versions travel. A version becomes that of the rollouts everywhere at once, when it is
// visible on the host of each rollout: a chain of relays brings it to the last host little later
// than to the first, and until then all go on with the version before. A host that is much later
// than usual is left out until it has caught up: its rollouts get nothing to do meanwhile, and the
// others do not wait for it.
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_RELAY_VERSIONS_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_RELAY_VERSIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "controller/cluster/worker_exchange.h"
#include "controller/core/job/roster.h"

namespace baton::controller {

class RelayVersions {
 public:
  /// How long a version may travel before the hosts that lack it are left out: this long while it
  /// is not known how long it takes …
  static constexpr absl::Duration kFirstPatience = absl::Minutes(10);
  /// … later so many times as long as the version before took, but not less than the minimum.
  static constexpr int kPatience = 4;
  static constexpr absl::Duration kLeastPatience = absl::Seconds(30);
  /// A worker that did not find a version that its host is said to have looks again after this.
  static constexpr absl::Duration kLookAgain = absl::Seconds(2);

  /// Some relay was known before this controller started.
  void Restore(bool known) { known_ = known; }
  /// Some relay of the job's hosts is, or was, attached.
  bool known() const { return known_; }
  /// What See is about to hear of relays that went to the tail of the chain, for people.
  std::vector<std::string> NewlySlow(const RelayView& view);
  /// Relays are known, and what each has was heard since this controller started.
  bool seen() const { return !known_ || seen_; }
  /// Replaces what is known of relays. True: the relay of the actor's host is another process than
  /// before, which has nothing of what was published.
  bool See(RelayView view, const Roster& roster, absl::Time now);
  /// The worker did not find the version.
  void Lost(const std::string& worker, uint64_t version, absl::Time now) {
    lost_[worker] = {version, now};
  }
  /// Time has passed.
  void LookAgain(absl::Time now);

  /// Every deadline moves by that time.
  void Delay(absl::Duration duration, absl::Time now);

  /// The actor's relay has the version from now on.
  void BeginTravel(uint64_t version, const Roster& roster, absl::Time now);
  /// What was published is gone, or nothing travels.
  void EndTravel() { travels_.clear(); }
  /// The newest travelling version that rollouts are to load now; 0: none. It travels no longer,
  /// nor do older ones.
  uint64_t Arrived(const Roster& roster, absl::Time now);
  /// Versions on their way, oldest first.
  std::vector<uint64_t> travelling() const;
  /// Since when the oldest one is, and when the hosts that lack it are left out.
  absl::Time begun() const;
  absl::Time patience_ends() const;

  /// True if this worker can load the version, which the actor's relay has. So can a worker that
  /// knows its relay by itself.
  bool IsAt(const std::string& worker, uint64_t version, const Roster& roster) const;
  /// True if this worker's host has another relay than the actor's, or one that is not attached.
  bool IsApart(const std::string& worker, const Roster& roster) const;
  /// The relay of this worker's host, for people: with what is known of why it gets nothing.
  std::string RelayText(const std::string& worker) const;
  /// The same of a relay.
  std::string TextOf(const std::string& relay) const;
  /// True if the relay of this worker's host is attached, or the worker knows it by itself.
  bool Knows(const std::string& worker) const;
  /// The address of the relay of this worker's host; empty: it is not known.
  std::string AddressFor(const std::string& worker) const;
  /// Of the last version of each hop between two relays: `weights/sent_bytes` of all hops together,
  /// `weights/sent_over_size`, and `weights/hop_seconds` of the slowest. None without hops.
  std::map<std::string, double> Metrics() const;
  /// The relays of rollouts' hosts, of those that are attached, that do not have the version.
  std::set<std::string> Missing(uint64_t version, const Roster& roster) const;

 private:
  struct Travel {
    uint64_t version = 0;
    absl::Time begun;
    bool apart = false;  // some host lacked it at first
  };
  struct Loss {
    uint64_t version = 0;
    absl::Time at;
  };

  std::set<std::string> WaitedFor(uint64_t version, const Roster& roster) const;

  bool known_ = false;
  bool seen_ = false;  // since this controller started
  RelayView view_;
  std::map<std::string, Loss> lost_;  // by worker
  std::deque<Travel> travels_;        // oldest first
  Travel last_;                       // the last that arrived
  std::set<std::string> left_out_;    // relays
  std::set<std::string> told_slow_;   // relays
  // How long a version travelled before it was everywhere; infinite: not known.
  absl::Duration travelled_ = absl::InfiniteDuration();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WEIGHTS_RELAY_VERSIONS_H_
