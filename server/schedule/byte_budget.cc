#include "server/schedule/byte_budget.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/refusal_reason.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

ByteBudgetOptions WithDefaults(ByteBudgetOptions options) {
  if (options.caller_limit_bytes == 0 ||
      options.caller_limit_bytes > options.limit_bytes) {
    options.caller_limit_bytes = options.limit_bytes;
  }
  return options;
}

}  // namespace

ByteBudget::Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      caller_(std::move(other.caller_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ByteBudget::Reservation& ByteBudget::Reservation::operator=(
    Reservation&& other) noexcept {
  if (this != &other) {
    Release(bytes_);
    budget_ = std::exchange(other.budget_, nullptr);
    caller_ = std::move(other.caller_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

ByteBudget::Reservation::~Reservation() { Release(bytes_); }

void ByteBudget::Reservation::Release(int64_t bytes) {
  const int64_t released = std::min(bytes, bytes_);
  bytes_ -= released;
  if (budget_ != nullptr) budget_->GiveBack(released, caller_);
}

ByteBudget::Reservation ByteBudget::Reservation::Split(int64_t bytes) {
  const int64_t taken = std::min(bytes, bytes_);
  bytes_ -= taken;
  return Reservation(budget_, caller_, taken);
}

ByteBudget::ByteBudget(ByteBudgetOptions options)
    : options_(WithDefaults(std::move(options))) {}

absl::StatusOr<ByteBudget::Reservation> ByteBudget::Reserve(
    int64_t bytes, const std::string& caller, int64_t caller_limit_bytes) {
  std::lock_guard lock(mutex_);
  const auto account = callers_bytes_.find(caller);
  RETURN_IF_ERROR(CheckRoom(
      bytes,
      {.used_bytes = account == callers_bytes_.end() ? 0 : account->second,
       .limit_bytes =
           std::min(caller_limit_bytes, options_.caller_limit_bytes)}));
  reserved_bytes_ += bytes;
  if (bytes > 0) callers_bytes_[caller] += bytes;
  return Reservation(this, caller, bytes);
}

absl::Status ByteBudget::CheckRoom(int64_t bytes,
                                   const CallersShare& share) const {
  const std::string needed =
      absl::StrCat("the request needs ", bytes, " bytes");
  const std::string kept =
      absl::StrCat(" that the server keeps for ", options_.purpose);
  if (bytes > share.limit_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        needed, ", and one caller gets at most ", share.limit_bytes, " of the ",
        options_.limit_bytes, kept, "; ask for less"));
  }
  // How much others have is not the caller's to know.
  if (bytes > options_.limit_bytes - reserved_bytes_) {
    return WithRefusalReason(absl::UnavailableError(absl::StrCat(
                                 needed, ", which are not free of the ",
                                 options_.limit_bytes, kept)),
                             RefusalReason::kMemory);
  }
  const int64_t callers_free = share.limit_bytes - share.used_bytes;
  if (bytes > callers_free) {
    return WithRefusalReason(
        absl::UnavailableError(absl::StrCat(needed, ", and ", callers_free,
                                            " of the ", share.limit_bytes, kept,
                                            " of one caller are free")),
        share.limit_bytes < options_.caller_limit_bytes
            ? RefusalReason::kByteQuota
            : RefusalReason::kCallerMemory);
  }
  return absl::OkStatus();
}

int64_t ByteBudget::reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

std::map<std::string, int64_t> ByteBudget::reserved_by_caller() const {
  std::lock_guard lock(mutex_);
  return callers_bytes_;
}

void ByteBudget::GiveBack(int64_t bytes, const std::string& caller) {
  if (bytes == 0) return;
  std::lock_guard lock(mutex_);
  reserved_bytes_ -= bytes;
  const auto account = callers_bytes_.find(caller);
  account->second -= bytes;
  if (account->second == 0) callers_bytes_.erase(account);
}

}  // namespace phitap
