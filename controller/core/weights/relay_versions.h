// Versions on their way from the actor's relay to the relays of other hosts.
//
// Owns what the controller knows of the relays of the job's hosts (RelayView), and since when the
// newest published version travels. A version becomes that of the rollouts at once everywhere, when
// it is visible on the host of each rollout: a chain of relays brings it to the last host little
// later than to the first, and until then all go on with the version before. A host that is much
// later than usual is left out: its rollouts get nothing to do until they can have the version.
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_RELAY_VERSIONS_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_RELAY_VERSIONS_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>

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

  /// Replaces what is known of relays.
  void See(RelayView view) { view_ = std::move(view); }
  /// The host's relay has lost the version, or never had it.
  void Lost(const std::string& worker, uint64_t version);
  /// The actor's relay has a version from now on.
  void BeginTravel(absl::Time now) { begun_ = now; }

  /// True if the relay of this worker's host is known.
  bool Knows(const std::string& worker) const { return view_.relay_of.count(worker) > 0; }
  /// The address of the relay of this worker's host; empty: it is not known.
  std::string AddressFor(const std::string& worker) const;
  /// True if this worker can load the version, which the actor's relay has. So can a worker whose
  /// relay the controller does not know: it is told nothing of it.
  bool IsAt(const std::string& worker, uint64_t version, const Roster& roster) const;
  /// True if the relay of this worker's host is known, and is not the actor's.
  bool IsApart(const std::string& worker, const Roster& roster) const;
  /// The relays of rollouts that do not have the version yet.
  std::set<std::string> Missing(uint64_t version, const Roster& roster) const;
  /// True if rollouts are to load the version now. Notes how long it travelled.
  bool Arrived(uint64_t version, const Roster& roster, absl::Time now);
  absl::Time begun() const { return begun_; }
  /// When the hosts that lack the version are left out.
  absl::Time patience_ends() const;

 private:
  RelayView view_;
  absl::Time begun_ = absl::InfinitePast();
  absl::Duration travelled_ = absl::InfiniteDuration();  // the version before; infinite: not known
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WEIGHTS_RELAY_VERSIONS_H_
