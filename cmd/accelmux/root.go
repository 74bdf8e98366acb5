package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/status"
)

// The default paths; each has a flag.
const (
	defaultConfig     = "/etc/accelmux/node.yaml"
	defaultCDIDir     = "/var/run/cdi"
	defaultStateDir   = "/var/lib/accelmux"
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
	root.SetFlagErrorFunc(arguments.FlagError)
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
	)
	strictCompletion(root)
	strictHelp(root)
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

// strictHelp makes "help" fail for an unknown command; cobra's own succeeds.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Run = nil
		help.RunE = func(_ *cobra.Command, args []string) error {
			if err := arguments.CheckCommand(root, args); err != nil {
				return err
			}
			cmd, _, err := root.Find(args)
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		}
	}
}

// strictCompletion makes "completion" fail for an unknown shell; cobra's own prints its help,
// into the file that was meant for the script.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
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
