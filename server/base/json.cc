#include "server/base/json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 32;
// A tensor of a safetensors header is about ten values; without a bound a 100
// MB header could take gigabytes.
constexpr size_t kMaxValues = 4'000'000;
constexpr size_t kMaxShownBytes = 100;
constexpr int kNumberOverflow = 406;  // nlohmann's out_of_range id

// Builds the document value by value, and stops at the first fault.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  explicit StrictBuilder(absl::string_view text) : text_(text) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value);
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("holds binary values"); }
  bool start_object(std::size_t) override { return Descend(json::object()); }
  bool start_array(std::size_t) override { return Descend(json::array()); }
  bool end_object() override { return Ascend(); }
  bool end_array() override { return Ascend(); }

  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<json::object_t&>();
    const auto [member, inserted] = members.emplace(std::move(name), nullptr);
    if (!inserted) {
      return Fail(
          absl::StrCat("key ", QuotedName(member->first), " appears twice"));
    }
    slot_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& fault) override {
    return Fail(absl::StrCat(fault.id == kNumberOverflow
                                 ? "holds a number out of range at byte "
                                 : "is not JSON from byte ",
                             position, ", line ", LineOf(position)));
  }

  json TakeRoot() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  int64_t LineOf(size_t position) const {
    const absl::string_view before = text_.substr(0, position);
    return 1 + std::count(before.begin(), before.end(), '\n');
  }

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  bool Add(json value) {
    if (++count_ > kMaxValues) {
      return Fail(absl::StrCat("holds more than ", kMaxValues, " values"));
    }
    if (open_.empty()) {
      root_ = std::move(value);
      last_ = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      last_ = &open_.back()->back();
    } else {
      *slot_ = std::move(value);
      last_ = slot_;
    }
    return true;
  }

  bool Descend(json empty) {
    if (open_.size() == kMaxDepth) {
      return Fail(absl::StrCat("is nested deeper than ", kMaxDepth, " levels"));
    }
    if (!Add(std::move(empty))) return false;
    open_.push_back(last_);
    return true;
  }

  bool Ascend() {
    open_.pop_back();
    return true;
  }

  const absl::string_view text_;
  json root_;
  std::vector<json*> open_;  // from the root to the container being filled
  json* slot_ = nullptr;     // of the key read last
  json* last_ = nullptr;     // the value added last
  size_t count_ = 0;
  std::string error_;
};

// `text` cut to a length for messages, never within a UTF-8 sequence.
std::string Cut(absl::string_view text) {
  if (text.size() <= kMaxShownBytes) return std::string(text);
  size_t end = kMaxShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text,
                               absl::string_view source) {
  StrictBuilder builder(text);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidField(
        {.field = std::string(source), .problem = builder.error()},
        absl::StatusCode::kDataLoss);
  }
  return builder.TakeRoot();
}

std::string Shown(const json& value) {
  return Cut(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string QuotedName(absl::string_view name) {
  return absl::StrCat("\"", Cut(absl::Utf8SafeCEscape(name)), "\"");
}

}  // namespace phitap
