package kubelettest

import "os"

// TempDir makes a directory for a node by [os.MkdirTemp]: below TMPDIR, or below /tmp if
// the name of TMPDIR has more than longest bytes, which leaves no room for sockets.
func TempDir(pattern string, longest int) (string, error) {
	base := os.TempDir()
	if len(base) > longest {
		base = "/tmp"
	}
	return os.MkdirTemp(base, pattern)
}
