// Structures as lists of numbers, for ranks that tell each other more than tensors. One function
// says what a structure has, for writing and reading:
//
//   template <typename Coder> void Code(Coder& coder, Request& request) {
//     coder.Number(request.id);
//     coder.Numbers(request.tokens);
//   }
#ifndef BATON_WORKERS_ENGINE_MODEL_NUMBER_CODER_H_
#define BATON_WORKERS_ENGINE_MODEL_NUMBER_CODER_H_

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace baton::engine {

class NumberWriter {
 public:
  /// Any trivial type of at most eight bytes.
  template <typename T>
  void Number(T& value) {
    int64_t number = 0;
    static_assert(sizeof(value) <= sizeof(number));
    std::memcpy(&number, &value, sizeof(value));
    numbers.push_back(number);
  }
  template <typename List>
  void Numbers(List& values) {
    numbers.push_back(static_cast<int64_t>(values.size()));
    for (auto& value : values) Number(value);
  }
  template <typename List>
  void Lists(List& lists) {
    numbers.push_back(static_cast<int64_t>(lists.size()));
    for (auto& list : lists) Numbers(list);
  }
  std::vector<int64_t> numbers;
};

/// Throws std::out_of_range past the end.
class NumberReader {
 public:
  explicit NumberReader(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {}
  bool done() const { return next_ == numbers_.size(); }

  template <typename T>
  void Number(T& value) {
    const int64_t number = numbers_.at(next_++);
    std::memcpy(&value, &number, sizeof(value));
  }
  template <typename List>
  void Numbers(List& values) {
    values.resize(static_cast<size_t>(numbers_.at(next_++)));
    for (auto& value : values) Number(value);
  }
  template <typename List>
  void Lists(List& lists) {
    lists.resize(static_cast<size_t>(numbers_.at(next_++)));
    for (auto& list : lists) Numbers(list);
  }

 private:
  const std::vector<int64_t> numbers_;
  size_t next_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_NUMBER_CODER_H_
