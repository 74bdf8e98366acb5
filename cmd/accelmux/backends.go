package main

import (
	"errors"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/accelmux/backends"
	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/config"
)

func newBackendsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "backends [NAME]",
		Short: "Show what the manifests of backends ask for, and what the configuration gives",
		Long: `Lists the programs of the backend directory, or prints the manifest of one: what it is, and what its process and its
containers get for the settings of each backend in the node configuration that has it, with the reasons. NAME is the
name of a backend in the configuration, or of a program. It starts no program and needs no agent.

manifestChecksum is what the field of that name in the node configuration pins.`,
		Example: `  accelmux backends
  accelmux backends nvidia
  accelmux backends acme --backend-dir programs --config node.yaml`,
		Args: arguments.AtMost(1),
	}
	path := command.Flags().String("config", defaultConfig, "`file` of the node configuration; the default need not exist")
	backendDir := command.Flags().String("backend-dir", programDir(), "`dir`ectory of the backend programs; only its owner may have write permission")
	arguments.Dirs(command, "backend-dir")
	arguments.File(command, "config", "yaml", "yml")
	format := outputFlag(command, outputFormats)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, outputFormats); err != nil {
			return err
		}
		c, err := config.Load(*path)
		if err != nil && (cmd.Flags().Changed("config") || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		if len(args) == 0 {
			all, err := backends.List(*backendDir, c)
			if err != nil {
				return err
			}
			return printAs(cmd.OutOrStdout(), *format, all, func(w *tabwriter.Writer) { backends.WriteList(w, all) })
		}
		detail, err := backends.Describe(cmd.Context(), *backendDir, args[0], c)
		if err != nil {
			return err
		}
		if *format == outputFormats[0] {
			detail.Write(cmd.OutOrStdout())
			return nil
		}
		return printAs(cmd.OutOrStdout(), *format, detail, nil)
	}
	return command
}
