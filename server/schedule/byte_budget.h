// How many bytes may be held for callers at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_BYTE_BUDGET_H_
#define PHITAP_SERVER_SCHEDULE_BYTE_BUDGET_H_

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phitap {

struct ByteBudgetOptions {
  // Of all callers.
  int64_t limit_bytes = 0;
  // Of one caller; 0 is all of limit_bytes.
  int64_t caller_limit_bytes = 0;
  // What the server keeps them for, e.g. "uploads", for errors.
  std::string purpose;
};

// Thread-safe. Outlives its reservations.
class ByteBudget {
 public:
  // A share of the budget; what is left of it goes back when it is destroyed.
  // Thread-compatible.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation();
    // Gives back `bytes` of it, at most what is left.
    void Release(int64_t bytes);
    // Takes `bytes` of it, at most what is left, out into one of its own.
    Reservation Split(int64_t bytes);
    int64_t bytes() const { return bytes_; }

   private:
    friend class ByteBudget;
    Reservation(ByteBudget* budget, std::string caller, int64_t bytes)
        : budget_(budget), caller_(std::move(caller)), bytes_(bytes) {}
    ByteBudget* budget_ = nullptr;
    std::string caller_;
    int64_t bytes_ = 0;
  };

  explicit ByteBudget(ByteBudgetOptions options);
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Of a caller with a bound of its own the smaller one counts. Both errors say
  // what is needed and what there is, but not how much others have.
  // RESOURCE_EXHAUSTED if `bytes` can never fit; UNAVAILABLE if they do not fit
  // beside what is reserved.
  absl::StatusOr<Reservation> Reserve(
      int64_t bytes, const std::string& caller = "",
      int64_t caller_limit_bytes = std::numeric_limits<int64_t>::max());
  int64_t reserved_bytes() const;
  // Of each caller that has any.
  std::map<std::string, int64_t> reserved_by_caller() const;

 private:
  struct CallersShare {
    int64_t used_bytes = 0;
    int64_t limit_bytes = 0;
  };

  // With mutex_ held.
  absl::Status CheckRoom(int64_t bytes, const CallersShare& share) const;
  void GiveBack(int64_t bytes, const std::string& caller);

  const ByteBudgetOptions options_;
  mutable std::mutex mutex_;  // Guards the next two.
  int64_t reserved_bytes_ = 0;
  // Of each caller that has any.
  std::map<std::string, int64_t> callers_bytes_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_BYTE_BUDGET_H_
