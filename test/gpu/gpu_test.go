//go:build cgo

package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/nvml"
)

// Without a driver or a GPU nothing is tested, which is a failure of its own kind.
func TestNothingIsTested(t *testing.T) {
	dir := t.TempDir()
	library, err := nvml.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	double, err := nvml.New(library, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range double.Env() {
		name, value, _ := strings.Cut(env, "=")
		t.Setenv(name, value)
	}
	for _, path := range []string{double.Library(), filepath.Join(t.TempDir(), "none")} {
		if err := check(t.Context(), options{library: path}, &comparison{}); !errors.As(err, &missing{}) {
			t.Errorf("with the library %s: %v", path, err)
		}
	}
}
