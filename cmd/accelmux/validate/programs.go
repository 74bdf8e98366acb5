package validate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/mock"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/schema"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// programs describes the programs of backends.
type programs struct {
	dir string
	// described has the descriptions by the names of programs.
	described map[string]description
}

// description is what a program describes, or why that is not known.
type description struct {
	inventory.Description
	err error
}

// describe returns the description of a backend with its settings, and reports what is wrong in these.
func (p *programs) describe(ctx context.Context, b *config.Backend, report func(field, message string)) (inventory.Description, error) {
	if isDevice(b) {
		settingsOfDevice(b, report)
		d := inventory.Description{Classes: device.New().Describe().Classes}
		var err error
		d.Attributes, err = declared(device.Attributes(json.RawMessage(b.Settings)))
		return d, err
	}
	d, known := p.described[b.Command]
	if !known {
		d.Description, d.err = supervisor.Describe(ctx, supervisor.Options{BackendDir: p.dir}, supervisor.Spec{Name: b.Name, Command: b.Command, Checksum: b.Checksum, Env: b.Env, Sandbox: b.Policy()})
		p.described[b.Command] = d
	}
	if d.err == nil && d.SettingsSchema != "" && len(b.Settings) > 0 {
		all, err := schema.Violations(ctx, d.SettingsSchema, b.Settings)
		if err != nil {
			return d.Description, err
		}
		for _, v := range all {
			report(v.Field, v.Message)
		}
	}
	if d.err == nil && b.Command == config.CommandPrefix+"mock" {
		if with, err := declared(mock.Attributes(json.RawMessage(b.Settings))); err == nil {
			d.Attributes = with
		}
	}
	return d.Description, d.err
}

// declared returns the attributes that a backend would declare for settings, if err is nil.
func declared(all []*backendv1.AttributeDeclaration, err error) ([]inventory.Declaration, error) {
	if err != nil {
		return nil, err
	}
	return supervisor.ParseAttributes(all)
}

// settingsOfDevice reports what is wrong in settings of the backend for described devices.
func settingsOfDevice(b *config.Backend, report func(field, message string)) {
	err := device.Check(json.RawMessage(b.Settings))
	var fields sdk.FieldErrors
	switch {
	case errors.As(err, &fields):
		for _, f := range fields {
			report(f.Field, f.Message)
		}
	case err != nil:
		report("", err.Error())
	}
}

// isDevice reports whether a backend is the one for described devices, whose settings are checked without its program.
func isDevice(b *config.Backend) bool { return b.Command == config.CommandPrefix+"device" }

// notAllowed returns what the descriptions of devices need and the configuration does not allow.
func notAllowed(b *config.Backend) inventory.EditScope {
	if !isDevice(b) {
		return inventory.EditScope{}
	}
	needs, err := device.Needs(json.RawMessage(b.Settings))
	if err != nil {
		return inventory.EditScope{} // it was reported
	}
	scope := inventory.EditScope{
		Devices: needs.GetDeviceNodes(), Mounts: needs.GetMounts(), ReadOnlyMounts: needs.GetReadOnlyMounts(),
		Env: needs.GetEnv(), NetDevices: needs.GetNetDevices(),
	}
	if b.Allow.Declared == config.AcceptDeclared {
		scope = scope.Beyond()
	}
	return scope.Without(inventory.EditScope{Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, ReadOnlyMounts: b.Allow.Mounts, Env: b.Allow.Env, NetDevices: b.Allow.NetDevices})
}
