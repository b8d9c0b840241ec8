// How many tokens each caller has been answered.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_CALLER_TOKENS_H_
#define PHITAP_SERVER_RPC_CALLER_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

namespace phitap {

// Of the callers that were answered last: whoever connects anew is a new one,
// so older ones are forgotten. Thread-safe.
class CallerTokens {
 public:
  static constexpr size_t kMaxCallers = 1024;

  void Add(const std::string& caller, int64_t tokens);
  // 0 for one that is not known, or not any more.
  int64_t Of(const std::string& caller) const;

 private:
  struct Account {
    int64_t tokens = 0;
    std::list<std::string>::iterator place;
  };

  mutable std::mutex mutex_;  // Guards both.
  // Whoever was answered last comes last.
  std::list<std::string> order_;
  std::map<std::string, Account> accounts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_CALLER_TOKENS_H_
