#include "server/rpc/caller_tokens.h"

namespace phitap {

void CallerTokens::Add(const std::string& caller, int64_t tokens) {
  std::lock_guard lock(mutex_);
  const auto [account, is_new] = accounts_.try_emplace(caller);
  if (is_new) {
    account->second.place = order_.insert(order_.end(), caller);
  } else {
    order_.splice(order_.end(), order_, account->second.place);
  }
  account->second.tokens += tokens;
  if (accounts_.size() <= kMaxCallers) return;
  accounts_.erase(order_.front());
  order_.pop_front();
}

int64_t CallerTokens::Of(const std::string& caller) const {
  std::lock_guard lock(mutex_);
  const auto account = accounts_.find(caller);
  return account == accounts_.end() ? 0 : account->second.tokens;
}

}  // namespace phitap
