#include "workers/tokenizer/jinja/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr int kMaxValueDepth = 200;
constexpr uint64_t kWalkOfValue = 8;  // a walk over a value, in bytes (Budget::SpendWalk)
constexpr size_t kNameShown = 64;     // bytes

[[noreturn]] void Mismatch(const Value& value, absl::string_view what, absl::string_view wanted) {
  if (value.is(Value::Kind::kUndefined)) {
    throw Error{Error::Kind::kType,
                absl::StrCat(what, ": '", value.undefined_name(), "' is undefined")};
  }
  throw Error{Error::Kind::kType,
              absl::StrCat(what, " needs ", wanted, " and got ", value.TypeName())};
}

void CheckDepth(int depth) {
  if (depth > kMaxValueDepth) {
    throw Error{Error::Kind::kLimit, "a value is nested more than 200 levels deep"};
  }
}

}  // namespace

const Value* Arguments::Find(size_t index, absl::string_view name) const {
  if (index < positional.size()) return &positional[index];
  Budget::SpendWalk(kWalkOfValue * named.size());
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Arguments::Check(absl::string_view callee, size_t positional_limit,
                      std::initializer_list<absl::string_view> names) const {
  Budget::SpendWalk(kWalkOfValue * named.size() * names.size());
  if (positional.size() > positional_limit) {
    throw Error{Error::Kind::kType, absl::StrCat(callee, " takes at most ", positional_limit,
                                                 " arguments and got ", positional.size())};
  }
  for (const auto& [name, value] : named) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error{Error::Kind::kUnsupported,
                  absl::StrCat(callee, " has no argument called '", name, "'")};
    }
  }
}

Value Value::Undefined(absl::string_view name) {
  Value value;
  if (name.empty()) return value;
  size_t end = std::min(name.size(), kNameShown);
  while (end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  value.name_ = std::allocate_shared<const std::string>(
      Counted<std::string>(), absl::StrCat(name.substr(0, end), end < name.size() ? "…" : ""));
  return value;
}
Value Value::None() {
  Value value;
  value.kind_ = Kind::kNone;
  return value;
}
Value Value::Bool(bool b) {
  Value value;
  value.kind_ = Kind::kBool;
  value.bool_ = b;
  value.int_ = b ? 1 : 0;
  return value;
}
Value Value::Int(int64_t i) {
  Value value;
  value.kind_ = Kind::kInt;
  value.int_ = i;
  return value;
}
Value Value::Float(double f) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.float_ = f;
  return value;
}
Value Value::Text(RenderedText text) {
  Value value;
  value.kind_ = Kind::kText;
  value.text_ = std::allocate_shared<const RenderedText>(Counted<RenderedText>(), std::move(text));
  return value;
}
Value Value::Own(absl::string_view text) {
  RenderedText own;
  own.AddTemplate(text);
  return Text(std::move(own));
}
Value Value::List(Items items, Kind kind) {
  Budget::SpendItems(items.size());
  Value value;
  value.kind_ = kind;
  for (const Value& item : items) value.depth_ = std::max(value.depth_, item.depth_);
  CheckDepth(++value.depth_);
  value.items_ = std::allocate_shared<const Items>(Counted<Items>(), std::move(items));
  return value;
}
Value Value::Dict(Entries entries, Kind kind) {
  Budget::SpendWalk(entries.size());
  Value value;
  value.kind_ = kind;
  for (const auto& [key, entry] : entries) value.depth_ = std::max(value.depth_, entry.depth_);
  CheckDepth(++value.depth_);
  value.entries_ = std::allocate_shared<Entries>(Counted<Entries>(), std::move(entries));
  return value;
}
Value Value::Callable(Function function, const Value* holds) {
  Value value;
  value.depth_ = 1 + (holds == nullptr ? 0 : holds->depth_);
  CheckDepth(value.depth_);
  value.kind_ = Kind::kFunction;
  value.function_ = std::allocate_shared<const Function>(Counted<Function>(), std::move(function));
  return value;
}

Value Value::FromJson(const nlohmann::ordered_json& json, int depth) {
  CheckDepth(depth);
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Bool(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Int(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw Error{Error::Kind::kLimit,
                    absl::StrCat("the integer ", json.dump(), " is too large")};
      }
      return Int(static_cast<int64_t>(json.get<uint64_t>()));
    case nlohmann::ordered_json::value_t::number_float:
      return Float(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return Text(RenderedText(json.get_ref<const std::string&>()));
    case nlohmann::ordered_json::value_t::array: {
      Items items;
      for (const auto& item : json) items.push_back(FromJson(item, depth + 1));
      return List(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Entries entries;
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(RenderedText(key), FromJson(item, depth + 1));
      }
      return Dict(std::move(entries));
    }
    default:
      return None();
  }
}

absl::string_view Value::TypeName() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "an undefined value";
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
      return "an int";
    case Kind::kFloat:
      return "a float";
    case Kind::kText:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kDict:
      return "a dict";
    case Kind::kNamespace:
      return "a namespace";
    case Kind::kFunction:
      return "a function";
  }
  return "";
}

const RenderedText& Value::text(absl::string_view what) const {
  if (kind_ != Kind::kText) Mismatch(*this, what, "a string");
  Budget::SpendCopy(text_->text().size());
  return *text_;
}
const Items& Value::items(absl::string_view what) const {
  if (!is_list()) Mismatch(*this, what, "a list");
  Budget::SpendWalk(kWalkOfValue * items_->size());
  return *items_;
}
const Entries& Value::entries(absl::string_view what) const {
  if (kind_ != Kind::kDict && kind_ != Kind::kNamespace) Mismatch(*this, what, "a dict");
  Budget::SpendWalk(kWalkOfValue * entries_->size());
  return *entries_;
}
int64_t Value::integer(absl::string_view what) const {
  if (kind_ != Kind::kInt && kind_ != Kind::kBool) Mismatch(*this, what, "an int");
  return int_;
}
double Value::number(absl::string_view what) const {
  if (!is_number()) Mismatch(*this, what, "a number");
  return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_);
}
const Function& Value::function(absl::string_view what) const {
  if (kind_ != Kind::kFunction) Mismatch(*this, what, "a function");
  return *function_;
}

bool Value::Truth() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return int_ != 0;
    case Kind::kFloat:
      return float_ != 0;
    case Kind::kText:
      return !text_->text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !items_->empty();
    case Kind::kDict:
      return !entries_->empty();
    case Kind::kNamespace:
    case Kind::kFunction:
      return true;
  }
  return false;
}

Items Value::Iterate(absl::string_view what) const {
  switch (kind_) {
    case Kind::kUndefined:
      return {};
    case Kind::kList:
    case Kind::kTuple:
      return items(what);
    case Kind::kDict: {
      Items keys;
      for (const auto& [key, value] : entries(what)) keys.push_back(Text(key));
      return keys;
    }
    case Kind::kText: {
      Items characters;
      for (const TextRange& range : Characters(text_->text())) {
        characters.push_back(Text(text_->Slice(range.begin, range.end)));
      }
      return characters;
    }
    default:
      Mismatch(*this, what, "a list, a dict or a string");
  }
}

int64_t Value::Length(absl::string_view what) const {
  switch (kind_) {
    case Kind::kUndefined:
      return 0;
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(items_->size());
    case Kind::kDict:
      return static_cast<int64_t>(entries_->size());
    case Kind::kText:
      return CountCharacters(text_->text());
    default:
      Mismatch(*this, what, "a list, a dict or a string");
  }
}

Value Value::At(int64_t index) const {
  const int64_t size = index < 0 || is_list() ? Length() : INT64_MAX;
  const int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && is_list() && at < size) return (*items_)[static_cast<size_t>(at)];
  if (at >= 0 && kind_ == Kind::kText) {
    const std::optional<TextRange> range = CharacterNumber(text_->text(), at);
    if (range.has_value()) return Text(text_->Slice(range->begin, range->end));
  }
  return Undefined(absl::StrCat("item ", index));
}

size_t Value::PlaceOf(absl::string_view key) const {
  size_t place = 0;
  for (; place < entries_->size(); ++place) {
    Budget::SpendWalk(kWalkOfValue);
    const std::string& name = (*entries_)[place].first.text();
    if (name.size() != key.size()) continue;
    Budget::SpendCopy(key.size());
    if (name == key) break;
  }
  return place;
}

const Value* Value::Find(absl::string_view key) const {
  if (entries_ == nullptr) return nullptr;
  const size_t place = PlaceOf(key);
  return place == entries_->size() ? nullptr : &(*entries_)[place].second;
}

void Value::SetEntry(absl::string_view key, Value value) {
  const size_t place = PlaceOf(key);
  if (place < entries_->size()) {
    (*entries_)[place].second = std::move(value);
    return;
  }
  RenderedText name;
  name.AddTemplate(key);
  entries_->emplace_back(std::move(name), std::move(value));
}

void Value::ClearEntries() {
  if (kind_ == Kind::kNamespace) Entries().swap(*entries_);
}

RenderedText Value::ToText() const {
  if (kind_ == Kind::kText) return *text_;
  if (kind_ == Kind::kUndefined) return {};
  return ToRepr();
}

RenderedText Value::ToRepr() const {
  RenderedText out;
  Repr(&out, 0);
  return out;
}

void Value::Repr(RenderedText* out, int depth) const {
  CheckDepth(depth);
  Budget::SpendWalk(kWalkOfValue);
  switch (kind_) {
    case Kind::kUndefined:
      return out->AddTemplate("Undefined");
    case Kind::kNone:
      return out->AddTemplate("None");
    case Kind::kBool:
      return out->AddTemplate(bool_ ? "True" : "False");
    case Kind::kInt:
      return out->AddTemplate(absl::StrCat(int_));
    case Kind::kFloat:
      return out->AddTemplate(FloatRepr(float_));
    case Kind::kText:
      return AddQuoted(*text_, out);
    case Kind::kFunction:
      return out->AddTemplate("<function>");
    case Kind::kList:
    case Kind::kTuple: {
      const bool tuple = kind_ == Kind::kTuple;
      out->AddTemplate(tuple ? "(" : "[");
      for (size_t i = 0; i < items_->size(); ++i) {
        if (i > 0) out->AddTemplate(", ");
        (*items_)[i].Repr(out, depth + 1);
      }
      return out->AddTemplate(tuple ? (items_->size() == 1 ? ",)" : ")") : "]");
    }
    case Kind::kDict:
    case Kind::kNamespace: {
      out->AddTemplate("{");
      bool first = true;
      for (const auto& [key, value] : *entries_) {
        if (!first) out->AddTemplate(", ");
        first = false;
        AddQuoted(key, out);
        out->AddTemplate(": ");
        value.Repr(out, depth + 1);
      }
      return out->AddTemplate("}");
    }
  }
}

bool Equal(const Value& a, const Value& b, int depth) {
  CheckDepth(depth);
  // Lists that share their items are compared as often as they are reached.
  Budget::SpendWalk(2 * kWalkOfValue);
  if (a.is_number() && b.is_number()) {
    if (a.is(Value::Kind::kFloat) || b.is(Value::Kind::kFloat)) {
      return a.number("==") == b.number("==");
    }
    return a.integer("==") == b.integer("==");
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return true;
    case Value::Kind::kText:
      return a.text("==").text() == b.text("==").text();
    case Value::Kind::kList:
    case Value::Kind::kTuple: {
      const Items &x = a.items("=="), &y = b.items("==");
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [&](const Value& p, const Value& q) { return Equal(p, q, depth + 1); });
    }
    case Value::Kind::kDict: {
      const Entries &x = a.entries("=="), &y = b.entries("==");
      return x.size() == y.size() && std::all_of(x.begin(), x.end(), [&](const auto& entry) {
               const Value* other = b.Find(entry.first.text());
               return other != nullptr && Equal(entry.second, *other, depth + 1);
             });
    }
    default:
      return false;
  }
}

bool Less(const Value& a, const Value& b) {
  Budget::SpendWalk(4 * kWalkOfValue);
  if (a.is(Value::Kind::kText) && b.is(Value::Kind::kText)) {
    return a.text("<").text() < b.text("<").text();
  }
  if (a.is_number() && b.is_number()) {
    if (a.is(Value::Kind::kFloat) || b.is(Value::Kind::kFloat)) {
      return a.number("<") < b.number("<");
    }
    return a.integer("<") < b.integer("<");
  }
  if (a.is_list() && b.is_list()) {
    const Items &x = a.items("<"), &y = b.items("<");
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equal(x[i], y[i])) return Less(x[i], y[i]);
    }
    return x.size() < y.size();
  }
  throw Error{Error::Kind::kType,
              absl::StrCat("cannot order ", a.TypeName(), " and ", b.TypeName())};
}

bool Contains(const Value& haystack, const Value& needle) {
  if (haystack.is(Value::Kind::kText)) {
    const std::string& part = needle.text("in").text();
    return FindPart(haystack.text("in").text(), part, 0) != std::string::npos;
  }
  if (haystack.is_mapping()) {
    return needle.is(Value::Kind::kText) && haystack.Find(needle.text("in").text()) != nullptr;
  }
  if (haystack.is(Value::Kind::kUndefined)) return false;
  if (!haystack.is_list()) Mismatch(haystack, "in", "a list, a dict or a string");
  const Items& items = haystack.items("in");
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return Equal(item, needle); });
}

namespace {

struct JsonWriter {
  const JsonStyle& style;
  RenderedText out;

  void Break(int depth) {
    if (style.indent < 0) return;
    out.AddTemplate(
        absl::StrCat("\n", std::string(static_cast<size_t>(depth * style.indent), ' ')));
  }
  void Separate(bool first, int depth) {
    if (!first) out.AddTemplate(style.item_separator);
    Break(depth);
  }
  void Write(const Value& value, int depth) {
    CheckDepth(depth);
    Budget::SpendWalk(kWalkOfValue);
    switch (value.kind()) {
      case Value::Kind::kUndefined:
        throw Error{Error::Kind::kType,
                    absl::StrCat("tojson: '", value.undefined_name(), "' is undefined")};
      case Value::Kind::kNone:
        return out.AddTemplate("null");
      case Value::Kind::kBool:
        return out.AddTemplate(value.Truth() ? "true" : "false");
      case Value::Kind::kFloat: {
        const double number = value.number("tojson");
        return out.AddTemplate(std::isnan(number)   ? "NaN"
                               : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                                    : FloatRepr(number));
      }
      case Value::Kind::kText:
        return AddJsonString(value.text("tojson"), style.ensure_ascii, &out);
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        return WriteItems(value.items("tojson"), depth);
      case Value::Kind::kDict:
        return WriteEntries(value.entries("tojson"), depth);
      case Value::Kind::kInt:
        return out.AddTemplate(absl::StrCat(value.integer("tojson")));
      default:
        throw Error{Error::Kind::kType, absl::StrCat("tojson cannot write ", value.TypeName())};
    }
  }
  void WriteItems(const Items& items, int depth) {
    if (items.empty()) return out.AddTemplate("[]");
    out.AddTemplate("[");
    for (size_t i = 0; i < items.size(); ++i) {
      Separate(i == 0, depth + 1);
      Write(items[i], depth + 1);
    }
    Break(depth);
    out.AddTemplate("]");
  }
  void WriteEntries(Entries entries, int depth) {
    if (entries.empty()) return out.AddTemplate("{}");
    if (style.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
        return a.first.text() < b.first.text();
      });
    }
    out.AddTemplate("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      Separate(i == 0, depth + 1);
      AddJsonString(entries[i].first, style.ensure_ascii, &out);
      out.AddTemplate(style.key_separator);
      Write(entries[i].second, depth + 1);
    }
    Break(depth);
    out.AddTemplate("}");
  }
};

}  // namespace

RenderedText ToJsonText(const Value& value, const JsonStyle& style) {
  JsonWriter writer{style, {}};
  writer.Write(value, 0);
  return std::move(writer.out);
}

}  // namespace baton::tokenizer::jinja
