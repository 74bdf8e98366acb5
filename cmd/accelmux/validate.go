package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/schema"
	"github.com/accelmux/accelmux/core/supervisor"
)

func newValidateCommand() *cobra.Command {
	check := settingsCheck{described: map[string]description{}}
	command := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a node configuration without running it",
		Long: `Checks a node configuration as "accelmux run" would, and prints every error with file, line and
field. The settings of a backend are checked by the schema of its program, which is started for a moment and
not configured; what only the hardware can show is found when the backend runs. Settings that could not be
checked are named. The exit status is 1 if there is an error.`,
		Example: "  accelmux validate /etc/accelmux/node.yaml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := config.LoadChecked(args[0], func(b *config.Backend, report func(field, message string)) { check.backend(cmd.Context(), b, report) })
			if other := pluginOf(args[0]); err != nil && other != "" {
				return fmt.Errorf("%s is a configuration of another device plugin: `accelmux convert %s %s` translates it", args[0], other, args[0])
			}
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(check.described)) {
				if err := check.described[name].err; err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "the settings for %s were not checked: %v\n", name, err)
				}
			}
			for _, profile := range loaded.Profiles {
				printProfile(cmd.OutOrStdout(), args[0], &profile)
			}
			return nil
		},
	}
	command.Flags().StringVar(&check.backendDir, "backend-dir", programDir(), "`dir`ectory of the backend programs; only its owner may have write permission")
	completeDirs(command, "backend-dir")
	return command
}

// printProfile prints that a profile is valid, and what its author may not have meant.
func printProfile(w io.Writer, file string, profile *config.Profile) {
	fmt.Fprintf(w, "%s: profile %s is valid (backends: %d, resources: %d)\n", file, profile.Name, len(profile.Backends), len(profile.Resources))
	for i := range profile.Resources {
		r := &profile.Resources[i]
		if by := slices.IndexFunc(profile.Resources[:i], func(earlier config.Resource) bool { return earlier.Covers(r) }); by >= 0 {
			fmt.Fprintf(w, "%s: resource %s gets no device: %s, before it, takes them all: put %s first, or limit %s by backend, class or selector\n",
				file, r.Name, profile.Resources[by].Name, r.Name, profile.Resources[by].Name)
		}
	}
	for _, b := range profile.Backends {
		if b.Allow.AllowsNothing() {
			fmt.Fprintf(w, "%s: backend %s may give nothing to containers: accept what it declares with allow: {declared: accept}, or list it in allow\n", file, b.Name)
		} else if missing := notAllowed(&b); !missing.Empty() {
			fmt.Fprintf(w, "%s: backend %s: its devices that need these are left out unless it has allow: %s\n", file, b.Name, missing.YAML())
		}
	}
}

// pluginOf returns the name that accelmux convert has for the device plugin whose configuration is in a file; "" if
// it is none that can be told by its fields.
func pluginOf(path string) string {
	text, err := os.ReadFile(path)
	var fields map[string]any
	if err != nil || yaml.Unmarshal(text, &fields) != nil || fields["apiVersion"] != nil {
		return ""
	}
	for _, plugin := range []struct {
		name string
		all  []string
		any  []string
	}{
		{"nvidia-device-plugin", []string{"version"}, []string{"flags", "resources", "sharing", "imex"}},
		{"amd-device-plugin", []string{"gpu"}, nil},
		{"sriov-device-plugin", []string{"resourceList"}, nil},
		{"rdma-shared-device-plugin", []string{"configList"}, nil},
		{"kubevirt", []string{"permittedHostDevices"}, nil},
	} {
		has := func(field string) bool { _, ok := fields[field]; return ok }
		if !slices.ContainsFunc(plugin.all, func(f string) bool { return !has(f) }) && (plugin.any == nil || slices.ContainsFunc(plugin.any, has)) {
			return plugin.name
		}
	}
	return ""
}

// settingsCheck checks the settings of backends.
type settingsCheck struct {
	backendDir string
	// described has the schemas by the names of programs.
	described map[string]description
}

// description is the schema of a program's settings, "" if it has none, or why it is not known.
type description struct {
	schema string
	err    error
}

// backend reports what is wrong in the settings of a backend.
func (c *settingsCheck) backend(ctx context.Context, b *config.Backend, report func(field, message string)) {
	if b.Command == config.CommandPrefix+"device" {
		checkDescriptions(b, report)
		return
	}
	d, known := c.described[b.Command]
	if !known {
		found, err := supervisor.Describe(ctx, supervisor.Options{BackendDir: c.backendDir}, supervisor.Spec{Name: b.Name, Command: b.Command, Checksum: b.Checksum, Env: b.Env, Sandbox: b.Policy()})
		d = description{found.SettingsSchema, err}
	}
	if d.err == nil && d.schema != "" && len(b.Settings) > 0 {
		var all []schema.Violation
		all, d.err = schema.Violations(ctx, d.schema, b.Settings)
		for _, v := range all {
			report(v.Field, v.Message)
		}
	}
	c.described[b.Command] = d
}

// checkDescriptions checks the settings of the backend for described devices, which needs no
// program for that.
func checkDescriptions(b *config.Backend, report func(field, message string)) {
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

// notAllowed returns what the descriptions of devices need and the configuration does not allow.
func notAllowed(b *config.Backend) inventory.EditScope {
	if b.Command != config.CommandPrefix+"device" {
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
