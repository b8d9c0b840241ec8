// An object of a config file, read field by field.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_JSON_FIELDS_H_
#define PHITAP_SERVER_CHECKPOINT_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

struct IntegerRange {
  int64_t min;
  int64_t max;
};

// min < value <= max.
struct NumberRange {
  double above;
  double max;
};

// Every error names the field as `SOURCE: PATH.KEY` and what would be valid;
// INVALID_ARGUMENT. A view: the object must outlive it. Thread-compatible.
class JsonFields {
 public:
  // `prefix` stands before each key in errors: `config.json: rope_scaling.`.
  JsonFields(const nlohmann::json& object, std::string prefix)
      : object_(object), prefix_(std::move(prefix)) {}

  bool Has(absl::string_view key) const { return Find(key) != nullptr; }
  // Whether the key is there with a value other than null.
  bool HasValue(absl::string_view key) const;

  // `missing` is the value of a key that is not there; null is an error.
  absl::StatusOr<int64_t> Integer(absl::string_view key, IntegerRange range,
                                  int64_t missing) const;
  absl::StatusOr<double> Number(absl::string_view key, NumberRange range,
                                double missing) const;
  absl::StatusOr<bool> Boolean(absl::string_view key, bool missing) const;
  // None where the key is not there or null.
  absl::StatusOr<std::optional<int64_t>> OptionalInteger(
      absl::string_view key, IntegerRange range) const;
  absl::StatusOr<std::optional<double>> OptionalNumber(absl::string_view key,
                                                       NumberRange range) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(
      absl::string_view key) const;
  // One integer or a list of them; empty where the key is not there or null.
  absl::StatusOr<std::vector<int64_t>> Integers(absl::string_view key,
                                                IntegerRange range) const;
  // Lists that must be there.
  absl::StatusOr<std::vector<double>> Numbers(absl::string_view key,
                                              NumberRange range) const;
  absl::StatusOr<std::vector<std::string>> Strings(absl::string_view key) const;
  absl::StatusOr<JsonFields> Object(absl::string_view key) const;

  bool Empty() const;
  // The keys whose values are themselves objects.
  std::vector<std::string> ObjectKeys() const;

  // The error of a field; the problem should name the value.
  absl::Status Invalid(
      absl::string_view key, std::string problem, std::string valid,
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;
  // `SOURCE: PATH.KEY`, for warnings.
  std::string Name(absl::string_view key) const;

 private:
  // None where the key is not there.
  const nlohmann::json* Find(absl::string_view key) const;

  const nlohmann::json& object_;
  std::string prefix_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_JSON_FIELDS_H_
