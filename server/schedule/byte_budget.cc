#include "server/schedule/byte_budget.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phitap {

ByteBudget::Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ByteBudget::Reservation& ByteBudget::Reservation::operator=(
    Reservation&& other) noexcept {
  if (this != &other) {
    Release(bytes_);
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

ByteBudget::Reservation::~Reservation() { Release(bytes_); }

void ByteBudget::Reservation::Release(int64_t bytes) {
  const int64_t released = std::min(bytes, bytes_);
  bytes_ -= released;
  if (budget_ != nullptr) budget_->GiveBack(released);
}

ByteBudget::Reservation ByteBudget::Reservation::Split(int64_t bytes) {
  const int64_t taken = std::min(bytes, bytes_);
  bytes_ -= taken;
  return Reservation(budget_, taken);
}

absl::StatusOr<ByteBudget::Reservation> ByteBudget::Reserve(int64_t bytes) {
  std::lock_guard lock(mutex_);
  const int64_t free_bytes = limit_bytes_ - reserved_bytes_;
  if (bytes > free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the request needs ", bytes, " bytes, and ", free_bytes, " of the ",
        limit_bytes_, " that the server keeps for ", purpose_, " are free; ",
        bytes > limit_bytes_ ? "ask for less" : "try again later"));
  }
  reserved_bytes_ += bytes;
  return Reservation(this, bytes);
}

int64_t ByteBudget::reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

void ByteBudget::GiveBack(int64_t bytes) {
  std::lock_guard lock(mutex_);
  reserved_bytes_ -= bytes;
}

}  // namespace phitap
