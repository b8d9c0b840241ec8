// Whether matrices are held once more, as products read them fastest.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_WEIGHT_PACKING_H_
#define PHITAP_SERVER_MODEL_WEIGHT_PACKING_H_

namespace phitap {

enum class WeightPacking {
  kNone,
  // As many bytes again where it pays: for bfloat16, on CPUs that have it. The
  // memory that a mapped file took is given back.
  kPacked,
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_WEIGHT_PACKING_H_
