// Where a model comes from.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_MODEL_SOURCE_H_
#define PHITAP_SERVER_MODELS_MODEL_SOURCE_H_

#include <string>

namespace phitap {

struct ModelSource {
  // What requests call it.
  std::string name;
  // A Hugging Face folder.
  std::string path;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_MODEL_SOURCE_H_
