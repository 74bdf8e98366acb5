package validate

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
)

// programsIn returns the file names of the programs in a directory that have a manifest, sorted.
func programsIn(dir string) (programs []string) {
	files, _ := filepath.Glob(filepath.Join(dir, config.CommandPrefix+"*.yaml")) // no error: the pattern is one
	for _, file := range files {
		programs = append(programs, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return programs
}

// expressions returns what is wrong in the expressions and templates of described devices, which no schema knows.
func expressions(command string, merged json.RawMessage) (wrong manifest.FieldErrors) {
	if command != deviceProgram {
		return nil
	}
	err := device.Check(merged)
	var fields sdk.FieldErrors
	switch {
	case errors.As(err, &fields):
		for _, f := range fields {
			wrong = append(wrong, manifest.FieldError{Field: f.Field, Message: f.Message})
		}
	case err != nil:
		wrong = append(wrong, manifest.FieldError{Message: err.Error()})
	}
	return wrong
}

// deviceProgram is the program of the backend for described devices.
const deviceProgram = config.CommandPrefix + "device"

// notAllowed returns what containers would get of described devices and the configuration refuses.
func notAllowed(b *config.Backend, rights manifest.Rights) inventory.EditScope {
	if b.Command != deviceProgram || b.Allow.Declared == config.AcceptDeclared {
		return inventory.EditScope{}
	}
	return rights.Containers.Without(inventory.EditScope{
		Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, ReadOnlyMounts: b.Allow.Mounts, Env: b.Allow.Env, NetDevices: b.Allow.NetDevices,
	})
}
