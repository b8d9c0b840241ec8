// Seeds of tests that draw what they do.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_LOAD_SEED_H_
#define PHITAP_TESTS_SUPPORT_LOAD_SEED_H_

#include <gtest/gtest.h>

namespace phitap {

// The `number`-th of a test. The same in every run, unless --gtest_random_seed
// or GTEST_RANDOM_SEED says otherwise.
inline unsigned LoadSeed(unsigned number) {
  return static_cast<unsigned>(GTEST_FLAG_GET(random_seed)) * 1000 + number;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_LOAD_SEED_H_
