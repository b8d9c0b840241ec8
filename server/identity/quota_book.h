// What identities have under way, and what they may still have.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_QUOTA_BOOK_H_
#define PHITAP_SERVER_IDENTITY_QUOTA_BOOK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/identity/identity.h"

namespace phitap {

// Thread-safe. Outlives the places that it gives. Callers without a name are
// not counted.
class QuotaBook {
 public:
  // A request's place among those that its identity may have at once; free
  // again when it is destroyed. Thread-compatible.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) noexcept;
    ~Place();

    // Charges the request with so many tokens. RESOURCE_EXHAUSTED if no minute
    // has as many for the identity; UNAVAILABLE, with a hint when there will be
    // (see RetryHintOf), if this one has not. Both say how many.
    absl::Status TakeTokens(int64_t tokens);
    // The request was refused after all.
    void GiveBackTokens();

   private:
    friend class QuotaBook;
    Place(QuotaBook* book, std::shared_ptr<const Identity> identity)
        : book_(book), identity_(std::move(identity)) {}
    QuotaBook* book_ = nullptr;
    std::shared_ptr<const Identity> identity_;
    int64_t tokens_ = 0;
  };

  // `clock` outlives the book.
  explicit QuotaBook(const Clock* clock) : clock_(clock) {}

  // UNAVAILABLE, with how many there may be, if the identity has as many.
  absl::StatusOr<Place> TakePlace(std::shared_ptr<const Identity> identity);

 private:
  struct Account {
    int64_t requests = 0;
    // Tokens that were taken and have not come back yet: those of a minute do
    // within a minute, evenly.
    double taken_tokens = 0;
    absl::Time counted_at = absl::InfinitePast();
  };

  // With mutex_ held: the account as it is now.
  Account& Settle(const Identity& identity);

  const Clock* const clock_;
  std::mutex mutex_;  // Guards the accounts, by identity.
  std::map<std::string, Account> accounts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_QUOTA_BOOK_H_
