#include "bench/engine/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstddef>

namespace baton::bench {
namespace {

std::atomic<int64_t> held{0}, peak{0};

/// An allocation of the inner allocator, with its size.
struct Block {
  c10::DataPtr memory;
  int64_t bytes;
};

void FreeBlock(void* context) {
  Block* block = static_cast<Block*>(context);
  held -= block->bytes;
  delete block;
}

class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) const override {
    auto* block = new Block{inner_->allocate(bytes), static_cast<int64_t>(bytes)};
    const int64_t now = held += block->bytes;
    int64_t before = peak.load();
    while (before < now && !peak.compare_exchange_weak(before, now)) {
    }
    void* data = block->memory.get();
    return {data, block, &FreeBlock, block->memory.device()};
  }

 private:
  c10::Allocator* const inner_;
};

}  // namespace

void CountTensorMemory() {
  static CountingAllocator allocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

int64_t TensorBytes() { return held.load(); }
int64_t PeakTensorBytes() { return peak.load(); }
void ResetPeakTensorBytes() { peak = held.load(); }

}  // namespace baton::bench
