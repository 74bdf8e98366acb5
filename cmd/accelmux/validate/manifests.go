package validate

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
)

// manifests are those of the programs in a directory.
type manifests struct {
	dir    string
	loaded map[string]loaded
}

// loaded is a manifest, or why it cannot be used.
type loaded struct {
	*manifest.Manifest
	err error
}

func (m *manifests) of(command string) (*manifest.Manifest, error) {
	l, known := m.loaded[command]
	if !known {
		l.Manifest, l.err = manifest.Load(plug.ManifestFile(m.dir, command))
		m.loaded[command] = l
	}
	return l.Manifest, l.err
}

// installed returns the file names of the programs that have a manifest, sorted.
func (m *manifests) installed() (programs []string) {
	files, _ := filepath.Glob(filepath.Join(m.dir, config.CommandPrefix+"*.yaml")) // no error: the pattern is one
	for _, file := range files {
		programs = append(programs, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return programs
}

// described is what a backend is with its settings.
type described struct {
	*inventory.Backend
	rights manifest.Rights
}

// describe returns what a backend is with its settings, and reports what is wrong in these. The error is why they are not
// checked.
func (m *manifests) describe(ctx context.Context, b *config.Backend, report func(field, message string)) (described, error) {
	of, err := m.of(b.Command)
	if err != nil {
		return described{}, err
	}
	resolved, err := plug.Resolve(ctx, of, json.RawMessage(b.Settings))
	var wrong manifest.FieldErrors
	if err != nil && !errors.As(err, &wrong) {
		return described{}, err
	}
	if isDevice(b) {
		if found := expressions(resolved.Settings); found != nil { // with better places than what the rights need of them
			wrong = append(slices.DeleteFunc(wrong, func(f manifest.FieldError) bool { return strings.Contains(f.Field, "[*]") }), found...)
		}
	}
	for i, f := range wrong {
		if !slices.ContainsFunc(wrong[:i], func(other manifest.FieldError) bool {
			return other.Field == f.Field || strings.HasPrefix(f.Field, other.Field+".") // of which it may be a consequence
		}) {
			report(f.Field, f.Message)
		}
	}
	return described{plug.Describe(b.Name, of, resolved), resolved.Rights}, nil
}

// expressions returns what is wrong in the expressions and templates of described devices, which no schema knows.
func expressions(merged json.RawMessage) (wrong manifest.FieldErrors) {
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

// isDevice reports whether a backend is the one for described devices.
func isDevice(b *config.Backend) bool { return b.Command == config.CommandPrefix+"device" }

// notAllowed returns what containers would get of described devices and the configuration refuses.
func notAllowed(b *config.Backend, rights manifest.Rights) inventory.EditScope {
	if !isDevice(b) || b.Allow.Declared == config.AcceptDeclared {
		return inventory.EditScope{}
	}
	return rights.Containers.Without(inventory.EditScope{
		Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, ReadOnlyMounts: b.Allow.Mounts, Env: b.Allow.Env, NetDevices: b.Allow.NetDevices,
	})
}
