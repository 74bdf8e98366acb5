package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// binEnv names a directory that holds the binaries already.
const binEnv = "ACCELMUX_BIN"

// programs must all be there.
var programs = []string{"accelmux", "accelmux-backend-amd", "accelmux-backend-fpga", "accelmux-backend-mock", "accelmux-backend-nvidia"}

// Binaries returns a directory with the accelmux programs: the one that
// ACCELMUX_BIN names, or else a new one that they are built into from the module
// at moduleRoot. Call remove when done with it. The error is a sentence.
func Binaries(ctx context.Context, moduleRoot string) (dir string, remove func() error, err error) {
	if dir := os.Getenv(binEnv); dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", nil, err
		}
		if err := present(dir); err != nil {
			return "", nil, fmt.Errorf("%s=%s lacks a program (run `make build`, or unset it to have them built): %w", binEnv, dir, err)
		}
		return dir, func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp("", "accelmux-bin")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	for cgo, packages := range map[string]string{"0": "./cmd/...", "1": "./cmd/accelmux-backend-nvidia"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", packages)
		build.Dir = moduleRoot
		build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := build.CombinedOutput(); err != nil {
			return "", nil, errors.Join(fmt.Errorf("the accelmux programs could not be built from %s: %w\n%s", moduleRoot, err, out), remove())
		}
	}
	if err := present(dir); err != nil {
		return "", nil, errors.Join(fmt.Errorf("the build of %s left out a program: %w", moduleRoot, err), remove())
	}
	return dir, remove, nil
}

func present(dir string) error {
	var errs []error
	for _, name := range programs {
		_, err := os.Stat(filepath.Join(dir, name))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
