#include "server/identity/identity.h"

namespace phitap {

absl::string_view Name(Role role) {
  switch (role) {
    case Role::kTrace:
      return "trace";
    case Role::kTensors:
      return "tensors";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

}  // namespace phitap
