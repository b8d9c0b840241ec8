// Philox4x32-10, a random number generator without a state.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_PHILOX_H_
#define PHITAP_SERVER_TRACE_PHILOX_H_

#include <array>
#include <cstdint>

namespace phitap {

// Four uniform words for a counter and a key: ten rounds of Salmon, Moraes,
// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with
// the paper's constants.
inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr uint64_t kFirstFactor = 0xD2511F53;
  constexpr uint64_t kSecondFactor = 0xCD9E8D57;
  constexpr uint32_t kFirstWeyl = 0x9E3779B9;   // from the golden ratio
  constexpr uint32_t kSecondWeyl = 0xBB67AE85;  // from √3 − 1
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t first = kFirstFactor * counter[0];
    const uint64_t second = kSecondFactor * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(first)};
    key[0] += kFirstWeyl;
    key[1] += kSecondWeyl;
  }
  return counter;
}

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_PHILOX_H_
