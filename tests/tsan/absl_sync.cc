// Tells ThreadSanitizer what absl::Mutex, absl::BlockingCounter and the reference counts of
// absl::Status order.
//
// The distribution's Abseil is not instrumented, so TSan sees neither its atomics nor its futexes
// and would call everything that a Mutex guards a race. A TSan build links its tests with
// `--wrap=SYMBOL` for the functions below: calls from our code come here first.
// (Interface: <sanitizer/tsan_interface.h>.)
#include <sanitizer/tsan_interface.h>

#include <cstdint>

#include "absl/status/internal/status_internal.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);

// The functions that the linker puts behind each wrapped symbol. The names are Abseil's, mangled.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
void __real__ZN4absl7debian35Mutex4LockEv(absl::Mutex*);
void __real__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex*);
void __real__ZN4absl7debian35Mutex10ReaderLockEv(absl::Mutex*);
void __real__ZN4absl7debian35Mutex12ReaderUnlockEv(absl::Mutex*);
void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex*, const absl::Condition&);
bool __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex*, const absl::Condition&, absl::Duration);
void __real__ZN4absl7debian35MutexD1Ev(absl::Mutex*);
bool __real__ZN4absl7debian315BlockingCounter14DecrementCountEv(absl::BlockingCounter*);
void __real__ZN4absl7debian315BlockingCounter4WaitEv(absl::BlockingCounter*);
}

namespace {

/// While Abseil unlocks or waits it evaluates conditions, also those of other threads, with the
/// mutex held in a way that TSan cannot see.
class InsideAbseil {
 public:
  InsideAbseil() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~InsideAbseil() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  InsideAbseil(const InsideAbseil&) = delete;
  InsideAbseil& operator=(const InsideAbseil&) = delete;
};

// `kind`: __tsan_mutex_read_lock for a lock that readers share.
void Locked(void* mutex, unsigned kind = 0) {
  __tsan_mutex_pre_lock(mutex, kind);
  __tsan_mutex_post_lock(mutex, kind, 0);
}

void Unlocking(void* mutex, unsigned kind = 0) {
  __tsan_mutex_pre_unlock(mutex, kind);
  __tsan_mutex_post_unlock(mutex, kind);
}

}  // namespace

extern "C" {

void __wrap__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex) {
  {
    InsideAbseil inside;
    __real__ZN4absl7debian35Mutex4LockEv(mutex);
  }
  Locked(mutex);
}

void __wrap__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex) {
  Unlocking(mutex);
  InsideAbseil inside;
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
}

void __wrap__ZN4absl7debian35Mutex10ReaderLockEv(absl::Mutex* mutex) {
  {
    InsideAbseil inside;
    __real__ZN4absl7debian35Mutex10ReaderLockEv(mutex);
  }
  Locked(mutex, __tsan_mutex_read_lock);
}

void __wrap__ZN4absl7debian35Mutex12ReaderUnlockEv(absl::Mutex* mutex) {
  Unlocking(mutex, __tsan_mutex_read_lock);
  InsideAbseil inside;
  __real__ZN4absl7debian35Mutex12ReaderUnlockEv(mutex);
}

void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition) {
  Unlocking(mutex);
  {
    InsideAbseil inside;
    __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  }
  Locked(mutex);
}

bool __wrap__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  Unlocking(mutex);
  bool met;
  {
    InsideAbseil inside;
    met = __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
        mutex, condition, timeout);
  }
  Locked(mutex);
  return met;
}

void __wrap__ZN4absl7debian35MutexD1Ev(absl::Mutex* mutex) {
  __tsan_mutex_destroy(mutex, __tsan_mutex_linker_init);
  InsideAbseil inside;
  __real__ZN4absl7debian35MutexD1Ev(mutex);
}

bool __wrap__ZN4absl7debian315BlockingCounter14DecrementCountEv(absl::BlockingCounter* counter) {
  __tsan_release(counter);
  InsideAbseil inside;
  return __real__ZN4absl7debian315BlockingCounter14DecrementCountEv(counter);
}

void __wrap__ZN4absl7debian315BlockingCounter4WaitEv(absl::BlockingCounter* counter) {
  {
    InsideAbseil inside;
    __real__ZN4absl7debian315BlockingCounter4WaitEv(counter);
  }
  __tsan_acquire(counter);
}

// absl::Status::UnrefNonInlined(), done here where TSan sees the count: the thread that frees the
// text of a status does so after all readers.
void __wrap__ZN4absl7debian36Status15UnrefNonInlinedEm(uintptr_t tagged) {
  auto* rep = reinterpret_cast<absl::status_internal::StatusRep*>(tagged - 1);
  if (rep->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) delete rep;
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
}
