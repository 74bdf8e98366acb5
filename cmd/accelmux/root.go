package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/status"
)

// The usual places; every one is a flag.
const (
	defaultConfig     = "/etc/accelmux/node.yaml"
	defaultKubeletDir = "/var/lib/kubelet"
	defaultCDIDir     = "/var/run/cdi"
	defaultStateDir   = "/var/lib/accelmux"
	defaultRunDir     = "/run/accelmux"
	defaultBackendDir = "/usr/libexec/accelmux"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "accelmux",
		Short: "One node agent for every accelerator",
		Long: `accelmux serves a node's accelerators to Kubernetes. It owns everything that
kubelet sees; each vendor's driver code runs in a backend process of its own.

Try "accelmux demo": it needs no cluster, no root and no hardware.`,
		Version:       status.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newRunCommand(),
		newDemoCommand(),
		newDevicesCommand(),
		newStatusCommand(),
		newTopCommand(),
		newTopologyCommand(),
		newValidateCommand(),
	)
	return root
}

// besideExecutable is the directory of the running program, where a build puts
// the backends too; "" if it can't be found.
func besideExecutable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// completeDirs makes a flag complete directories only.
func completeDirs(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		cobra.CheckErr(cmd.MarkFlagDirname(flag))
	}
}
