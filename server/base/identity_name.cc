#include "server/base/identity_name.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/json.h"

namespace phitap {
namespace {

constexpr size_t kMaxBytes = 64;
constexpr absl::string_view kOthers = "_-.@";

bool IsAllowed(unsigned char letter) {
  return absl::ascii_isalnum(letter) ||
         kOthers.find(static_cast<char>(letter)) != absl::string_view::npos;
}

}  // namespace

absl::Status CheckIdentityName(absl::string_view name,
                               absl::string_view field) {
  const bool is_name = !name.empty() && name.size() <= kMaxBytes &&
                       name.front() != '.' &&
                       std::all_of(name.begin(), name.end(), IsAllowed);
  if (is_name) return absl::OkStatus();
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat(QuotedName(name), " is no name of an identity"),
       .valid = absl::StrCat("at most ", kMaxBytes,
                             " letters, digits, `_`, `-`, `.` and `@`, not "
                             "starting with `.`")});
}

}  // namespace phitap
