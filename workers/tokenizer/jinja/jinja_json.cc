#include "workers/tokenizer/jinja/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_number.h"
#include "workers/tokenizer/jinja/jinja_operators.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

std::string JsonNumber(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return FloatRepr(number);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void Write(const Value& value, int depth) {
    Budget::SpendWalk(8);
    switch (value.kind()) {
      case Value::Kind::kNone:
        return out_.AddTemplate("null");
      case Value::Kind::kBool:
        return out_.AddTemplate(value.Truth() ? "true" : "false");
      case Value::Kind::kInt:
        return out_.AddTemplate(absl::StrCat(value.integer("tojson")));
      case Value::Kind::kFloat:
        return out_.AddTemplate(JsonNumber(value.number("tojson")));
      case Value::Kind::kText:
        return AddJsonString(value.text("tojson"), style_.ensure_ascii, &out_);
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        return WriteItems(value.items("tojson"), depth);
      case Value::Kind::kDict:
        return WriteEntries(value.entries("tojson"), depth);
      case Value::Kind::kUndefined:
        throw Error{Error::Kind::kType,
                    absl::StrCat("tojson: '", value.undefined_name(), "' is undefined")};
      default:
        throw Error{Error::Kind::kType, absl::StrCat("tojson cannot write ", value.TypeName())};
    }
  }

  RenderedText Take() { return std::move(out_); }

 private:
  void Break(int depth) {
    if (!style_.indent.has_value()) return;
    out_.AddTemplate("\n");
    if (style_.indent->text().empty()) return;
    for (int i = 0; i < depth; ++i) out_.Add(*style_.indent);
  }
  void Separate(bool first, int depth) {
    if (!first) out_.Add(style_.item_separator);
    Break(depth);
  }
  void WriteItems(const Items& items, int depth) {
    if (items.empty()) return out_.AddTemplate("[]");
    out_.AddTemplate("[");
    for (size_t i = 0; i < items.size(); ++i) {
      Separate(i == 0, depth + 1);
      Write(items[i], depth + 1);
    }
    Break(depth);
    out_.AddTemplate("]");
  }
  void WriteEntries(Entries entries, int depth) {
    if (entries.empty()) return out_.AddTemplate("{}");
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return Less(a.first, b.first); });
    }
    out_.AddTemplate("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      Separate(i == 0, depth + 1);
      WriteKey(entries[i].first);
      out_.Add(style_.key_separator);
      Write(entries[i].second, depth + 1);
    }
    Break(depth);
    out_.AddTemplate("}");
  }
  /// A number, a bool or none becomes the text that JSON has for it.
  void WriteKey(const Value& key) {
    if (key.is(Value::Kind::kText)) return Write(key, 0);
    if (!key.is_number() && !key.is(Value::Kind::kNone)) {
      throw Error{Error::Kind::kType, absl::StrCat("tojson: a key is ", key.TypeName())};
    }
    out_.AddTemplate("\"");
    Write(key, 0);
    out_.AddTemplate("\"");
  }

  const JsonStyle& style_;
  RenderedText out_;
};

}  // namespace

RenderedText ToJsonText(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.Write(value, 0);
  return writer.Take();
}

}  // namespace baton::tokenizer::jinja
