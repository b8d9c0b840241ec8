// What the functions of programs are called and take.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_FUNCTIONS_H_
#define PHITAP_SERVER_PLAN_PROGRAM_FUNCTIONS_H_

#include "absl/strings/string_view.h"
#include "server/plan/program.h"

namespace phitap {

// How many inputs a function takes.
int ArityOf(Function function);
// "add", "jump_relu", …
absl::string_view Name(Function function);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_FUNCTIONS_H_
