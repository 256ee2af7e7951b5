// The bytes that this process has received over its TCP connections, as the kernel counts them.
#ifndef BATON_BENCH_ENGINE_SOCKET_BYTES_H_
#define BATON_BENCH_ENGINE_SOCKET_BYTES_H_

#include <cstdint>

namespace baton::bench {

/// Bytes of all TCP connections that are open now, headers of messages included, those of packets
/// not.
int64_t SocketBytesReceived();

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_SOCKET_BYTES_H_
