package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/accelmux/discover"
	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/config"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func newDiscoverCommand() *cobra.Command {
	var backendDir, level, format string
	paths := &backendv1.HostPaths{}
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Print a node configuration for the devices of this machine",
		Long: `Finds which backends, and which presets of the backend for described devices, fit this
machine, and prints a node configuration to start from. Comments in it name the devices,
and the accelerators that nothing covers: address, vendor:device, class and driver.

It starts the programs of the backends (accelmux-backend-*, but the mock) of whose manifest
some hardware is on the PCI bus, or that has none, once, without settings or with all
presets, for as long as it takes to list devices, at most 10 s. Programs of third parties are started, too. Nothing is prepared, reset or allocated. Run it as root:
backends that cannot read the hardware list less. It needs no cluster.`,
		Example: `  accelmux discover > node.yaml && accelmux validate node.yaml
  accelmux discover --sysfs /host/sys --devfs /host/dev --procfs /host/proc`,
		Args: arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), level, format)
			if err != nil {
				return err
			}
			return printDiscovered(cmd, discover.Options{
				BackendDir: backendDir, Paths: paths, Log: log,
				Waiting: func(programs []string, limit time.Duration) {
					fmt.Fprintf(cmd.ErrOrStderr(), "waiting for %s to list devices, at most %s\n", strings.Join(programs, ", "), limit)
				},
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&backendDir, "backend-dir", programDir(), "`dir`ectory of the backend programs; only its owner may have write permission")
	flags.StringVar(&paths.Sysfs, "sysfs", "/sys", "root `dir`ectory of sysfs; absolute")
	flags.StringVar(&paths.Devfs, "devfs", "/dev", "root `dir`ectory of device nodes; absolute")
	flags.StringVar(&paths.Procfs, "procfs", "/proc", "root `dir`ectory of procfs; absolute")
	logFlags(cmd, &level, &format)
	cobra.CheckErr(flags.Lookup("log-level").Value.Set(slog.LevelError.String()))
	flags.Lookup("log-level").DefValue = "error"
	arguments.Dirs(cmd, "backend-dir", "sysfs", "devfs", "procfs")
	return cmd
}

// programDir is the directory of this program if backends are beside it, and otherwise that of
// an installation.
func programDir() string {
	dir := besideExecutable()
	if found, err := filepath.Glob(filepath.Join(dir, config.CommandPrefix+"*")); err == nil && len(found) > 0 {
		return dir
	}
	return defaultBackendDir
}

func printDiscovered(cmd *cobra.Command, o discover.Options) error {
	for _, dir := range []*string{&o.Paths.Sysfs, &o.Paths.Devfs, &o.Paths.Procfs} {
		path, err := filepath.Abs(*dir)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return err
		}
		*dir = path
	}
	result, err := discover.Find(cmd.Context(), o)
	if err != nil {
		return err
	}
	text, err := result.Write()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}
