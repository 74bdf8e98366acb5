package realkubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ReleaseEnv and programEnv choose the kubelet.
const (
	ReleaseEnv = "KUBELET"
	programEnv = "KUBELET_PROGRAM"
)

// Program returns the path of the program manager: the one that KUBELET_PROGRAM
// names, or else a new one with the release that KUBELET names, built from the
// module at moduleDir. Call remove when done with it. The error is a sentence.
func Program(ctx context.Context, moduleDir string) (path string, remove func() error, err error) {
	if path := os.Getenv(programEnv); path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return "", nil, err
		}
		if _, err := os.Stat(path); err != nil {
			return "", nil, fmt.Errorf("%s names no program (unset it to have one built): %w", programEnv, err)
		}
		return path, func() error { return nil }, nil
	}
	release := os.Getenv(ReleaseEnv)
	if release == "" {
		out, err := exec.CommandContext(ctx, filepath.Join(moduleDir, "manager/releases.sh")).Output()
		if err != nil {
			return "", nil, fmt.Errorf("list the releases of kubelet: %w", err)
		}
		all := strings.Fields(string(out))
		release = all[len(all)-1]
	}
	dir, err := os.MkdirTemp("", "kubelet-program")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	path = filepath.Join(dir, "kubelet-"+release)
	if out, err := exec.CommandContext(ctx, filepath.Join(moduleDir, "manager/build.sh"), release, path).CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("kubelet %s could not be built: %w\n%s", release, err, out), remove())
	}
	return path, remove, nil
}
