// Log files that others move away: programs such as logrotate do, and then send SIGHUP.
#ifndef BATON_SDK_BASE_LOG_FILES_H_
#define BATON_SDK_BASE_LOG_FILES_H_

namespace baton {

/// Opens what InitLog named once more, under its name; later lines go there. Without a file it does
/// nothing. When the file cannot be opened, the old one stays, and a warning is logged.
/// Thread-safe.
void ReopenLog();

/// Whether SIGHUP is a program's to reopen its files. False for one that logs to a terminal: it
/// ends with the terminal.
bool ReopensOnHangup();

}  // namespace baton

#endif  // BATON_SDK_BASE_LOG_FILES_H_
