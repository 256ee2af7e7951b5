#include "workers/tokenizer/jinja/jinja_budget.h"

#include <utility>

#include "workers/tokenizer/jinja/jinja_error.h"

namespace baton::tokenizer::jinja {

/// Steps are counted in 64ths, which small things spend.
struct Account : std::enable_shared_from_this<Account> {
  uint64_t spent = 0;
  uint64_t held_bytes = 0;
  bool open = true;  ///< The rendering goes on: it can be refused something.
};

namespace {

constexpr uint64_t kUnits = 64;  // of a step
constexpr uint64_t kUnitsOfAllocation = kUnits / 4;
constexpr uint64_t kUnitsOfPart = kUnits / 16;  // of a text

thread_local Account* current_account = nullptr;

void SpendUnits(Account* account, uint64_t units) {
  if (account == nullptr || !account->open) return;
  account->spent += units;
  if (account->spent > Budget::kMaxSteps * kUnits) {
    throw Error{Error::Kind::kLimit, "the template takes more than two million steps"};
  }
}

void CheckHeld(const Account& account, uint64_t bytes) {
  if (account.open && bytes > Budget::kMaxHeldBytes) {
    throw Error{Error::Kind::kLimit, "the template's values take more than 256 MiB of memory"};
  }
}

}  // namespace

Budget::Budget() : account_(std::make_shared<Account>()), outer_(current_account) {
  current_account = account_.get();
}
Budget::~Budget() {
  account_->open = false;
  current_account = outer_;
}

void Budget::Spend(uint64_t steps) { SpendUnits(current_account, steps * kUnits); }
void Budget::SpendWalk(uint64_t bytes) { SpendUnits(current_account, bytes); }
void Budget::SpendCopy(uint64_t bytes) { SpendUnits(current_account, bytes / 16); }

void Budget::SpendText(uint64_t bytes, uint64_t added) {
  if (current_account == nullptr) return;
  if (bytes + added > kMaxTextBytes) {
    throw Error{Error::Kind::kLimit, "the template makes more than 16 MiB of text"};
  }
  SpendUnits(current_account, kUnitsOfPart + added / 8);
}

void Budget::SpendItems(uint64_t items) {
  if (current_account == nullptr) return;
  if (items > kMaxItems) {
    throw Error{Error::Kind::kLimit, "the template makes a list of more than 262144 items"};
  }
  SpendUnits(current_account, items);
}

Uncounted::Uncounted() : outer_(std::exchange(current_account, nullptr)) {}
Uncounted::~Uncounted() { current_account = outer_; }

Held::Held(Held&& other) noexcept
    : account_(std::move(other.account_)), bytes_(std::exchange(other.bytes_, 0)) {}

Held& Held::operator=(Held&& other) noexcept {
  if (this == &other) return *this;
  Release();
  account_ = std::move(other.account_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Held::Set(uint64_t bytes) {
  if (account_ == nullptr) {
    if (current_account == nullptr) return;
    account_ = current_account->shared_from_this();
  }
  account_->held_bytes += bytes - bytes_;
  bytes_ = bytes;
  CheckHeld(*account_, account_->held_bytes);
}

void Held::Release() {
  if (account_ == nullptr) return;
  account_->held_bytes -= bytes_;
  bytes_ = 0;
  account_.reset();
}

std::shared_ptr<Account> CurrentAccount() {
  return current_account == nullptr ? nullptr : current_account->shared_from_this();
}

void Allocate(Account* account, uint64_t bytes) {
  if (account == nullptr) return;
  SpendUnits(account, kUnitsOfAllocation + bytes / 16);
  CheckHeld(*account, account->held_bytes + bytes);
  account->held_bytes += bytes;
}

void Deallocate(Account* account, uint64_t bytes) {
  if (account != nullptr) account->held_bytes -= bytes;
}

}  // namespace baton::tokenizer::jinja
