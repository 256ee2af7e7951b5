// A Gloo device that counts the bytes its buffers send and receive: those that collectives really
// move, whatever their algorithm.
#ifndef BATON_WORKERS_PARALLEL_COUNTING_DEVICE_H_
#define BATON_WORKERS_PARALLEL_COUNTING_DEVICE_H_

#include <gloo/transport/device.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace baton::parallel {

/// Payload bytes, message headers not counted. Any thread.
struct TransportBytes {
  std::atomic<int64_t> sent{0};
  std::atomic<int64_t> received{0};
};

/// `device` with its traffic added to `bytes`. (Gloo's older algorithms, which bind buffers to
/// pairs, are not counted; libtorch uses none of them.)
std::shared_ptr<gloo::transport::Device> CountBytes(std::shared_ptr<gloo::transport::Device> device,
                                                    std::shared_ptr<TransportBytes> bytes);

}  // namespace baton::parallel

#endif  // BATON_WORKERS_PARALLEL_COUNTING_DEVICE_H_
