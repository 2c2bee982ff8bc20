// No output may take the place of what the same command reads, or of another of its outputs: a name typed
// twice would cost the trace.
#pragma once
#include <string>
#include <vector>

/// A file of the command line; `name` says which one ("--html", "the trace"). An empty path is none.
struct NamedPath {
  std::string name, path;
};

/// Throws dropless::Error naming the output and what it would overwrite: one of `inputs`, a file that may be
/// a rank's in an input that is a folder, or an earlier one of `outputs`. Files are the same where device and
/// inode are, links followed; pipes and terminals never are.
void refuse_overwriting(const std::vector<NamedPath>& inputs, const std::vector<NamedPath>& outputs);
