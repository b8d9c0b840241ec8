#include "client/cli/activity_rates.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace phitap::cli {
namespace {

double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) +
         static_cast<double>(duration.nanos()) * 1e-9;
}

template <typename Value>
void Push(const Value& value, std::deque<Value>* past) {
  past->push_back(value);
  if (past->size() > ActivityHistory::kLength) past->pop_front();
}

}  // namespace

ActivityRates RatesBetween(const v1::WatchActivityResponse* before,
                           const v1::WatchActivityResponse& now) {
  static const v1::WatchActivityResponse kNothing;
  // The server has been started anew: its totals began again.
  const bool again = before != nullptr &&
                     SecondsOf(before->uptime()) > SecondsOf(now.uptime());
  const v1::WatchActivityResponse& from =
      before == nullptr || again ? kNothing : *before;
  const double seconds =
      std::max(SecondsOf(now.uptime()) - SecondsOf(from.uptime()), 1e-3);
  const auto rate = [&](int64_t (v1::WatchActivityResponse::*total)() const) {
    return static_cast<double>((now.*total)() - (from.*total)()) / seconds;
  };
  using Seen = v1::WatchActivityResponse;
  ActivityRates rates = {.finished = rate(&Seen::finished_requests),
                         .failed = rate(&Seen::failed_requests),
                         .refused = rate(&Seen::refused_requests),
                         .token_layers = rate(&Seen::token_layers),
                         .sent_bytes = rate(&Seen::sent_bytes)};
  const double saved = rate(&Seen::saved_token_layers);
  const double asked = rates.token_layers + saved;
  if (asked > 0) rates.saved_share = saved / asked;
  return rates;
}

void ActivityHistory::Add(const v1::WatchActivityResponse& seen) {
  const bool first = rates_.empty();
  if (!first) before_ = now_;
  now_ = seen;
  Push(RatesBetween(before_.has_value() ? &*before_ : nullptr, now_), &rates_);
  Push(static_cast<double>(now_.queued_requests()), &queued_);
}

}  // namespace phitap::cli
