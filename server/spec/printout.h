// The module tree with its values, as nnterp prints it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_PRINTOUT_H_
#define PHITAP_SERVER_SPEC_PRINTOUT_H_

#include <string>

#include "server/spec/model_spec.h"

namespace phitap {

// What `print(model)` shows in nnterp for a checkpoint of this specification,
// letter for letter: its modules (nnsight's own generator among them), its
// layouts with their batch dimension, its descriptions. For readers who know
// that page; the catalogue is what this server offers. Ends without a newline.
std::string Printout(const ModelSpec& spec);

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_PRINTOUT_H_
