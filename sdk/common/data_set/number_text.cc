#include "sdk/common/data_set/number_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The events of a parser become a value.
class Builder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  // Whole numbers without a sign come as unsigned ones, so 0 was written "-0".
  bool number_integer(int64_t value) override { return value == 0 ? PutText("-0") : Put(value); }
  bool number_unsigned(uint64_t value) override { return Put(value); }
  bool number_float(double, const std::string& text) override { return PutText(text); }
  bool string(std::string& value) override { return Put(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(size_t) override { return Open(Json::object()); }
  bool key(std::string& name) override {
    slot_ = &(*open_.back())[name];
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

  Json Take() && { return std::move(root_); }

 private:
  // Where the next value goes. What is open does not move: its parent grows only once it is closed.
  Json* Slot() {
    if (open_.empty()) return &root_;
    if (open_.back()->is_object()) return slot_;
    open_.back()->push_back(nullptr);
    return &open_.back()->back();
  }
  bool Put(Json value) {
    *Slot() = std::move(value);
    return true;
  }
  bool PutText(const std::string& text) {
    return Put(Json::binary(std::vector<uint8_t>(text.begin(), text.end())));
  }
  bool Open(Json empty) {
    Json* const slot = Slot();
    *slot = std::move(empty);
    open_.push_back(slot);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // objects and lists, the innermost last
  Json* slot_ = nullptr;     // of the innermost object's last key
};

std::string Text(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AppendObject(const Json& object, KeyOrder order, std::string* out) {
  std::vector<std::pair<const std::string*, const Json*>> fields;
  for (auto field = object.begin(); field != object.end(); ++field) {
    fields.emplace_back(&field.key(), &field.value());
  }
  if (order == KeyOrder::kSorted) {
    std::sort(fields.begin(), fields.end(),
              [](const auto& a, const auto& b) { return *a.first < *b.first; });
  }
  *out += '{';
  for (size_t i = 0; i < fields.size(); ++i) {
    absl::StrAppend(out, i == 0 ? "" : ",", Text(*fields[i].first), ":",
                    JsonText(*fields[i].second, order));
  }
  *out += '}';
}

}  // namespace

bool HasNumberText(const Json& value) {
  if (value.is_structured()) return std::any_of(value.begin(), value.end(), HasNumberText);
  return value.is_number_float() ||
         (value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() == 0);
}

Json ParseKeepingNumbers(absl::string_view json) {
  Builder builder;
  if (!Json::sax_parse(json.begin(), json.end(), &builder)) {
    return Json(Json::value_t::discarded);
  }
  return std::move(builder).Take();
}

std::string JsonText(const Json& value, KeyOrder order) {
  std::string out;
  if (value.is_binary()) {
    out.assign(value.get_binary().begin(), value.get_binary().end());
  } else if (value.is_object()) {
    AppendObject(value, order, &out);
  } else if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      absl::StrAppend(&out, i == 0 ? "" : ",", JsonText(value[i], order));
    }
    out += ']';
  } else {
    out = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return out;
}

}  // namespace baton
