// Pages of lists: what a request asks for, and the token of the page after it.
//
// A token names the last item of its page and holds a digest of the question, so it is of no use
// with other filters. Callers make nothing of it but the next request.
#ifndef BATON_SDK_COMMON_RPC_PAGE_H_
#define BATON_SDK_COMMON_RPC_PAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace baton {

/// The part of a list that one request asks for.
class Page {
 public:
  /// `request` has fields `page_size` (0: `standard`; above `most`: `most`) and `page_token`; its
  /// other fields are the question. INVALID_ARGUMENT: PAGE_SIZE (it is negative), PAGE_TOKEN (not
  /// one that this question gave).
  static absl::StatusOr<Page> Read(const google::protobuf::Message& request, int standard,
                                   int most);

  /// Items, at least 1.
  int size() const { return size_; }
  /// No token was given: the list's beginning.
  bool first() const { return first_; }
  /// The position of the last item of the page before, as TokenAfter got it.
  const std::string& after() const { return after_; }
  /// The position after the token, as a number. INVALID_ARGUMENT (PAGE_TOKEN) when it is none.
  absl::StatusOr<int64_t> NumberAfter() const;

  /// The token of the page that follows the item at `position`.
  std::string TokenAfter(absl::string_view position) const;
  std::string TokenAfter(int64_t position) const;

 private:
  int size_ = 0;
  bool first_ = true;
  std::string after_;
  std::string question_;  // its digest
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_PAGE_H_
