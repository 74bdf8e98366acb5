package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a node configuration without running it",
		Long: `Checks a node configuration as "accelmux run" would: it prints every error with
file, line and field, also in the descriptions of devices of the backend "device". It cannot
check the settings of other backends: these do when they run.`,
		Example: "  accelmux validate /etc/accelmux/node.yaml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := config.LoadChecked(args[0], checkDescriptions)
			if err != nil {
				return err
			}
			for _, profile := range loaded.Profiles {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: profile %s is valid (backends: %d, resources: %d)\n",
					args[0], profile.Name, len(profile.Backends), len(profile.Resources))
				for _, b := range profile.Backends {
					if b.Allow.AllowsNothing() {
						fmt.Fprintf(cmd.OutOrStdout(), "%s: backend %s may give nothing to containers: accept what it declares with allow: {declared: accept}, or list it in allow\n",
							args[0], b.Name)
					} else if missing := notAllowed(&b); !missing.Empty() {
						fmt.Fprintf(cmd.OutOrStdout(), "%s: backend %s: its devices that need these are left out unless it has allow: %s\n", args[0], b.Name, missing.YAML())
					}
				}
			}
			return nil
		},
	}
}

// checkDescriptions checks the settings of the backend for described devices, which needs no
// hardware for that.
func checkDescriptions(b *config.Backend, report func(field, message string)) {
	if b.Command != config.CommandPrefix+"device" {
		return
	}
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
