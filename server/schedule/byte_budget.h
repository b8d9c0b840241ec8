// How many bytes may be held for callers at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_BYTE_BUDGET_H_
#define PHITAP_SERVER_SCHEDULE_BYTE_BUDGET_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

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
    Reservation(ByteBudget* budget, int64_t bytes)
        : budget_(budget), bytes_(bytes) {}
    ByteBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  // `purpose` is what the server keeps them for, e.g. "uploads", for errors.
  ByteBudget(int64_t limit_bytes, absl::string_view purpose)
      : limit_bytes_(limit_bytes), purpose_(purpose) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // RESOURCE_EXHAUSTED, with what is needed and what is free, if `bytes` do
  // not fit beside what is reserved.
  absl::StatusOr<Reservation> Reserve(int64_t bytes);
  int64_t reserved_bytes() const;

 private:
  void GiveBack(int64_t bytes);

  const int64_t limit_bytes_;
  const std::string purpose_;
  mutable std::mutex mutex_;
  int64_t reserved_bytes_ = 0;  // Guarded by mutex_.
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_BYTE_BUDGET_H_
