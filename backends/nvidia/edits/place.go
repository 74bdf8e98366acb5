package edits

import (
	"fmt"
	"path/filepath"
	"strings"
)

// place is a directory: its path in this process, and on the host.
type place struct{ here, host string }

// toHost returns the host's path of a file below the place.
func (p place) toHost(path string) (string, error) {
	rest, ok := below(p.here, path)
	if !ok {
		return "", fmt.Errorf("%s is not below %s, so the host's path of it is not known", path, p.here)
	}
	return filepath.Join(p.host, rest), nil
}

// below returns the path relative to the directory, starting with a slash.
func below(dir, path string) (string, bool) {
	if dir == "/" {
		return path, filepath.IsAbs(path)
	}
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || (rest != "" && rest[0] != '/') {
		return "", false
	}
	return "/" + strings.TrimPrefix(rest, "/"), true
}

// field appends a name to a path in the settings.
func field(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
