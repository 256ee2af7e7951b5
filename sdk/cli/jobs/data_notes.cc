#include "sdk/cli/jobs/data_notes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::cli {
namespace {

std::string Have(uint64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? " has" : "s have");
}

std::string Unanswered(const v1::JobSpec& effective, const v1::DataFilesSummary& list) {
  const std::string& key = effective.data().answer_key();
  const std::string& place = list.unanswered_place();
  return absl::StrCat("warning: data.", list.list(), ": of ", list.examples(), " examples ",
                      Have(list.unanswered(), "line"), " no `", key.empty() ? "answer" : key,
                      "`, which ", list.answer_reader(),
                      " gets: a rule that compares with it gives them no reward, and code of your "
                      "own gets an empty "
                      "one. The first is ",
                      place.substr(place.rfind('/') + 1), ", with ", list.unanswered_keys(),
                      "; if one of its keys is the answer, name it with data.answer_key");
}

std::string Cut(const v1::JobSpec& effective, const v1::DataFilesSummary& list) {
  return absl::StrCat("warning: data.", list.list(), ": ", Have(list.cut_responses(), "example"),
                      " a response of more than data.max_response_length = ",
                      effective.data().max_response_length(),
                      " tokens, which is trained on without its end; raise it, or set "
                      "data.filter_overlong_responses: true to leave such lines out");
}

std::string Joined(const v1::DataFilesSummary& list) {
  return absl::StrCat(
      "warning: data.", list.list(), ": ", Have(list.joined_turns(), "conversation"),
      " other tokens here than by transformers' apply_chat_template (TRL), which encodes the whole "
      "at once: where a turn of the assistant begins or ends, one token there has text of both "
      "sides. Here the sides are encoded apart, as rollouts see them");
}

}  // namespace

std::vector<std::string> DataNotes(
    const v1::JobSpec& effective,
    const google::protobuf::RepeatedPtrField<v1::DataFilesSummary>& lists) {
  std::vector<std::string> out;
  std::vector<std::pair<std::string, std::string>> unused;  // keys, lists that have them
  for (const v1::DataFilesSummary& list : lists) {
    if (list.unanswered() > 0) out.push_back(Unanswered(effective, list));
    if (list.cut_responses() > 0) out.push_back(Cut(effective, list));
    if (list.joined_turns() > 0) out.push_back(Joined(list));
    if (list.unused_keys().empty()) continue;
    std::string keys = absl::StrCat("`", absl::StrJoin(list.unused_keys(), "`, `"), "`");
    if (!unused.empty() && unused.back().first == keys) {
      absl::StrAppend(&unused.back().second, " and data.", list.list());
    } else {
      unused.emplace_back(std::move(keys), absl::StrCat("data.", list.list()));
    }
  }
  for (const auto& [keys, named] : unused) {
    out.push_back(absl::StrCat(named, ": the job does not use these keys of the lines: ", keys));
  }
  return out;
}

}  // namespace baton::cli
