#include "workers/tokenizer/jinja/jinja_value.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_equality.h"
#include "workers/tokenizer/jinja/jinja_number.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr int kMaxValueDepth = 200;
constexpr size_t kNameShown = 64;      // bytes
constexpr int64_t kMaxRange = 100000;  // of jinja2's sandbox

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
  Budget::SpendWalk(Budget::kWalkOfValue * named.size());
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value& Arguments::Need(size_t index, absl::string_view name, absl::string_view callee) const {
  const Value* value = Find(index, name);
  if (value == nullptr) {
    throw Error{Error::Kind::kType, absl::StrCat(callee, " needs the argument '", name, "'")};
  }
  return *value;
}

void Arguments::Check(absl::string_view callee, size_t positional_limit,
                      std::initializer_list<absl::string_view> names) const {
  Budget::SpendWalk(Budget::kWalkOfValue * named.size() * names.size());
  if (positional.size() > positional_limit) {
    throw Error{Error::Kind::kType, absl::StrCat(callee, " takes at most ", positional_limit,
                                                 " arguments and got ", positional.size())};
  }
  for (const auto& [name, value] : named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      throw Error{Error::Kind::kType, absl::StrCat(callee, " has no argument called '", name, "'")};
    }
    if (static_cast<size_t>(at - names.begin()) < positional.size()) {
      throw Error{Error::Kind::kType, absl::StrCat(callee, " gets '", name, "' twice")};
    }
  }
}

Value Object::Call(const Arguments& /*arguments*/) {
  throw Error{Error::Kind::kType, absl::StrCat(Repr(), " is no function")};
}

Value::Value(RenderedText text)
    : kind_(Kind::kText),
      data_(std::allocate_shared<RenderedText>(Counted<RenderedText>(), std::move(text))) {}

Value Value::Undefined(absl::string_view name) {
  Value value;
  if (name.empty()) return value;
  size_t end = std::min(name.size(), kNameShown);
  while (end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  value.data_ = std::allocate_shared<std::string>(
      Counted<std::string>(), absl::StrCat(name.substr(0, end), end < name.size() ? "…" : ""));
  return value;
}
Value Value::None() {
  Value value;
  value.kind_ = Kind::kNone;
  return value;
}
Value Value::Bool(bool b) {
  Value value = Int(b ? 1 : 0);
  value.kind_ = Kind::kBool;
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
Value Value::Own(absl::string_view text) {
  RenderedText own;
  own.AddTemplate(text);
  return Text(std::move(own));
}
Value Value::List(Items items, Kind kind) {
  Budget::SpendItems(items.size());
  Value value;
  value.kind_ = kind;
  value.Hold(nullptr);
  for (const Value& item : items) value.Hold(&item);
  value.data_ = std::allocate_shared<Items>(Counted<Items>(), std::move(items));
  return value;
}
Value Value::Group(Value key, Value items) {
  Value value = List({std::move(key), std::move(items)}, Kind::kTuple);
  value.is_group_ = true;
  return value;
}
Value Value::Dict(Entries entries, Kind kind) {
  Budget::SpendWalk(entries.size());
  Value value;
  value.kind_ = kind;
  value.Hold(nullptr);
  for (const auto& [key, entry] : entries) {
    value.Hold(&key);
    value.Hold(&entry);
  }
  value.data_ = std::allocate_shared<Entries>(Counted<Entries>(), std::move(entries));
  return value;
}
Value Value::Range(int64_t begin, int64_t end, int64_t step) {
  IntegerRange range = {begin, end, step, 0};
  const double distance = static_cast<double>(end) - static_cast<double>(begin);
  if (distance / static_cast<double>(step) > static_cast<double>(kMaxRange) + 1) {
    throw Error{Error::Kind::kLimit, "range has more than 100000 items"};
  }
  if (step > 0 ? begin < end : begin > end) {
    const uint64_t width = step > 0 ? static_cast<uint64_t>(end) - static_cast<uint64_t>(begin)
                                    : static_cast<uint64_t>(begin) - static_cast<uint64_t>(end);
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    range.count = static_cast<int64_t>((width - 1) / stride + 1);
  }
  if (range.count > kMaxRange) {
    throw Error{Error::Kind::kLimit, "range has more than 100000 items"};
  }
  Value value;
  value.kind_ = Kind::kRange;
  value.data_ = std::allocate_shared<IntegerRange>(Counted<IntegerRange>(), range);
  return value;
}
Value Value::View(const Value& dict, Kind kind) {
  Value value = dict;
  value.kind_ = kind;
  return value;
}
Value Value::Callable(Function function, const Value* holds) {
  Value value;
  value.kind_ = Kind::kFunction;
  value.Hold(holds);
  value.data_ = std::allocate_shared<Function>(Counted<Function>(), std::move(function));
  return value;
}
Value Value::Iterator(NextItem next, std::initializer_list<const Value*> holds) {
  Value value;
  value.kind_ = Kind::kIterator;
  value.Hold(nullptr);
  for (const Value* held : holds) value.Hold(held);
  value.data_ = std::allocate_shared<NextItem>(Counted<NextItem>(), std::move(next));
  return value;
}
Value Value::OfObject(std::shared_ptr<Object> object, std::initializer_list<const Value*> holds) {
  Value value;
  value.kind_ = Kind::kObject;
  value.Hold(nullptr);
  for (const Value* held : holds) value.Hold(held);
  value.data_ = std::move(object);
  return value;
}

void Value::Hold(const Value* part) {
  depth_ = std::max(depth_, 1 + (part == nullptr ? 0 : part->depth_));
  CheckDepth(depth_);
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
        entries.emplace_back(Text(RenderedText(key)), FromJson(item, depth + 1));
      }
      return Dict(std::move(entries));
    }
    default:
      return None();
  }
}

bool Value::is_iterable() const {
  return is_sequence() || is_view() || kind_ == Kind::kDict || kind_ == Kind::kIterator ||
         kind_ == Kind::kUndefined;
}
bool Value::is_callable() const {
  return kind_ == Kind::kFunction || kind_ == Kind::kUndefined ||
         (kind_ == Kind::kObject && object().IsCallable());
}
bool Value::is_hashable() const {
  if (kind_ == Kind::kTuple) {
    const Items& all = items("a key");
    return std::all_of(all.begin(), all.end(), [](const Value& v) { return v.is_hashable(); });
  }
  return kind_ != Kind::kList && kind_ != Kind::kDict && kind_ != Kind::kKeys &&
         kind_ != Kind::kPairs;
}

absl::string_view Value::TypeName() const {
  static constexpr absl::string_view kNames[] = {"an undefined value",
                                                 "none",
                                                 "a bool",
                                                 "an int",
                                                 "a float",
                                                 "a string",
                                                 "a list",
                                                 "a tuple",
                                                 "a range",
                                                 "a dict",
                                                 "a dict's keys",
                                                 "a dict's values",
                                                 "a dict's items",
                                                 "a namespace",
                                                 "a function",
                                                 "an iterator",
                                                 "an object"};
  return kNames[static_cast<size_t>(kind_)];
}

const RenderedText& Value::text(absl::string_view what) const {
  if (kind_ != Kind::kText) Mismatch(*this, what, "a string");
  Budget::SpendCopy(as<RenderedText>().text().size());
  return as<RenderedText>();
}
const Items& Value::items(absl::string_view what) const {
  if (!is_list()) Mismatch(*this, what, "a list");
  Budget::SpendWalk(Budget::kWalkOfValue * as<Items>().size());
  return as<Items>();
}
const Entries& Value::entries(absl::string_view what) const {
  if (kind_ != Kind::kDict && kind_ != Kind::kNamespace && !is_view()) {
    Mismatch(*this, what, "a dict");
  }
  Budget::SpendWalk(Budget::kWalkOfValue * as<Entries>().size());
  return as<Entries>();
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
  return as<Function>();
}
const IntegerRange& Value::range() const { return as<IntegerRange>(); }
Object& Value::object() const { return *static_cast<Object*>(data_.get()); }

absl::string_view Value::undefined_name() const {
  return data_ == nullptr ? absl::string_view() : absl::string_view(as<std::string>());
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
      return !as<RenderedText>().text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !as<Items>().empty();
    case Kind::kRange:
      return range().count > 0;
    case Kind::kDict:
    case Kind::kKeys:
    case Kind::kValues:
    case Kind::kPairs:
      return !as<Entries>().empty();
    case Kind::kObject:
      return object().Length().value_or(1) != 0;
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kIterator:
      return true;
  }
  return false;
}

namespace {

/// What a walk over a dict or a view of `kind` gives of an entry.
Value PartOf(const std::pair<Value, Value>& entry, Value::Kind kind) {
  if (kind == Value::Kind::kValues) return entry.second;
  if (kind != Value::Kind::kPairs) return entry.first;
  return Value::List({entry.first, entry.second}, Value::Kind::kTuple);
}

}  // namespace

NextItem Value::Walk(absl::string_view what) const {
  switch (kind_) {
    case Kind::kUndefined:
      return [] { return std::nullopt; };
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return [all = *this, i = int64_t{0}]() mutable -> std::optional<Value> {
        Budget::SpendWalk(Budget::kWalkOfValue);
        const int64_t size =
            all.is_list() ? static_cast<int64_t>(all.as<Items>().size()) : all.range().count;
        if (i >= size) return std::nullopt;
        return all.At(i++);
      };
    case Kind::kText:
      return [all = *this, at = size_t{0}]() mutable -> std::optional<Value> {
        const RenderedText& text = all.as<RenderedText>();
        const auto character = CharacterNumber(absl::string_view(text.text()).substr(at), 0);
        if (!character.has_value()) return std::nullopt;
        const size_t begin = std::exchange(at, at + character->end);
        return Text(text.Slice(begin, at));
      };
    case Kind::kDict:
    case Kind::kKeys:
    case Kind::kValues:
    case Kind::kPairs:
      return [all = *this, i = size_t{0}]() mutable -> std::optional<Value> {
        Budget::SpendWalk(Budget::kWalkOfValue);
        if (i >= all.as<Entries>().size()) return std::nullopt;
        return PartOf(all.as<Entries>()[i++], all.kind_);
      };
    case Kind::kIterator:
      return [all = *this] {
        Budget::SpendWalk(Budget::kWalkOfValue);
        return static_cast<const NextItem*>(all.data_.get())->operator()();
      };
    default:
      Mismatch(*this, what, "a list, a dict or a string");
  }
}

Items Value::Iterate(absl::string_view what) const {
  if (is_list()) return items(what);
  Items out;
  const NextItem next = Walk(what);
  while (std::optional<Value> item = next()) out.push_back(*std::move(item));
  return out;
}

std::optional<int64_t> Value::MaybeLength() const {
  switch (kind_) {
    case Kind::kUndefined:
      return 0;
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(as<Items>().size());
    case Kind::kRange:
      return range().count;
    case Kind::kDict:
    case Kind::kKeys:
    case Kind::kValues:
    case Kind::kPairs:
      return static_cast<int64_t>(as<Entries>().size());
    case Kind::kText:
      return CountCharacters(as<RenderedText>().text());
    case Kind::kObject:
      return object().Length();
    default:
      return std::nullopt;
  }
}

int64_t Value::Length(absl::string_view what) const {
  const std::optional<int64_t> length = MaybeLength();
  if (!length.has_value()) Mismatch(*this, what, "a list, a dict or a string");
  return *length;
}

Value Value::At(int64_t index) const {
  const int64_t size = index < 0 || kind_ != Kind::kText ? Length() : INT64_MAX;
  const int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && is_list() && at < size) return as<Items>()[static_cast<size_t>(at)];
  if (at >= 0 && kind_ == Kind::kRange && at < size) {
    return Int(range().begin + at * range().step);
  }
  if (at >= 0 && kind_ == Kind::kText) {
    const RenderedText& text = as<RenderedText>();
    const std::optional<TextRange> place = CharacterNumber(text.text(), at);
    if (place.has_value()) return Text(text.Slice(place->begin, place->end));
  }
  return Undefined(absl::StrCat("item ", index));
}

namespace {

/// The index of the entry with this key; the number of entries where there is none.
size_t PlaceOf(const Entries& entries, absl::string_view key) {
  size_t place = 0;
  for (; place < entries.size(); ++place) {
    Budget::SpendWalk(Budget::kWalkOfValue);
    if (!entries[place].first.is(Value::Kind::kText)) continue;
    const std::string& name = entries[place].first.text("a key").text();
    if (name.size() != key.size()) continue;
    Budget::SpendCopy(key.size());
    if (name == key) break;
  }
  return place;
}

size_t PlaceOf(const Entries& entries, const Value& key) {
  if (key.is(Value::Kind::kText)) return PlaceOf(entries, key.text("a key").text());
  if (!key.is_hashable()) {
    throw Error{Error::Kind::kType, absl::StrCat(key.TypeName(), " cannot be a dict's key")};
  }
  size_t place = 0;
  while (place < entries.size() && !Equal(entries[place].first, key)) ++place;
  return place;
}

}  // namespace

const Value* Value::Find(const Value& key) const {
  if (kind_ != Kind::kDict && kind_ != Kind::kNamespace && !is_view()) return nullptr;
  const auto& all = as<Entries>();
  const size_t place = PlaceOf(all, key);
  return place == all.size() ? nullptr : &all[place].second;
}

const Value* Value::Find(absl::string_view key) const {
  if (kind_ != Kind::kDict && kind_ != Kind::kNamespace && !is_view()) return nullptr;
  const auto& all = as<Entries>();
  const size_t place = PlaceOf(all, key);
  return place == all.size() ? nullptr : &all[place].second;
}

void PutEntry(Entries* entries, Value key, Value value) {
  const size_t place = PlaceOf(*entries, key);
  if (place < entries->size()) {
    (*entries)[place].second = std::move(value);
  } else {
    entries->emplace_back(std::move(key), std::move(value));
  }
}

void Value::SetEntry(absl::string_view key, Value value) {
  PutEntry(&mutable_entries(), Own(key), std::move(value));
}

void Value::ClearEntries() {
  if (kind_ == Kind::kNamespace) Entries().swap(mutable_entries());
}

bool Value::Same(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::kNone || is_number()) return Equal(*this, other);
  return data_ == other.data_;
}

RenderedText Value::ToText() const {
  if (kind_ == Kind::kText) return as<RenderedText>();
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
  Budget::SpendWalk(Budget::kWalkOfValue);
  switch (kind_) {
    case Kind::kUndefined:
      return out->AddTemplate("Undefined");
    case Kind::kNone:
      return out->AddTemplate("None");
    case Kind::kBool:
      return out->AddTemplate(int_ != 0 ? "True" : "False");
    case Kind::kInt:
      return out->AddTemplate(absl::StrCat(int_));
    case Kind::kFloat:
      return out->AddTemplate(FloatRepr(float_));
    case Kind::kText:
      return AddQuoted(as<RenderedText>(), out);
    case Kind::kFunction:
      return out->AddTemplate("<function>");
    case Kind::kIterator:
      return out->AddTemplate("<generator object>");
    case Kind::kObject:
      return out->AddTemplate(object().Repr());
    case Kind::kRange: {
      const IntegerRange& all = range();
      return out->AddTemplate(absl::StrCat("range(", all.begin, ", ", all.end,
                                           all.step == 1 ? "" : absl::StrCat(", ", all.step), ")"));
    }
    case Kind::kList:
    case Kind::kTuple:
      return ReprItems(out, depth);
    default:
      return ReprEntries(out, depth);
  }
}

void Value::ReprItems(RenderedText* out, int depth) const {
  const auto& all = as<Items>();
  const bool tuple = kind_ == Kind::kTuple;
  out->AddTemplate(tuple ? "(" : "[");
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) out->AddTemplate(", ");
    all[i].Repr(out, depth + 1);
  }
  out->AddTemplate(tuple ? (all.size() == 1 ? ",)" : ")") : "]");
}

void Value::ReprEntries(RenderedText* out, int depth) const {
  if (is_view()) {
    out->AddTemplate(kind_ == Kind::kKeys     ? "dict_keys(["
                     : kind_ == Kind::kValues ? "dict_values(["
                                              : "dict_items([");
  } else {
    out->AddTemplate(kind_ == Kind::kNamespace ? "<Namespace {" : "{");
  }
  bool first = true;
  for (const auto& entry : as<Entries>()) {
    if (!first) out->AddTemplate(", ");
    first = false;
    if (is_view()) {
      PartOf(entry, kind_).Repr(out, depth + 1);
      continue;
    }
    entry.first.Repr(out, depth + 1);
    out->AddTemplate(": ");
    entry.second.Repr(out, depth + 1);
  }
  out->AddTemplate(is_view() ? "])" : kind_ == Kind::kNamespace ? "}>" : "}");
}

}  // namespace baton::tokenizer::jinja
