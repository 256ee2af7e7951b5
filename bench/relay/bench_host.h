// A host of the bench: a process with a relay that is a member of chains. It obeys lines of
// standard input, and answers each with a line:
//
//   publish JOB VERSION BYTES    published NANOSECONDS    when the version was sealed here
//   follow JOB GENERATION RELAYS NEXT    following        NEXT: an address, or -
//   wait JOB VERSION             has NANOSECONDS          when a reader found the version here
//   received                     received BYTES           of versions, so far
//   sent                         sent BYTES               by the network interface, so far
//   sink                         sink PORT, then sunk NANOSECONDS   reads one plain connection to
//   its end send ADDRESS BYTES           sending NANOSECONDS      writes them into one plain
//   connection
//
// `broken NEXT` comes unasked, when the connection to the next relay breaks. Times are those of the
// machine's boot clock, which all hosts share.
#ifndef BATON_BENCH_RELAY_BENCH_HOST_H_
#define BATON_BENCH_RELAY_BENCH_HOST_H_

#include <string>

namespace baton::bench {

/// The program of a host; its exit code. `shm`: the folder of segments; `own_shm`: mounts memory
/// there first. `address`: of this host.
int RunBenchHost(const std::string& address, const std::string& shm, bool own_shm);

}  // namespace baton::bench

#endif  // BATON_BENCH_RELAY_BENCH_HOST_H_
