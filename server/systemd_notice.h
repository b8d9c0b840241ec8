// Tells systemd how far the server is: sd_notify(3), for units of Type=notify.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SYSTEMD_NOTICE_H_
#define PHITAP_SERVER_SYSTEMD_NOTICE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

inline constexpr absl::string_view kSystemdReady = "READY=1";
inline constexpr absl::string_view kSystemdStopping = "STOPPING=1";

// Sends `state` to the socket that the environment variable NOTIFY_SOCKET
// names: a path, or @ and an abstract name. OK without that variable, for then
// nobody wants to know. INVALID_ARGUMENT for another kind of address,
// UNAVAILABLE where nobody takes it.
absl::Status TellSystemd(absl::string_view state);

}  // namespace phitap

#endif  // PHITAP_SERVER_SYSTEMD_NOTICE_H_
