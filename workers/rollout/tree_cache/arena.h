// A growing array whose elements are named by 32-bit indices. Private to the tree cache.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_ARENA_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace baton::rollout {

/// Owns its elements; frees them all at once. It grows by half, so references to elements hold only
/// until the next Extend, and indices hold for ever. The first element is aligned to a cache line.
/// One thread at a time.
template <typename T>
class Arena {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  Arena() = default;
  ~Arena() { std::free(data_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  /// Appends `count` elements without values, and returns the index of the first.
  uint32_t Extend(uint32_t count) {
    const uint32_t first = size_;
    if (size_ + count > capacity_) Grow(size_ + count);
    size_ += count;
    return first;
  }

  T& operator[](uint32_t index) { return data_[index]; }
  const T& operator[](uint32_t index) const { return data_[index]; }

  uint32_t size() const { return size_; }
  /// Bytes that it has allocated, its unused rest included.
  int64_t capacity_bytes() const { return capacity_ * static_cast<int64_t>(sizeof(T)); }

 private:
  static constexpr size_t kLine = 64;

  void Grow(uint32_t needed) {
    size_t bytes = sizeof(T) * (needed + size_t{needed} / 2);
    bytes = (bytes + kLine - 1) / kLine * kLine;
    void* const grown = std::aligned_alloc(kLine, bytes);
    if (grown == nullptr) throw std::bad_alloc();
    if (size_ > 0) std::memcpy(grown, data_, sizeof(T) * size_);
    std::free(data_);
    data_ = static_cast<T*>(grown);
    capacity_ = static_cast<uint32_t>(bytes / sizeof(T));
  }

  T* data_ = nullptr;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_ARENA_H_
