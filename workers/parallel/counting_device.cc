#include "workers/parallel/counting_device.h"

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <string>
#include <utility>
#include <vector>

namespace baton::parallel {
namespace {

namespace transport = gloo::transport;

class CountingBuffer : public transport::UnboundBuffer {
 public:
  CountingBuffer(std::unique_ptr<transport::UnboundBuffer> buffer,
                 std::shared_ptr<TransportBytes> bytes)
      : transport::UnboundBuffer(buffer->ptr, buffer->size),
        buffer_(std::move(buffer)),
        bytes_(std::move(bytes)) {}

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    return buffer_->waitRecv(rank, timeout);
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    return buffer_->waitSend(rank, timeout);
  }
  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }

  void send(int rank, uint64_t slot, size_t offset, size_t nbytes) override {
    bytes_->sent += Length(offset, nbytes);
    buffer_->send(rank, slot, offset, nbytes);
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t nbytes) override {
    bytes_->received += Length(offset, nbytes);
    buffer_->recv(rank, slot, offset, nbytes);
  }
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t nbytes) override {
    bytes_->received += Length(offset, nbytes);
    buffer_->recv(std::move(ranks), slot, offset, nbytes);
  }

 private:
  int64_t Length(size_t offset, size_t nbytes) const {
    return static_cast<int64_t>(nbytes == kUnspecifiedByteCount ? size - offset : nbytes);
  }

  const std::unique_ptr<transport::UnboundBuffer> buffer_;
  const std::shared_ptr<TransportBytes> bytes_;
};

/// Pairs are the inner context's own; buffers are wrapped.
class CountingContext : public transport::Context {
 public:
  CountingContext(std::shared_ptr<transport::Context> context,
                  std::shared_ptr<TransportBytes> bytes)
      : transport::Context(context->rank, context->size),
        context_(std::move(context)),
        bytes_(std::move(bytes)) {}

  std::unique_ptr<transport::Pair>& getPair(int rank) override { return context_->getPair(rank); }
  std::unique_ptr<transport::Pair>& createPair(int rank) override {
    context_->setTimeout(getTimeout());  // setTimeout is not virtual.
    return context_->createPair(rank);
  }
  std::unique_ptr<transport::UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override {
    return std::make_unique<CountingBuffer>(context_->createUnboundBuffer(ptr, size), bytes_);
  }

 private:
  const std::shared_ptr<transport::Context> context_;
  const std::shared_ptr<TransportBytes> bytes_;
};

class CountingDevice : public transport::Device {
 public:
  CountingDevice(std::shared_ptr<transport::Device> device, std::shared_ptr<TransportBytes> bytes)
      : device_(std::move(device)), bytes_(std::move(bytes)) {}

  std::string str() const override { return device_->str(); }
  const std::string& getPCIBusID() const override { return device_->getPCIBusID(); }
  int getInterfaceSpeed() const override { return device_->getInterfaceSpeed(); }
  bool hasGPUDirect() const override { return device_->hasGPUDirect(); }
  std::shared_ptr<transport::Context> createContext(int rank, int size) override {
    return std::make_shared<CountingContext>(device_->createContext(rank, size), bytes_);
  }

 private:
  const std::shared_ptr<transport::Device> device_;
  const std::shared_ptr<TransportBytes> bytes_;
};

}  // namespace

std::shared_ptr<transport::Device> CountBytes(std::shared_ptr<transport::Device> device,
                                              std::shared_ptr<TransportBytes> bytes) {
  return std::make_shared<CountingDevice>(std::move(device), std::move(bytes));
}

}  // namespace baton::parallel
