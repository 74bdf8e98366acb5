package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
)

// The default paths; each has a flag.
const (
	defaultConfig     = "/etc/accelmux/node.yaml"
	defaultCDIDir     = "/var/run/cdi"
	defaultStateDir   = inventory.DefaultStateDir
	defaultRunDir     = "/run/accelmux"
	defaultBackendDir = "/usr/libexec/accelmux"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "accelmux",
		Short: "One node agent for every accelerator",
		Long: `accelmux serves a node's accelerators to Kubernetes. It serves kubelet; each vendor's driver code runs in a backend process of its own.

Try "accelmux demo": it needs no cluster, no root and no hardware.`,
		Version:       status.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newRunCommand(),
		newDemoCommand(),
		newBackendsCommand(),
		newCheckBackendCommand(),
		newConvertCommand(),
		newDevicesCommand(),
		newDiscoverCommand(),
		newDoctorCommand(),
		newStatusCommand(),
		newTopCommand(),
		newTopologyCommand(),
		newValidateCommand(),
		newVersionCommand(),
		newWebhookCommand(),
		newLauncherCommand(),
		newAwaitPauseCommand(),
	)
	arguments.Strict(root)
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, as --version does",
		Args:  arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Root().Name(), status.Version)
			return err
		},
	}
}

// besideExecutable returns the directory of the running program, where `make build` puts the
// backends, too; "" if it is unknown.
func besideExecutable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// completeDirs makes the flags complete directories only.
func completeDirs(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		cobra.CheckErr(cmd.MarkFlagDirname(flag))
	}
}
