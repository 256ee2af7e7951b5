// The time and memory that one rendering may take.
//
// A template comes from outside, and values share their parts, so a short template can ask for
// walks and copies without end. Every walk and every copy spends, and it does so where data are
// reached, so that no builtin can forget it:
//   - lists, dicts, scopes and whatever else grows live in containers that allocate by Counted;
//   - RenderedText counts the text that it holds and spends for what is added to it;
//   - Value::text, items and entries spend for all that they give (jinja_value.h);
//   - searches and walks over characters are those of jinja_text.h.
// Operations of more than linear time (comparing, searching, sorting) spend by themselves.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_BUDGET_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace baton::tokenizer::jinja {

struct Account;

/// The budget of the innermost rendering of the calling thread. While there is none (values made
/// outside of it), nothing is counted. Functions throw Error of kind kLimit.
class Budget {
 public:
  /// A step is some tenths of a microsecond.
  static constexpr uint64_t kMaxSteps = 2000000;
  /// Bytes that values hold at a time, without those of the values that the rendering was given.
  static constexpr size_t kMaxHeldBytes = size_t{256} << 20;
  /// Longest text.
  static constexpr size_t kMaxTextBytes = size_t{16} << 20;
  /// Longest list.
  static constexpr size_t kMaxItems = kMaxTextBytes / 64;
  /// Longest name, and most named arguments of a call; these are not counted as held.
  static constexpr size_t kMaxNameBytes = 1000, kMaxNamedArguments = 1000;

  Budget();
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static void Spend(uint64_t steps);
  /// A walk, byte after byte: a step for each 64 bytes. One over values: as 8 bytes each.
  static void SpendWalk(uint64_t bytes);
  static constexpr uint64_t kWalkOfValue = 8;  ///< SpendWalk, for one value.
  /// Bytes that are read or compared as a whole: a step for each KiB.
  static void SpendCopy(uint64_t bytes);
  /// Before `added` bytes come to a text of `bytes`: a step for each 512 bytes, or 16 additions.
  static void SpendText(uint64_t bytes, uint64_t added);
  /// Before a list of so many items is made of them.
  static void SpendItems(uint64_t items);

 private:
  const std::shared_ptr<Account> account_;
  Account* const outer_;
};

/// While it lives, the calling thread counts nothing: for values that stay when a rendering ends.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  Account* const outer_;
};

/// Bytes that something holds: they count for the rendering in which it got the first of them, for
/// as long as it has them. It may outlive the rendering. Not thread-safe.
class Held {
 public:
  Held() = default;
  Held(Held&& other) noexcept;
  Held& operator=(Held&& other) noexcept;
  ~Held() { Release(); }

  /// Throws when the rendering holds too much.
  void Set(uint64_t bytes);

 private:
  void Release();

  std::shared_ptr<Account> account_;  // null: no rendering counts it
  uint64_t bytes_ = 0;
};

/// The rendering's account of a container, which Counted keeps.
std::shared_ptr<Account> CurrentAccount();
/// An allocation spends a quarter of a step, and one for each KiB.
void Allocate(Account* account, uint64_t bytes);
void Deallocate(Account* account, uint64_t bytes);

/// An allocator of containers: their memory counts for the rendering in which they were made.
template <class T>
class Counted {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  Counted() : account_(CurrentAccount()) {}
  template <class U>
  Counted(const Counted<U>& other) : account_(other.account_) {}  // NOLINT: as allocators do

  T* allocate(size_t count) {
    Allocate(account_.get(), count * sizeof(T));
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* at, size_t count) {
    Deallocate(account_.get(), count * sizeof(T));
    std::allocator<T>().deallocate(at, count);
  }
  /// A copy counts for the rendering that makes it.
  Counted select_on_container_copy_construction() const { return {}; }

  friend bool operator==(const Counted& a, const Counted& b) { return a.account_ == b.account_; }
  friend bool operator!=(const Counted& a, const Counted& b) { return !(a == b); }

 private:
  template <class U>
  friend class Counted;
  std::shared_ptr<Account> account_;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_BUDGET_H_
