#include "server/identity/quota_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/refusal_reason.h"
#include "server/base/retry_hint.h"

namespace phitap {

QuotaBook::Place::Place(Place&& other) noexcept
    : book_(std::exchange(other.book_, nullptr)),
      identity_(std::move(other.identity_)),
      tokens_(std::exchange(other.tokens_, 0)) {}

QuotaBook::Place& QuotaBook::Place::operator=(Place&& other) noexcept {
  std::swap(book_, other.book_);
  std::swap(identity_, other.identity_);
  std::swap(tokens_, other.tokens_);
  return *this;
}

QuotaBook::Place::~Place() {
  if (book_ == nullptr) return;
  std::lock_guard lock(book_->mutex_);
  --book_->Settle(*identity_).requests;
}

absl::Status QuotaBook::Place::TakeTokens(int64_t tokens) {
  if (book_ == nullptr) return absl::OkStatus();
  const int64_t most = identity_->quotas.max_tokens_per_minute;
  const std::string needed = absl::StrCat("the request has ", tokens,
                                          " tokens (of its prompts, and those "
                                          "that it may generate)");
  if (tokens > most) {
    return WithRefusalReason(
        absl::ResourceExhaustedError(
            absl::StrCat(needed, ", and you may have ", most, " a minute")),
        RefusalReason::kTokenQuota);
  }
  std::lock_guard lock(book_->mutex_);
  Account& account = book_->Settle(*identity_);
  const double missing = account.taken_tokens + static_cast<double>(tokens) -
                         static_cast<double>(most);
  if (missing > 0) {
    const auto left =
        static_cast<int64_t>(static_cast<double>(most) - account.taken_tokens);
    const absl::Status refused = absl::UnavailableError(
        absl::StrCat(needed, ", and of your ", most, " a minute ",
                     std::max<int64_t>(left, 0), " are left"));
    return WithRetryHint(WithRefusalReason(refused, RefusalReason::kTokenQuota),
                         absl::Minutes(missing / static_cast<double>(most)));
  }
  account.taken_tokens += static_cast<double>(tokens);
  tokens_ += tokens;
  return absl::OkStatus();
}

void QuotaBook::Place::GiveBackTokens() {
  if (book_ == nullptr) return;
  std::lock_guard lock(book_->mutex_);
  Account& account = book_->Settle(*identity_);
  account.taken_tokens = std::max(
      account.taken_tokens - static_cast<double>(std::exchange(tokens_, 0)),
      0.0);
}

absl::StatusOr<QuotaBook::Place> QuotaBook::TakePlace(
    std::shared_ptr<const Identity> identity) {
  if (identity->name.empty()) return Place();
  std::lock_guard lock(mutex_);
  Account& account = Settle(*identity);
  const int64_t most = identity->quotas.max_requests;
  if (account.requests >= most) {
    return WithRefusalReason(absl::UnavailableError(absl::StrCat(
                                 "you have ", account.requests, " of at most ",
                                 most, " requests under way")),
                             RefusalReason::kRequestQuota);
  }
  ++account.requests;
  return Place(this, std::move(identity));
}

QuotaBook::Account& QuotaBook::Settle(const Identity& identity) {
  Account& account = accounts_[identity.name];
  const absl::Time now = clock_->Now();
  if (account.taken_tokens > 0) {
    // A clock that was set back gives nothing.
    const double minutes = std::max(
        absl::FDivDuration(now - account.counted_at, absl::Minutes(1)), 0.0);
    account.taken_tokens = std::max(
        account.taken_tokens -
            minutes *
                static_cast<double>(identity.quotas.max_tokens_per_minute),
        0.0);
  }
  account.counted_at = now;
  return account;
}

}  // namespace phitap
