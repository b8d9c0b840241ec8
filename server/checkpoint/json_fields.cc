#include "server/checkpoint/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/json.h"

namespace phitap {
namespace {

using nlohmann::json;

std::string Described(IntegerRange range) {
  return absl::StrCat("an integer from ", range.min, " to ", range.max);
}

std::string Described(NumberRange range) {
  return absl::StrCat("a number above ", range.above, ", at most ", range.max);
}

// None where the value is not an integer in range.
std::optional<int64_t> IntegerIn(const json& value, IntegerRange range) {
  if (!value.is_number_integer()) return std::nullopt;
  // Unsigned values past int64 must not wrap to negative ones.
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return std::nullopt;
  }
  const int64_t integer = value.get<int64_t>();
  if (integer < range.min || integer > range.max) return std::nullopt;
  return integer;
}

std::optional<double> NumberIn(const json& value, NumberRange range) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number) || number <= range.above || number > range.max) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

const json* JsonFields::Find(absl::string_view key) const {
  const auto found = object_.find(std::string(key));
  return found == object_.end() ? nullptr : &*found;
}

bool JsonFields::HasValue(absl::string_view key) const {
  const json* value = Find(key);
  return value != nullptr && !value->is_null();
}

absl::StatusOr<int64_t> JsonFields::Integer(absl::string_view key,
                                            IntegerRange range,
                                            int64_t missing) const {
  const json* value = Find(key);
  if (value == nullptr) return missing;
  const std::optional<int64_t> integer = IntegerIn(*value, range);
  if (!integer) return Invalid(key, Shown(*value), Described(range));
  return *integer;
}

absl::StatusOr<double> JsonFields::Number(absl::string_view key,
                                          NumberRange range,
                                          double missing) const {
  const json* value = Find(key);
  if (value == nullptr) return missing;
  const std::optional<double> number = NumberIn(*value, range);
  if (!number) return Invalid(key, Shown(*value), Described(range));
  return *number;
}

absl::StatusOr<bool> JsonFields::Boolean(absl::string_view key,
                                         bool missing) const {
  const json* value = Find(key);
  if (value == nullptr) return missing;
  if (!value->is_boolean()) {
    return Invalid(key, Shown(*value), "true or false");
  }
  return value->get<bool>();
}

absl::StatusOr<std::optional<int64_t>> JsonFields::OptionalInteger(
    absl::string_view key, IntegerRange range) const {
  if (!HasValue(key)) return std::nullopt;
  const std::optional<int64_t> integer = IntegerIn(*Find(key), range);
  if (!integer) {
    return Invalid(key, Shown(*Find(key)),
                   absl::StrCat("null or ", Described(range)));
  }
  return integer;
}

absl::StatusOr<std::optional<double>> JsonFields::OptionalNumber(
    absl::string_view key, NumberRange range) const {
  if (!HasValue(key)) return std::nullopt;
  const std::optional<double> number = NumberIn(*Find(key), range);
  if (!number) {
    return Invalid(key, Shown(*Find(key)),
                   absl::StrCat("null or ", Described(range)));
  }
  return number;
}

absl::StatusOr<std::optional<std::string>> JsonFields::OptionalString(
    absl::string_view key) const {
  if (!HasValue(key)) return std::nullopt;
  const json& value = *Find(key);
  if (!value.is_string()) return Invalid(key, Shown(value), "a string");
  return value.get<std::string>();
}

absl::StatusOr<std::vector<int64_t>> JsonFields::Integers(
    absl::string_view key, IntegerRange range) const {
  std::vector<int64_t> integers;
  if (!HasValue(key)) return integers;
  const json& value = *Find(key);
  const json list = value.is_array() ? value : json::array({value});
  for (const json& element : list) {
    const std::optional<int64_t> integer = IntegerIn(element, range);
    if (!integer) {
      return Invalid(
          key, Shown(value),
          absl::StrCat("null, ", Described(range), ", or a list of such"));
    }
    integers.push_back(*integer);
  }
  return integers;
}

absl::StatusOr<std::vector<double>> JsonFields::Numbers(
    absl::string_view key, NumberRange range) const {
  if (!HasValue(key)) return Invalid(key, "is missing", "a list of numbers");
  const json& list = *Find(key);
  if (!list.is_array()) return Invalid(key, Shown(list), "a list of numbers");
  std::vector<double> numbers;
  numbers.reserve(list.size());
  for (const json& element : list) {
    const std::optional<double> number = NumberIn(element, range);
    if (!number) {
      return Invalid(absl::StrCat(key, "[", numbers.size(), "]"),
                     Shown(element), Described(range));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<std::vector<std::string>> JsonFields::Strings(
    absl::string_view key) const {
  if (!HasValue(key)) return Invalid(key, "is missing", "a list of strings");
  const json& list = *Find(key);
  if (!list.is_array()) return Invalid(key, Shown(list), "a list of strings");
  std::vector<std::string> strings;
  for (const json& element : list) {
    if (!element.is_string()) {
      return Invalid(absl::StrCat(key, "[", strings.size(), "]"),
                     Shown(element), "a string");
    }
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

absl::StatusOr<JsonFields> JsonFields::Object(absl::string_view key) const {
  if (!HasValue(key)) return Invalid(key, "is missing", "an object");
  const json& value = *Find(key);
  if (!value.is_object()) return Invalid(key, Shown(value), "an object");
  return JsonFields(value, absl::StrCat(prefix_, key, "."));
}

bool JsonFields::Empty() const { return object_.empty(); }

std::vector<std::string> JsonFields::ObjectKeys() const {
  std::vector<std::string> keys;
  for (const auto& member : object_.items()) {
    if (member.value().is_object()) keys.push_back(member.key());
  }
  return keys;
}

absl::Status JsonFields::Invalid(absl::string_view key, std::string problem,
                                 std::string valid,
                                 absl::StatusCode code) const {
  return InvalidField({.field = Name(key),
                       .problem = std::move(problem),
                       .valid = std::move(valid)},
                      code);
}

std::string JsonFields::Name(absl::string_view key) const {
  return absl::StrCat(prefix_, key);
}

}  // namespace phitap
