// How fast a server's totals rise, from one look at it to the next.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_ACTIVITY_RATES_H_
#define PHITAP_CLIENT_CLI_ACTIVITY_RATES_H_

#include <cstddef>
#include <deque>
#include <optional>

#include "phitap/v1/admin_service.pb.h"

namespace phitap::cli {

// A second.
struct ActivityRates {
  double finished = 0;
  double failed = 0;
  double refused = 0;
  double token_layers = 0;
  double sent_bytes = 0;
  // Of the token-layers that traces asked for, from 0 to 1; none where they
  // asked for none.
  std::optional<double> saved_share;
};

// Between the two; without `before` the mean since the server started.
ActivityRates RatesBetween(const v1::WatchActivityResponse* before,
                           const v1::WatchActivityResponse& now);

// What was last seen, for lines that show how it went.
class ActivityHistory {
 public:
  static constexpr size_t kLength = 120;

  // A message that came after those before it.
  void Add(const v1::WatchActivityResponse& seen);

  // Of the message that was added last; there must be one.
  const v1::WatchActivityResponse& now() const { return now_; }
  const ActivityRates& rates() const { return rates_.back(); }
  // The last one last.
  const std::deque<ActivityRates>& past_rates() const { return rates_; }
  const std::deque<double>& past_queued() const { return queued_; }

 private:
  std::optional<v1::WatchActivityResponse> before_;
  v1::WatchActivityResponse now_;
  std::deque<ActivityRates> rates_;
  std::deque<double> queued_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_ACTIVITY_RATES_H_
